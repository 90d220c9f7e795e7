package kproxy

import (
	"errors"
	"sync"

	"ciddk/ci"
	"ciddk/clock"
)

// process is a client process as drivers see it.
type process struct {
	pid, bits int
	locks     *atomicLocks
	copies    copier

	isDenied  bool // its memory must not be reached: Config.CanCopy
	isTrusted bool // it has the daemon's user id, or is root: it could stop the daemon

	mu     sync.RWMutex // held for reading during every copy, so that close waits for copies
	closed bool
}

var _ ci.Process = (*process)(nil)

func newProcess(peer Peer, bits int, locks *atomicLocks, c clock.Clock) *process {
	p := &process{pid: peer.PID, bits: bits, locks: locks, isTrusted: isOwnUser(peer)}
	p.copies.clock = c
	p.copies.reach.open(peer.PID, peer.UID)
	return p
}

// PID returns the process number.
func (p *process) PID() int { return p.pid }

// PointerBits returns 32 or 64.
func (p *process) PointerBits() int { return p.bits }

// close ends all access. It waits for copies in progress, unless they take too long.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.copies.close()
	}
}

// errDenied is the error of memory that Config.CanCopy does not permit.
var errDenied = errors.New("this daemon copies only memory of its own user's processes: " +
	"memory of ual.NewMemory is shared and can be registered")

// Memory returns the process's storage at addr. See ci.Process.
func (p *process) Memory(addr, length uint64, a ci.Access) (ci.Memory, error) {
	const verb = "Process.Memory"
	if addr+length < addr || addr+length > 1<<63 {
		return nil, failf(verb, ci.InvalidParameter, "%d bytes at %x exceed the address space", length, addr)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, failf(verb, ci.InvalidState, "the process has exited")
	}
	if p.isDenied {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "memory of the process", Err: errDenied}
	}
	m := &processMemory{p: p, addr: addr, n: length}
	if err := m.check(a&ci.LocalWrite != 0); err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "memory of the process", Err: err}
	}
	return m, nil
}

var _ ci.AtomicMemory = (*processMemory)(nil)

// processMemory is a range of a process's memory that is reached by copies.
type processMemory struct {
	p       *process
	addr, n uint64
	isSlow  bool // its pages may take any time
}

// check validates that the range is mapped with the rights needed, and that the system permits copies. The mutex of the
// process is held for reading.
func (m *processMemory) check(isWrite bool) error {
	if m.n == 0 {
		return nil
	}
	isFile, err := m.p.copies.reach.check(m.addr, m.n, isWrite)
	if err != nil {
		return explainCopy(err)
	}
	m.isSlow = isFile || !m.p.isTrusted
	var b [1]byte
	_, err = m.read(b[:], m.addr)
	return explainCopy(err)
}

// read copies from the process, whose mutex is held for reading.
func (m *processMemory) read(b []byte, addr uint64) (int, error) {
	if m.isSlow {
		return m.p.copies.do(b, addr, false)
	}
	return m.p.copies.reach.read(b, addr)
}

// Addr returns the process's address.
func (m *processMemory) Addr() uint64 { return m.addr }

// Len returns the size.
func (m *processMemory) Len() uint64 { return m.n }

// Slice returns nil: the daemon cannot address the bytes.
func (m *processMemory) Slice(uint64, uint64) []byte { return nil }

// Pin does nothing: copies find the page wherever it is.
func (m *processMemory) Pin() (func(), error) { return func() {}, nil }

// span validates a range and returns its address.
func (m *processMemory) span(off int64, n int) (uint64, error) {
	if off < 0 || uint64(off) > m.n || uint64(n) > m.n-uint64(off) {
		return 0, ci.InvalidParameter
	}
	return m.addr + uint64(off), nil
}

// ReadAt copies from the process.
func (m *processMemory) ReadAt(b []byte, off int64) (int, error) {
	addr, err := m.span(off, len(b))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	m.p.mu.RLock()
	defer m.p.mu.RUnlock()
	if m.p.closed {
		return 0, ci.InvalidState
	}
	return m.read(b, addr)
}

// WriteAt copies to the process.
func (m *processMemory) WriteAt(b []byte, off int64) (int, error) {
	addr, err := m.span(off, len(b))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	m.p.mu.RLock()
	defer m.p.mu.RUnlock()
	if m.p.closed {
		return 0, ci.InvalidState
	}
	if m.isSlow {
		return m.p.copies.do(b, addr, true)
	}
	return m.p.copies.reach.write(b, addr)
}

// CompareSwap stores swap if the 8 bytes at off are compare. See ci.AtomicMemory.
func (m *processMemory) CompareSwap(off, compare, swap uint64) (uint64, error) {
	lock := m.p.locks.of(m.p.pid)
	lock.Lock()
	defer lock.Unlock()
	old, err := m.load(off)
	if err != nil || old != compare {
		return old, err
	}
	return old, m.store(off, swap)
}

// FetchAdd adds n to the 8 bytes at off. See ci.AtomicMemory.
func (m *processMemory) FetchAdd(off, n uint64) (uint64, error) {
	lock := m.p.locks.of(m.p.pid)
	lock.Lock()
	defer lock.Unlock()
	old, err := m.load(off)
	if err != nil {
		return 0, err
	}
	return old, m.store(off, old+n)
}

func (m *processMemory) load(off uint64) (uint64, error) {
	var b [8]byte
	_, err := m.ReadAt(b[:], int64(off))
	return hostOrder.Uint64(b[:]), err
}

func (m *processMemory) store(off, v uint64) error {
	var b [8]byte
	hostOrder.PutUint64(b[:], v)
	_, err := m.WriteAt(b[:], int64(off))
	return err
}

// atomicLocks serialises the atomics on the memory of each process. Several processes may share a lock.
type atomicLocks [64]sync.Mutex

func (l *atomicLocks) of(pid int) *sync.Mutex { return &l[uint(pid)%uint(len(l))] }
