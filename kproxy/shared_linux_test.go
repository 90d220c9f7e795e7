package kproxy

import (
	"io"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
)

const sealed = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// sharedFile returns a memfd of three pages with seals, whose bytes count up.
func sharedFile(t *testing.T, seals int) *os.File {
	fd, err := unix.MemfdCreate("shared", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "shared")
	t.Cleanup(func() { f.Close() })
	b := make([]byte, 3*os.Getpagesize())
	for i := range b {
		b[i] = byte(i)
	}
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, control(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		return err
	}))
	return f
}

// TestMapShared maps parts of sealed memory, and rejects what could fault later or does not exist.
func TestMapShared(t *testing.T) {
	page := uint64(os.Getpagesize())
	const base = 1 << 32
	for name, c := range map[string]struct {
		seals        int
		addr, off, n uint64
		isWrite      bool
		fails        string // "": nothing
		isReadOnly   bool
	}{
		"all":                     {seals: sealed, addr: base, n: 3 * page, isWrite: true},
		"the last byte":           {seals: sealed, addr: base + 3*page - 1, off: 3*page - 1, n: 1, isWrite: true},
		"within a page":           {seals: sealed, addr: base + 5, off: page + 5, n: page, isWrite: true},
		"nothing":                 {seals: sealed, addr: base, fails: "0 bytes"},
		"one byte too much":       {seals: sealed, addr: base, n: 3*page + 1, fails: "offset 0 of a memfd"},
		"from the end":            {seals: sealed, addr: base, off: 3 * page, n: 1, fails: "of a memfd"},
		"an offset behind it":     {seals: sealed, addr: base, off: 4 * page, n: 1, fails: "of a memfd"},
		"a sum that wraps":        {seals: sealed, addr: base, off: page, n: math.MaxUint64, fails: "of a memfd"},
		"another place in a page": {seals: sealed, addr: base + 1, n: 1, fails: "differ within a page"},
		"not sealed":              {addr: base, n: 1, fails: "not a memfd sealed"},
		"may grow":                {seals: unix.F_SEAL_SHRINK, addr: base, n: 1, fails: "not a memfd sealed"},
		"may shrink":              {seals: unix.F_SEAL_GROW, addr: base, n: 1, fails: "not a memfd sealed"},
		"read only":               {seals: sealed | unix.F_SEAL_WRITE, addr: base, n: page, isReadOnly: true},
		"read only, to write": {seals: sealed | unix.F_SEAL_WRITE, addr: base, n: page, isWrite: true,
			fails: "mmap"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := mapShared(sharedFile(t, c.seals), c.addr, c.off, c.n, c.isWrite)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			defer func() { require.NoError(t, m.unmap()) }()
			assert.Equal(t, c.addr, m.mem.Addr())
			assert.Equal(t, c.n, m.mem.Len())
			got := make([]byte, 1)
			_, err = m.mem.ReadAt(got, 0)
			require.NoError(t, err)
			assert.Equal(t, byte(c.off), got[0])
			for a, isWrite := range map[ci.Access]bool{ci.RemoteRead: false, ci.LocalWrite: true, ci.RemoteWrite: true,
				ci.RemoteAtomic: true} {
				assert.Equal(t, !c.isReadOnly || !isWrite, m.mayWrite(a), "%v", a)
			}
		})
	}
}

// TestSharedMemory copies at the edges of shared memory.
func TestSharedMemory(t *testing.T) {
	for _, c := range []struct {
		off         int64
		n           int
		read, write error
		count       int // bytes read
	}{
		{0, 8, nil, nil, 8}, {7, 1, nil, nil, 1}, {8, 0, nil, nil, 0}, {4, 8, io.EOF, ci.InvalidParameter, 4},
		{8, 1, io.EOF, ci.InvalidParameter, 0}, {9, 0, ci.InvalidParameter, ci.InvalidParameter, 0},
		{-1, 1, ci.InvalidParameter, ci.InvalidParameter, 0},
		{math.MaxInt64, 1, ci.InvalidParameter, ci.InvalidParameter, 0},
	} {
		m := &sharedMemory{[]byte("abcdefgh"), 64}
		got := make([]byte, c.n)
		n, err := m.ReadAt(got, c.off)
		assert.Equal(t, c.count, n, "%+v", c)
		assert.Equal(t, c.read, err, "%+v", c)
		if n > 0 {
			assert.Equal(t, "abcdefgh"[c.off:][:n], string(got[:n]))
		}
		before := string(m.b)
		n, err = m.WriteAt(make([]byte, c.n), c.off)
		assert.Equal(t, c.write, err, "%+v", c)
		if c.write == nil {
			assert.Equal(t, before[:c.off]+string(make([]byte, c.n))+before[int(c.off)+n:], string(m.b))
		} else {
			assert.Equal(t, before, string(m.b), "a copy that fails writes nothing")
		}
	}
}

// TestPrivateFiles passes descriptors of private data: objects of the kernel without a path, and sealed files.
func TestPrivateFiles(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	event := os.NewFile(uintptr(fd), "event")
	defer event.Close()
	disk, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer disk.Close()
	good := sharedFile(t, sealed)
	require.NoError(t, checkFiles([]*os.File{event, good}))
	require.ErrorContains(t, checkFiles([]*os.File{good, disk}), "descriptor 1: not a memfd sealed")
	require.ErrorIs(t, checkFiles([]*os.File{sharedFile(t, 0)}), errNotSealed)
}
