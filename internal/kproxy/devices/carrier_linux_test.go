package devices

import (
	"math"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// carrierRig returns a socket that is connected to a server, and the server's front end.
func carrierRig(t *testing.T) (int, *fake) {
	f := &fake{closed: make(chan struct{})}
	return carrierOf(t, f), f
}

// carrierOf returns a socket that is connected to a server of a front end.
func carrierOf(t *testing.T, f FrontEnd) int {
	s := New(f, 2, clock.Real())
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	c, err := native.FileConn(os.NewFile(uintptr(fds[0]), "server"))
	require.NoError(t, err)
	s.ServeConn(c)
	t.Cleanup(s.Close)
	t.Cleanup(func() { unix.Close(fds[1]) })
	return fds[1]
}

func pidfd(t *testing.T, pid int) *os.File {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "process")
	t.Cleanup(func() { f.Close() })
	return f
}

// TestCarrier executes calls as a carrier in Go does.
func TestCarrier(t *testing.T) {
	socket, _ := carrierRig(t)
	o, err := Open(socket, "/dev/x", nil)
	require.NoError(t, err)
	assert.Equal(t, &Opened{Major: 231, Minor: 192, Daemon: os.Getpid()}, o)
	r, err := Call(socket, &Request{Data: []byte("hello")})
	require.NoError(t, err)
	assert.Equal(t, &Reply{Result: 5, Stores: []Store{{Addr: 5, Data: []byte("hello")}}}, r)
	r, err = Call(socket, &Request{IsIoctl: true, Ioctl: 1})
	require.NoError(t, err)
	assert.Equal(t, syscall.ENOTTY, r.Errno)
	r, err = Call(socket, &Request{IsIoctl: true, Ioctl: 3 << 40, Operand: 8})
	require.NoError(t, err)
	assert.Equal(t, syscall.ENOTTY, r.Errno, "the upper half is not part of the number")
	r, err = Call(socket, &Request{IsIoctl: true, Ioctl: 2, Operand: 8})
	require.NoError(t, err)
	assert.Equal(t, []Range{{Addr: 8, Size: 4}}, r.NeedMemory)
	r, err = Call(socket, &Request{IsIoctl: true, Ioctl: 2, Operand: 8,
		Memory: []Range{{Addr: 8, Data: []byte("abcd")}}})
	require.NoError(t, err)
	assert.Equal(t, []Store{{Addr: 8, Data: []byte("abcd")}}, r.Stores)
	r, err = Call(socket, &Request{Data: []byte("file")})
	require.NoError(t, err)
	require.True(t, r.NeedFile)
	assert.Equal(t, int32(5), r.Number)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	r, err = Call(socket, &Request{Data: []byte("file"), Number: 5, File: null})
	require.NoError(t, err)
	assert.Equal(t, int64(5), r.Result)
}

// readable is a fake whose file can be read. It returns zeros.
type readable struct{ *fake }

func (f readable) Open(path string, p kproxy.Peer) (File, error) {
	if _, err := f.fake.Open(path, p); err != nil {
		return nil, err
	}
	return f, nil
}

func (f readable) Read(addr, size uint64) *Reply {
	return &Reply{Result: int64(size), Stores: []Store{{Addr: addr, Data: make([]byte, size)}}}
}

// TestRead reads files that can be read, and one that cannot.
func TestRead(t *testing.T) {
	socket, _ := carrierRig(t)
	_, err := Open(socket, "/dev/x", nil)
	require.NoError(t, err)
	r, err := Read(socket, 8, 16)
	require.NoError(t, err)
	assert.Equal(t, syscall.EINVAL, r.Errno)

	socket = carrierOf(t, readable{&fake{closed: make(chan struct{})}})
	_, err = Open(socket, "/dev/x", nil)
	require.NoError(t, err)
	for size, want := range map[uint64]int{0: 0, 16: 16, MaxRead: MaxRead, math.MaxUint64: MaxRead} {
		r, err = Read(socket, 8, size)
		require.NoError(t, err)
		assert.Equal(t, &Reply{Result: int64(want), Stores: []Store{{Addr: 8, Data: make([]byte, want)}}}, r)
	}
}

// TestCarrierErrors opens a file that does not exist, and calls without a daemon.
func TestCarrierErrors(t *testing.T) {
	socket, _ := carrierRig(t)
	_, err := Open(socket, "/dev/none", nil)
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = Call(socket, &Request{Data: []byte("x")})
	require.ErrorIs(t, err, syscall.EIO, "the server has closed the connection")
	Wake(socket)
	Discard(socket)
}

// TestOpenForProcess opens a file for another process. The server closes the connection when that ends.
func TestOpenForProcess(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	socket, f := carrierRig(t)
	_, err = Open(socket, "/dev/x", pidfd(t, cmd.Process.Pid))
	require.NoError(t, err)
	peer := f.opener()
	assert.Equal(t, cmd.Process.Pid, peer.PID)
	assert.Equal(t, os.Getuid(), peer.UID)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	<-f.closed
}

// TestOpenForOthers names processes that the carrier may not act for.
func TestOpenForOthers(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	socket, _ := carrierRig(t)
	_, err = Open(socket, "/dev/x", null)
	require.ErrorIs(t, err, syscall.EBADF, "no pidfd")

	cmd := exec.Command("cat")
	require.NoError(t, cmd.Start())
	gone := pidfd(t, cmd.Process.Pid)
	require.NoError(t, cmd.Wait())
	socket, _ = carrierRig(t)
	_, err = Open(socket, "/dev/x", gone)
	require.ErrorIs(t, err, syscall.ESRCH, "a process that has ended")

	if os.Getuid() != 0 {
		return
	}
	cmd = exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	socket, _ = carrierRig(t)
	_, err = Open(socket, "/dev/x", pidfd(t, cmd.Process.Pid))
	require.ErrorIs(t, err, syscall.EPERM, "a process of another user")
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

// FuzzReply decodes replies of a daemon that sends anything.
func FuzzReply(f *testing.F) {
	b, _ := encodeReply(&Reply{Result: 1, Stores: []Store{{1, []byte("abc")}, {2, nil}}, Bell: &Bell{1, 2, true}})
	f.Add(b, byte(0))
	f.Add(b[:50], byte(1))
	f.Fuzz(func(t *testing.T, b []byte, n byte) {
		r, err := parseReply(b, make([]*os.File, n%8))
		if err != nil {
			return
		}
		total := 0
		for _, s := range r.Stores {
			total += len(s.Data)
		}
		require.LessOrEqual(t, total, len(b))
		again, files := encodeReply(r)
		back, err := parseReply(again, files)
		require.NoError(t, err)
		require.Len(t, back.Stores, len(r.Stores))
		require.Equal(t, r.Bell, back.Bell)
	})
}
