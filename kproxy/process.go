package kproxy

import (
	"errors"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
)

// process is a client process as drivers see it.
type process struct {
	pid, bits int
	locks     *atomicLocks
	reach     processReach
	copies    copier  // by reach
	helped    *copier // by the client; nil: it does not serve copies. mu guards it

	isDenied   bool // its memory must not be reached: Config.CanCopy
	isByClient bool // the daemon must not reach its memory: Config.ClientCopies
	isTrusted  bool // it has the daemon's user id, or is root: it could stop the daemon. See Config.LimitCopies

	mu     sync.RWMutex // held for reading during every copy, so that close waits for copies
	closed bool
}

var _ ci.Process = (*process)(nil)

func newProcess(peer Peer, bits int, locks *atomicLocks, c clock.Clock) *process {
	p := &process{pid: peer.PID, bits: bits, locks: locks, isTrusted: isOwnUser(peer)}
	p.copies.clock, p.copies.reach, p.copies.limit = c, &p.reach, DefaultCopyTimeout
	p.reach.open(peer.PID, peer.UID)
	return p
}

// suspend has the process share the suspensions of its user, unless it is trusted. It is called before any copy.
func (p *process) suspend(uid int, s *suspensions) {
	if !p.isTrusted {
		p.copies.uid, p.copies.users = uid, s
	}
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
		if p.helped != nil {
			p.helped.close()
		}
	}
}

// hasExited reports whether the process has exited, or access to it has ended.
func (p *process) hasExited() bool {
	if !p.mu.TryRLock() { // it is being closed
		return true
	}
	defer p.mu.RUnlock()
	return p.closed || p.reach.hasExited()
}

var (
	// errDenied is the error of memory that Config.CanCopy does not permit.
	errDenied = errors.New("this daemon copies only memory of its own user's processes: " +
		"memory of ual.NewMemory is shared and can be registered")
	// errByClient is the error of memory that only the client may copy: Config.ClientCopies.
	errByClient = errors.New("this daemon reaches no memory of processes: memory of ual.NewMemory is shared and can " +
		"be registered")
	// errNoProcess is the error of a process that cannot be found by its number.
	errNoProcess = errors.New("it has exited, or is not in the daemon's PID namespace")
	// errOtherUser is the error of a process that has executed a program of another user since it connected, or that
	// protects its memory.
	errOtherUser = errors.New("the memory of the process does not belong to the user that connected (setuid, " +
		"file capabilities, or PR_SET_DUMPABLE)")
)

// Memory returns the process's storage at addr. See ci.Process.
func (p *process) Memory(addr, length uint64, a ci.Access) (ci.Memory, error) {
	return p.memory(place{addr: addr}, length, a)
}

// memory is Memory for a registration of the client, whose token at contains.
func (p *process) memory(at place, length uint64, a ci.Access) (ci.Memory, error) {
	addr := at.addr
	const verb = "Process.Memory"
	if addr+length < addr || addr+length > 1<<63 {
		return nil, failf(verb, ci.InvalidParameter, "%d bytes at %x exceed the address space", length, addr)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, failf(verb, ci.InvalidState, "the process has exited")
	}
	m := &processMemory{p: p, at: at, n: length}
	err := m.check(a&ci.LocalWrite != 0)
	if err != nil && p.helped != nil && NeedsCopies(err) {
		m.by = p.helped
		err = m.try()
	}
	if err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "memory of the process", Err: err}
	}
	return m, nil
}

var _ ci.AtomicMemory = (*processMemory)(nil)

// processMemory is a range of a process's memory that is reached by copies.
type processMemory struct {
	p  *process
	at place
	n  uint64
	by *copier // its pages may take any time, or the client copies; nil: copies need no limit of time
}

// trustedLimits is the number of limits of a copy that a registration may take if the process is trusted.
const trustedLimits = 30

