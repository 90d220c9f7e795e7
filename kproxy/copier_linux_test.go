package kproxy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/clock"
)

// pages maps memory of n pages.
func pages(t *testing.T, n int) []byte {
	b, err := unix.Mmap(-1, 0, n*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return b
}

// TestStuckCopy has a process whose pages do not come. A copy fails after a while, and later ones at once. The end of
// the session does not wait for the pages, and another process is not affected.
func TestStuckCopy(t *testing.T) {
	page := os.Getpagesize()
	b := pages(t, 4)
	other := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
	p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
	p.reach.isBound = false // copies by /proc/PID/mem fail at once where userfaultfd has no page
	p.isTrusted = false     // its copies are limited
	b[0] = 1                // the first page is present
	release := withoutPages(t, b[page:])
	m, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
	require.NoError(t, err)
	start := time.Now()
	_, err = m.WriteAt([]byte("late"), int64(page))
	require.ErrorIs(t, err, errStuck)
	assert.GreaterOrEqual(t, time.Since(start), copyLimit)
	_, err = m.ReadAt(make([]byte, 4), 0)
	require.ErrorIs(t, err, errStuck, "a later copy")
	own, err := other.Memory(ci.Bytes(b).Addr(), 1, 0)
	require.NoError(t, err)
	_, err = own.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err, "a copy of another client")
	p.close()
	other.close()
	release()
}

// TestSlowCopies copies memory whose pages may take any time: a mapped file, and memory of a process of another user.
// The sizes are those around the buffer's.
func TestSlowCopies(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	require.NoError(t, err)
	defer file.Close()
	const size = 4 * copyChunk
	require.NoError(t, file.Truncate(size))
	mappedFile, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mappedFile)) }()
	mixed := pages(t, size/os.Getpagesize()) // a file between memory
	mapOver(t, mixed[copyChunk:2*copyChunk], file)
	for name, c := range map[string]struct {
		b                 []byte
		isTrusted, isSlow bool
	}{
		"file":                   {mappedFile, true, true},
		"file between memory":    {mixed, true, true},
		"memory":                 {pages(t, size/os.Getpagesize()), true, false},
		"memory of another user": {pages(t, size/os.Getpagesize()), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
			defer p.close()
			p.isTrusted = c.isTrusted
			memory, err := p.Memory(ci.Bytes(c.b).Addr(), size, ci.LocalWrite)
			require.NoError(t, err)
			m := memory.(*processMemory)
			assert.Equal(t, c.isSlow, m.by != nil)
			for _, n := range []int{0, 1, copyChunk - 1, copyChunk, copyChunk + 1, 2*copyChunk + 3} {
				want := make([]byte, n)
				for i := range want {
					want[i] = byte(i*7 + n)
				}
				_, err := m.WriteAt(want, 5)
				require.NoError(t, err)
				require.Equal(t, want, c.b[5:][:n])
				got := make([]byte, n)
				k, err := m.ReadAt(got, 5)
				require.NoError(t, err)
				require.Equal(t, n, k)
				require.Equal(t, want, got)
			}
		})
	}
}

// TestStuckRegistration registers memory whose first page does not come. That is limited for every process, also one of
// the daemon's own user, and the end of the session does not wait.
func TestStuckRegistration(t *testing.T) {
	for name, isTrusted := range map[string]bool{"own user": true, "another user": false} {
		t.Run(name, func(t *testing.T) {
			b := pages(t, 4)
			p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
			p.reach.isBound, p.isTrusted = false, isTrusted
			release := withoutPages(t, b)
			_, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
			require.ErrorIs(t, err, errStuck)
			require.ErrorIs(t, err, ci.InvalidPermission)
			p.close()
			release()
		})
	}
}

// TestStuckCheck has a check of a process's mappings that does not end, as while the kernel waits for a FUSE file
// system. It is not waited for, no memory of the process is reached any more, and its user is suspended. The access to
// the process is given up when the check ends.
func TestStuckCheck(t *testing.T) {
	b := pages(t, 1)
	virtual := clock.NewVirtual(0)
	p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), virtual)
	p.isTrusted = false
	users := new(suspensions)
	p.suspend(7, users)
	begun, proceed, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- p.copies.check(func() error {
			close(begun)
			<-proceed
			defer close(ended)
			if p.reach.exited() {
				return errNoProcess
			}
			return nil
		})
	}()
	<-begun
	virtual.Advance(copyLimit)
	virtual.Advance(copyLimit)
	require.ErrorIs(t, <-result, errStuck)
	require.True(t, users.holds(7, virtual.Now()))
	require.False(t, users.holds(8, virtual.Now()))
	_, err := p.Memory(ci.Bytes(b).Addr(), 1, 0)
	require.ErrorIs(t, err, errStuck, "a later registration")
	p.close()
	require.False(t, p.reach.exited(), "the check uses the descriptor still")
	close(proceed)
	<-ended
}
