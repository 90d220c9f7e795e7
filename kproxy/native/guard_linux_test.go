package native

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/passedfd"
)

// guarded returns two ends, of which the second one is guarded.
func guarded(t *testing.T) (from, to *Conn) {
	from, to, err := Pair()
	require.NoError(t, err)
	t.Cleanup(func() {
		from.Close()
		to.Close()
	})
	to.Guard(passedfd.NewDiscarder(clock.Real()))
	return from, to
}

// TestGuard receives descriptors of several kinds. Those of files and directories of file systems are replaced by an
// empty file, also if they are in non-blocking mode, and others are not.
func TestGuard(t *testing.T) {
	from, to := guarded(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	file := func(fd int, err error) *os.File {
		require.NoError(t, err)
		f := os.NewFile(uintptr(fd), "sent")
		t.Cleanup(func() { f.Close() })
		return f
	}
	for name, x := range map[string]struct {
		f        *os.File
		replaced bool
	}{
		"memfd":     {f: file(unix.MemfdCreate("m", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))},
		"pipe":      {f: read},
		"socket":    {f: file(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))},
		"pidfd":     {f: file(unix.PidfdOpen(os.Getpid(), 0))},
		"eventfd":   {f: file(unix.Eventfd(0, 0))},
		"device":    {f: file(unix.Open(os.DevNull, unix.O_RDWR, 0))},
		"file":      {f: file(unix.Open("/proc/self/status", unix.O_RDONLY, 0)), replaced: true},
		"polled":    {f: file(unix.Open("/proc/self/mounts", unix.O_RDONLY|unix.O_NONBLOCK, 0)), replaced: true},
		"directory": {f: file(unix.Open("/proc", unix.O_RDONLY, 0)), replaced: true},
		"path":      {f: file(unix.Open("/proc/self/status", unix.O_PATH, 0)), replaced: true},
	} {
		require.NoError(t, from.Send([]byte{1}, []*os.File{x.f, write}), name)
		_, files, err := to.Recv(make([]byte, 10))
		require.NoError(t, err, name)
		require.Len(t, files, 2, name)
		sent, err := x.f.Stat()
		require.NoError(t, err, name)
		got, err := files[0].Stat()
		require.NoError(t, err, name)
		assert.Equal(t, !x.replaced, os.SameFile(sent, got), name)
		if x.replaced {
			assert.True(t, got.Mode().IsRegular(), name)
			assert.Zero(t, got.Size(), name)
		}
		to.Discard(files)
		assert.ErrorIs(t, files[0].Close(), os.ErrClosed, name)
	}
}

// TestFlood sends as many descriptors as a message can have. None remains open, and the kernel has closed none, since
// that would be on the thread that receives.
func TestFlood(t *testing.T) {
	from, to := guarded(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	files := make([]*os.File, 253)
	for i := range files {
		files[i] = write
	}
	require.NoError(t, from.Send([]byte{1}, files))
	_, got, err := to.Recv(make([]byte, 10))
	require.ErrorIs(t, err, ErrMessage)
	assert.Empty(t, got)
	require.NoError(t, write.Close())
	_, err = io.ReadAll(read)
	require.NoError(t, err)
}

// TestUnguarded receives a file of a file system, as a client does from its daemon.
func TestUnguarded(t *testing.T) {
	from, to, err := Pair()
	require.NoError(t, err)
	defer from.Close()
	f, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, from.Send([]byte{1}, []*os.File{f}))
	_, files, err := to.Recv(make([]byte, 10))
	require.NoError(t, err)
	require.Len(t, files, 1)
	b, err := io.ReadAll(files[0])
	require.NoError(t, err)
	assert.NotEmpty(t, b)
	to.Discard(files)
	require.NoError(t, to.Close())
	_, _, err = to.Recv(make([]byte, 10))
	assert.ErrorIs(t, err, net.ErrClosed, "%v", err)
}
