//go:build amd64 || arm64

package seccomp

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKept checks which copies of sockets are kept, and for how long.
func TestKept(t *testing.T) {
	path := func(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
	inodeOf := func(fd int) inode {
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &st))
		return inode{st.Dev, st.Ino}
	}
	mine, theirs, err := socketPair()
	require.NoError(t, err)
	defer mine.Close()
	number := numberOf(theirs)
	key := inodeOf(number)
	k := &kept{sockets: map[inode]*keptSocket{}, isSwept: true} // the test sweeps
	_, err = k.copy(path(number))
	assert.ErrorIs(t, err, syscall.EBADF, "it was not installed")
	n, err := k.during(number, func() (int, error) {
		assert.False(t, k.drop(nil))
		assert.False(t, k.drop(nil))
		assert.False(t, k.drop(nil), "the installation is not complete")
		return 7, syscall.ESRCH
	})
	assert.Equal(t, 7, n)
	assert.ErrorIs(t, err, syscall.ESRCH)

	fd, err := k.copy(path(number))
	require.NoError(t, err)
	assert.Equal(t, key, inodeOf(fd))
	require.NoError(t, unix.Close(fd))
	require.NoError(t, theirs.Close())
	assert.False(t, k.drop(nil))
	assert.False(t, k.drop(map[inode]bool{key: true}), "another process has it")
	assert.False(t, k.drop(nil))
	buffer := make([]byte, 1)
	_, _, err = unix.Recvfrom(numberOf(mine), buffer, unix.MSG_DONTWAIT)
	assert.ErrorIs(t, err, syscall.EAGAIN, "the copy is open")
	assert.True(t, k.drop(nil), "none is left")
	n, _, err = unix.Recvfrom(numberOf(mine), buffer, unix.MSG_DONTWAIT)
	assert.NoError(t, err)
	assert.Zero(t, n, "the peer sees the end")
	assert.False(t, k.isSwept)
}

// TestKeptFiles checks that other files than sockets are not kept, and nothing where descriptors can be copied.
func TestKeptFiles(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	k := &kept{sockets: map[inode]*keptSocket{}}
	for _, k := range []*kept{k, nil} {
		n, err := k.during(numberOf(null), func() (int, error) { return 5, nil })
		assert.NoError(t, err)
		assert.Equal(t, 5, n)
	}
	assert.Empty(t, k.sockets)
	assert.False(t, k.isSwept)
}
