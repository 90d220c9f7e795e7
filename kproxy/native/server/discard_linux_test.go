package server_test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// linger returns a TCP socket whose last close takes an hour, or until the end of the test: the peer does not take the
// data.
func linger(t *testing.T) *os.File {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "linger")
	a := l.Addr().(*net.TCPAddr)
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte(a.IP.To4()), Port: a.Port}))
	peer, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { peer.Close() }) // data that was not read is lost, and resets the connection
	b := make([]byte, 1<<16)
	for err == nil {
		_, err = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT)
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	require.NoError(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1,
		Linger: 3600}))
	return f
}

// TestDescriptorThatDoesNotClose sends sockets that do not close. The daemon ends the connections of the user after a
// time, accepts no more of them meanwhile, and can be stopped.
func TestDescriptorThatDoesNotClose(t *testing.T) {
	clk := clock.NewVirtual(0)
	r := newRigAt(t, kproxy.Config{}, clk)
	other := r.client()
	require.NoError(t, other.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{})) // Hello has no timer now
	a, b, err := native.Pair()
	require.NoError(t, err)
	defer b.Close()
	f := linger(t)
	m := native.Append(native.Start(nil), &schema.Hello{Version: schema.Version, PointerBits: 64})
	require.NoError(t, native.Finish(m, native.Header{Command: schema.CmdHello, ID: 99}))
	require.NoError(t, b.Send(m, []*os.File{f}))
	require.NoError(t, f.Close()) // the copy in the message is the last one
	r.server.ServeConn(a)

	// Time passes until the daemon gives up to wait for the close, and closes further connections at once.
	require.Eventually(t, func() bool {
		clk.Advance(10 * time.Second)
		x := r.raw().c
		defer x.Close()
		return x.Send(native.Start(nil), nil) != nil
	}, time.Minute, time.Millisecond, "no further connection is accepted")
	_, _, _ = b.Recv(make([]byte, schema.MaxMessage)) // Hello is answered, or too late

	require.NoError(t, other.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "without descriptors")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	require.NoError(t, other.c.Send(m, []*os.File{write}))
	_, _, err = other.recv()
	require.ErrorIs(t, err, io.EOF, "no further descriptor is accepted")
	write.Close()
	b.Close()
	r.gone()
	r.server.Close()
}

// TestConnectionsOfOneUser opens connections that never send Hello. One user has not all that there are.
func TestConnectionsOfOneUser(t *testing.T) {
	const perUser, greeting, more = 3, 32, 20
	r := newRigAt(t, kproxy.Config{MaxClients: 1000, MaxClientsPerUser: perUser}, clock.NewVirtual(0))
	var list []*client
	for range perUser + greeting + more {
		list = append(list, r.raw())
	}
	closed := 0
	for _, c := range list {
		if c.c.Send(native.Start(nil), nil) != nil {
			closed++
		}
	}
	assert.Equal(t, more, closed)
}
