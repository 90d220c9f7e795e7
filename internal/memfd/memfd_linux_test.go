package memfd_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/internal/memfd"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	f, err := memfd.Create("test", 8192)
	require.NoError(t, err)
	defer f.Close()
	i, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 8192, i.Size())
	for _, size := range []int64{0, 4096, 16384} {
		require.ErrorIs(t, f.Truncate(size), unix.EPERM, "%d bytes", size)
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	require.ErrorIs(t, err, unix.EPERM, "the seals can be changed")
	_, err = f.WriteAt([]byte{1}, 8191)
	require.NoError(t, err)
	_, err = memfd.Create("test", -1)
	require.ErrorIs(t, err, unix.EINVAL)
}
