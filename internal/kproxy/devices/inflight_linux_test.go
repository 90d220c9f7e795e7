package devices

import (
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// unread sends a call whose reply has a descriptor, and returns the socket for the reply.
func (r *rig) unread() int {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(r.t, err)
	theirs := os.NewFile(uintptr(fds[1]), "reply")
	defer theirs.Close()
	require.NoError(r.t, r.c.Send(encodeRequest(&message{op: opWrite, data: []byte("x")}), []*os.File{theirs}))
	return fds[0]
}

// next receives a message of a socket for a reply, and returns the errno. io.EOF: the daemon has closed it.
func next(t *testing.T, socket int) (syscall.Errno, error) {
	require.NoError(t, unix.SetNonblock(socket, false))
	b, oob := make([]byte, 1000), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, err := recvAll(socket, b, oob)
	require.NoError(t, err)
	native.CloseFiles(filesOf(oob[:oobn]))
	if n == 0 {
		return 0, io.EOF
	}
	return syscall.Errno(ne.Uint32(b)), nil
}

// nulls is a front end and its files. Each call returns a descriptor.
type nulls struct {
	closed chan struct{}
	unsent atomic.Int32
}

func (n *nulls) Tree() []Entry { return nil }

func (n *nulls) Open(string, kproxy.Peer) (File, error) { return n, nil }

func (n *nulls) Device() (major, minor uint32) { return 231, 192 }

func (n *nulls) Bell() {}

func (n *nulls) Close() { n.closed <- struct{}{} }

func (n *nulls) Call(*Request) *Reply {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return Fail(errnoOf(err))
	}
	return &Reply{Files: []Descriptor{{File: f, Close: true}}, Unsent: func() { n.unsent.Add(1) }}
}

// TestRepliesNotReceived makes calls whose replies have descriptors, and does not receive them. Beyond a limit, the
// calls fail; other programs are served. Replies stay in flight when the device file is closed, until they are received
// or their sockets are closed.
func TestRepliesNotReceived(t *testing.T) {
	clk := clock.NewVirtual(0)
	f := &nulls{closed: make(chan struct{}, 10)}
	s := New(f, 8, clk)
	t.Cleanup(s.Close)
	open := func() *rig {
		r := &rig{t: t, s: s}
		r.c = r.dial()
		r.open()
		return r
	}
	hostile, honest := open(), open()
	const most = 16 // in flight to one process
	var sockets []int
	for range most {
		sockets = append(sockets, hostile.unread())
	}
	requireInFlight(t, most)
	late := hostile.unread()
	require.Eventually(t, func() bool {
		clk.Advance(time.Second)
		_, _, err := unix.Recvfrom(late, make([]byte, 1), unix.MSG_PEEK)
		return err == nil
	}, time.Minute, time.Millisecond, "the call fails after some time")
	errno, err := next(t, late)
	require.NoError(t, err)
	assert.Equal(t, syscall.ENFILE, errno)
	_, err = next(t, late)
	require.ErrorIs(t, err, io.EOF)
	assert.EqualValues(t, 1, f.unsent.Load())
	for range most + 1 {
		b, files := honest.call(message{op: opWrite, data: []byte("x")})
		require.Len(t, files, 1)
		require.Zero(t, ne.Uint32(b))
		native.CloseFiles(files)
	}

	errno, err = next(t, sockets[0])
	require.NoError(t, err)
	assert.Zero(t, errno)
	requireInFlight(t, most-1)
	_, err = next(t, sockets[0])
	require.ErrorIs(t, err, io.EOF, "the daemon has closed its copy of the socket")
	again := hostile.unread()
	requireInFlight(t, most)
	waiting := hostile.unread()
	require.NoError(t, hostile.c.Close())
	<-f.closed
	require.Eventually(t, func() bool {
		n, _, err := unix.Recvfrom(waiting, make([]byte, 1), unix.MSG_DONTWAIT)
		return n == 0 && err == nil
	}, time.Minute, time.Millisecond, "the end of the connection ends a call whose reply waits")
	requireInFlight(t, most)
	for _, fd := range append(sockets, again, late, waiting) {
		require.NoError(t, unix.Close(fd))
	}
	requireInFlight(t, 0)
	assert.EqualValues(t, 2, f.unsent.Load())
}

// requireInFlight waits until a number of descriptors are in flight. A message is in flight, too, until the call that
// has sent it returns.
func requireInFlight(t *testing.T, want int) {
	require.Eventually(t, func() bool {
		n, _ := native.InFlight()
		return n == want
	}, time.Minute, time.Millisecond)
}
