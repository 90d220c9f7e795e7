//go:build amd64 || arm64

package seccomp

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// TestHostileCopies has a daemon that requests copies of memory that the program has not registered, or not for
// writing. Only copies that the program permits are executed.
func TestHostileCopies(t *testing.T) {
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	require.NoError(t, err)
	process := os.NewFile(uintptr(pidfd), "process")
	defer process.Close()
	const page = 4096
	b, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(b)) }()
	require.NoError(t, unix.Mprotect(b[3*page:], unix.PROT_NONE))
	addr := ci.Bytes(b).Addr()
	c := &copies{d: &device{process: process, pid: os.Getpid()}, areas: map[uint64]*area{}}
	add := func(from, size uint64, isWritable bool) (uint64, error) {
		return c.add(&registration{addr: addr + from, size: size, hasAccess: true, isWritable: isWritable})
	}
	for _, bad := range [][2]uint64{{3 * page, 1}, {2 * page, page + 1}, {-addr + 16, 1},
		{page, math.MaxUint64 - page}} {
		_, err := add(bad[0], bad[1], false)
		require.ErrorIs(t, err, unix.EFAULT, "%x", bad)
	}
	own, err := add(page, page, true)
	require.NoError(t, err)
	readOnly, err := add(page, page, false)
	require.NoError(t, err)
	c.settle(&registration{handle: 5, isPermanent: true, hasMemory: true, hasAccess: true}, own)
	for name, x := range map[string]struct {
		token, from uint64
		size        uint32
		kind        schema.CopyKind
		ok          bool
	}{
		"read":                    {own, page, page, schema.CopyRead, true},
		"write":                   {own, page + 1, page - 1, schema.CopyWrite, true},
		"read of read-only":       {readOnly, 2*page - 1, 1, schema.CopyRead, true},
		"write to read-only":      {readOnly, page, 1, schema.CopyWrite, false},
		"no token":                {0, page, 1, schema.CopyRead, false},
		"another token":           {99, page, 1, schema.CopyRead, false},
		"before":                  {own, page - 1, 1, schema.CopyRead, false},
		"behind":                  {own, 2 * page, 1, schema.CopyWrite, false},
		"across the end":          {own, 2*page - 1, 2, schema.CopyRead, false},
		"more than there is":      {own, page, page + 1, schema.CopyRead, false},
		"far before, as a number": {own, -addr, 1, schema.CopyRead, false},
	} {
		err := c.copy(&schema.Copy{Token: x.token, Addr: addr + x.from, Length: x.size, Kind: x.kind},
			make([]byte, x.size))
		assert.Equal(t, x.ok, err == nil, "%s: %v", name, err)
	}
	read := func(token uint64) error {
		return c.copy(&schema.Copy{Token: token, Addr: addr + page, Length: 1, Kind: schema.CopyRead}, make([]byte, 1))
	}
	write := func(token uint64) error {
		return c.copy(&schema.Copy{Token: token, Addr: addr + page, Length: 1, Kind: schema.CopyWrite}, make([]byte, 1))
	}
	c.settle(&registration{handle: 5, isPermanent: true, hasAccess: true}, 0)
	require.NoError(t, read(own))
	require.Error(t, write(own), "the MR has lost the right")
	moved, err := c.add(&registration{handle: 5, addr: addr, size: page, hasMemory: true})
	require.NoError(t, err)
	c.settle(&registration{handle: 5, isPermanent: true, hasMemory: true}, moved)
	require.Error(t, read(own), "the MR has other memory")
	c.settle(&registration{handle: 5}, 0)
	require.NotContains(t, c.areas, moved, "the MR is destroyed")
	require.Len(t, c.areas, 1)
}
