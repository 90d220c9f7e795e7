package kproxy

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/accesslayer"
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

// ownProcess returns this process. Its limit of copies is not reached on a busy machine.
func ownProcess() *process {
	p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
	p.copies.limit = time.Minute
	return p
}

// late calls fn, which accesses pages that do not come, and returns its result after the limit of a copy.
func late(t *testing.T, faults *os.File, clk *clock.Virtual, fn func() error) error {
	return lateBy(t, faults, clk, 1, fn)
}

// lateBy is late for a number of limits.
func lateBy(t *testing.T, faults *os.File, clk *clock.Virtual, limits int, fn func() error) error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	_, err := faults.Read(make([]byte, 32)) // the access waits
	require.NoError(t, err)
	clk.Advance(time.Duration(limits) * DefaultCopyTimeout)
	require.Empty(t, result)
	clk.Advance(DefaultCopyTimeout)
	return <-result
}

// release lets the pages come, and waits for the end of the copy. Afterwards, other memory may have the same address.
func release(t *testing.T, faults *os.File, p *process) {
	require.NoError(t, faults.Close())
	<-p.copies.results
}

// TestStuckCopy has a process whose pages do not come. A copy fails after a while, and later ones at once. The end of
// the session does not wait for the pages, and another process is not affected.
func TestStuckCopy(t *testing.T) {
	page := os.Getpagesize()
	b := pages(t, 4)
	b[0] = 1 // the first page is present
	faults := withoutPages(t, b[page:])
	other := ownProcess()
	virtual := clock.NewVirtual(0)
	p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), virtual)
	p.reach.isBound = false // copies by /proc/PID/mem fail at once where userfaultfd has no page
	p.isTrusted = false     // its copies are limited
	m, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
	require.NoError(t, err)
	err = late(t, faults, virtual, func() error {
		_, err := m.WriteAt([]byte("late"), int64(page))
		return err
	})
	require.ErrorIs(t, err, errStuck)
	_, err = m.ReadAt(make([]byte, 4), 0)
	require.ErrorIs(t, err, errStuck, "a later copy")
	own, err := other.Memory(ci.Bytes(b).Addr(), 1, 0)
	require.NoError(t, err)
	_, err = own.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err, "a copy of another client")
	p.close()
	other.close()
	release(t, faults, p)
}

// TestMissingPages copies registered memory of the daemon's own user whose pages are never supplied (userfaultfd(2)).
// With LimitCopies, the copy fails in time, and so do later sessions of the user. Without a limit, two kinds of copy
// fail at once, because the kernel does not wait for userfaultfd in them: copies by /proc/PID/mem, which a daemon with
// CAP_SYS_PTRACE uses, and copies by process number from a userfaultfd that needs no privileges.
func TestMissingPages(t *testing.T) {
	for name, c := range map[string]struct {
		isBound bool
		flags   uintptr
		fails   error // at once
	}{
		"by number":                     {},
		"by number, without privileges": {flags: userModeOnly, fails: unix.EFAULT},
		"bound":                         {isBound: true, fails: unix.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			isBound, fails := c.isBound, c.fails
			b := pages(t, 4)
			b[0] = 1
			faults := withoutPagesFor(t, b[os.Getpagesize():], c.flags)
			virtual := clock.NewVirtual(0)
			al := accesslayer.New(accesslayer.Config{PollInterval: -1, Clock: virtual})
			core, err := New(Config{AL: al, LimitCopies: fails == nil, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			open := func() *Session {
				c, err := core.Open(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, "client")
				require.NoError(t, err)
				c.proc.reach.isBound = isBound
				return c
			}
			c := open()
			require.Equal(t, fails != nil, c.proc.isTrusted)
			m, err := c.proc.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
			require.NoError(t, err)
			write := func() error {
				_, err := m.WriteAt([]byte("late"), int64(os.Getpagesize()))
				return err
			}
			if fails != nil {
				require.ErrorIs(t, write(), fails)
				defer func() { require.NoError(t, faults.Close()) }()
			} else {
				defer release(t, faults, c.proc)
				require.ErrorIs(t, late(t, faults, virtual, write), errStuck)
				_, err = open().proc.Memory(ci.Bytes(b).Addr(), 1, 0)
				require.ErrorIs(t, err, errSuspended)
			}
			require.NoError(t, core.Close(), "the end of the sessions does not wait")
			require.NoError(t, al.Close())
		})
	}
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
			p := ownProcess()
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
// the daemon's own user, which has more time, and the end of the session does not wait.
func TestStuckRegistration(t *testing.T) {
	for name, limits := range map[string]int{"own user": trustedLimits, "another user": 1} {
		t.Run(name, func(t *testing.T) {
			b := pages(t, 4)
			faults := withoutPages(t, b)
			virtual := clock.NewVirtual(0)
			p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), virtual)
			p.reach.isBound, p.isTrusted = false, limits > 1
			err := lateBy(t, faults, virtual, limits, func() error {
				_, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
				return err
			})
			require.ErrorIs(t, err, errStuck)
			require.ErrorIs(t, err, ci.InvalidPermission)
			p.close()
			release(t, faults, p)
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
		result <- p.copies.check(1, func() error {
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
	virtual.Advance(DefaultCopyTimeout)
	virtual.Advance(DefaultCopyTimeout)
	require.ErrorIs(t, <-result, errStuck)
	require.True(t, users.holds(7, virtual.Elapsed()))
	require.False(t, users.holds(8, virtual.Elapsed()))
	_, err := p.Memory(ci.Bytes(b).Addr(), 1, 0)
	require.ErrorIs(t, err, errStuck, "a later registration")
	p.close()
	require.False(t, p.reach.exited(), "the check uses the descriptor still")
	close(proceed)
	<-ended
}
