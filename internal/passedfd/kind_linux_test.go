package passedfd

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestKindOf(t *testing.T) {
	check := func(name string, fd int, err error, want ...Kind) {
		require.NoError(t, err, name)
		assert.Contains(t, want, KindOf(fd), name)
		assert.NoError(t, Number(fd).Close(), name)
	}
	fd, err := unix.MemfdCreate("m", unix.MFD_CLOEXEC)
	check("memfd", fd, err, Memory)
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	check("eventfd", fd, err, Nameless)
	fd, err = unix.PidfdOpen(os.Getpid(), 0)
	check("pidfd", fd, err, Nameless, Object)
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check("socket", fd, err, Object)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	check("pipe", pipe[0], nil, Object)
	check("pipe", pipe[1], nil, Object)
	open := func(path string) (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
	fd, err = open(os.DevNull)
	check("device", fd, err, Object)
	fd, err = open("/proc/self/ns/net")
	check("name space", fd, err, Object)
	fd, err = open("/proc/self/status")
	check("a file of procfs", fd, err, Foreign)
	fd, err = open("/proc")
	check("directory", fd, err, Foreign)
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer f.Close()
	fd, err = open(f.Name())
	check("file", fd, err, Disk, Memory) // of a disk, or tmpfs
	assert.Equal(t, Foreign, KindOf(-1))
}