// check validates that the range is mapped with the rights needed, and that the system permits copies. The mutex of the
// process is held for reading.
func (m *processMemory) check(isWrite bool) error {
	switch {
	case m.p.isDenied:
		return errDenied
	case m.p.isByClient:
		return errByClient
	}
	// Also the page of no bytes must exist, unless they are between two pages.
	n := max(m.n, min(m.at.addr&0xfff, 1))
	if n == 0 {
		return nil
	}
	// This waits for the lock of the process's mappings, which an access to a page of a FUSE file may hold, and on a
	// busy machine for seconds another thread that maps or registers memory.
	limits := 1
	if m.p.isTrusted {
		limits = trustedLimits
	}
	var isFile atomic.Bool
	err := m.p.copies.check(limits, func() error {
		is, err := m.p.reach.check(m.at.addr, n, isWrite)
		isFile.Store(is)
		if err == nil && m.n > 0 {
			_, err = m.p.reach.read(make([]byte, 1), m.at)
		}
		return err
	})
	m.by = &m.p.copies
	if !isFile.Load() && m.p.isTrusted {
		m.by = nil
	}
	return explainCopy(err)
}

// try copies the first byte from the process.
func (m *processMemory) try() error {
	if m.n == 0 {
		return nil
	}
	var b [1]byte
	_, err := m.read(b[:], m.at)
	return err
}

// read copies from the process, whose mutex is held for reading.
func (m *processMemory) read(b []byte, from place) (int, error) {
	if m.by != nil {
		return m.by.do(b, from, false)
	}
	return m.p.reach.read(b, from)
}

// Addr returns the process's address.
func (m *processMemory) Addr() uint64 { return m.at.addr }

// Len returns the size.
func (m *processMemory) Len() uint64 { return m.n }

// Slice returns nil: the daemon cannot address the bytes.
func (m *processMemory) Slice(uint64, uint64) []byte { return nil }

// Pin does nothing: copies find the page wherever it is.
func (m *processMemory) Pin() (func(), error) { return func() {}, nil }

// span validates a range and returns its place.
func (m *processMemory) span(off int64, n int) (place, error) {
	if off < 0 || uint64(off) > m.n || uint64(n) > m.n-uint64(off) {
		return place{}, ci.InvalidParameter
	}
	return m.at.plus(uint64(off)), nil
}

// ReadAt copies from the process.
func (m *processMemory) ReadAt(b []byte, off int64) (int, error) {
	from, err := m.span(off, len(b))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	m.p.mu.RLock()
	defer m.p.mu.RUnlock()
	if m.p.closed {
		return 0, ci.InvalidState
	}
	return m.read(b, from)
}

// WriteAt copies to the process.
func (m *processMemory) WriteAt(b []byte, off int64) (int, error) {
	to, err := m.span(off, len(b))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	m.p.mu.RLock()
	defer m.p.mu.RUnlock()
	if m.p.closed {
		return 0, ci.InvalidState
	}
	if m.by != nil {
		return m.by.do(b, to, true)
	}
	return m.p.reach.write(b, to)
}

// Copier returns the process. See ci.BatchMemory.
func (m *processMemory) Copier() ci.Copier { return m.p }

// placeOf returns the place of a span of a processMemory.
func placeOf(s *ci.Span) place { return s.Memory.(*processMemory).at.plus(s.Off) }

// CopySpans copies spans of memory of the process. See ci.Copier.
func (p *process) CopySpans(list []ci.Span, write bool) (done int, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return 0, ci.InvalidState
	}
	for done < len(list) && err == nil {
		by, n := p.sameCopies(list[done:])
		part := list[done : done+n]
		switch {
		case n == 0:
			err = ci.InvalidParameter
		case by != nil:
			n, err = by.copySpans(part, write)
		default:
			n, err = p.reach.copySpans(part, write)
		}
		done += n
	}
	return done, err
}

// sameCopies returns how many spans at the front of a list exist and are copied by the same means, and these means.
func (p *process) sameCopies(list []ci.Span) (by *copier, n int) {
	for i := range list {
		m, ok := list[i].Memory.(*processMemory)
		if !ok || m.p != p || i > 0 && m.by != by {
			break
		}
		if _, err := m.span(int64(list[i].Off), len(list[i].Bytes)); err != nil {
			break
		}
		by, n = m.by, i+1
	}
	return by, n
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
