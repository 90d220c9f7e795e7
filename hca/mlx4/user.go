package mlx4

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/reference/arena"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/userabi"
)

// user is the context of a client process. It implements ci.UserCA.
type user struct {
	ci.UnimplementedUserCA // VendorCall
	refs                   driver.Refs
	ca                     *ca
	shared                 *shared // nil without a user library
}

var _ ci.UserCA = (*user)(nil)

// userMemory is the size of the memory that the driver shares with a process that has the user library. Pages that are
// not used occupy nothing.
const userMemory = 64 << 20

// OpenUser opens the context of a process. A process with the user library receives the descriptors of its shared
// memory and of the pipe that wakes the driver. Status: InvalidParameter, InvalidCAHandle, InvalidState,
// InsufficientResources.
func (c *ca) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	const verb = "CA.OpenUser"
	switch {
	case ci.IsNil(p) || ub == nil:
		return nil, fail(verb, ci.InvalidParameter, "a process and a UserBuffer are needed")
	case ub.Command != 0 && ub.Command != userabi.Command || len(ub.In) != 0:
		return nil, fail(verb, ci.InvalidParameter, "private data of another user library")
	case ub.Command != 0 && cap(ub.Out) < userabi.OpenSize:
		return nil, fail(verb, ci.InvalidParameter, "the UserBuffer has no room for the answer")
	case !c.refs.Get():
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	u := &user{ca: c}
	if ub.Command == 0 {
		nothing(ub)
		return u, nil
	}
	h := c.hca
	s, err := newShared(h)
	if err != nil {
		c.refs.Put()
		return nil, &ci.Error{Verb: verb, Status: statusOr(err, ci.InsufficientResources), Err: err}
	}
	u.shared = s
	answer(ub, userabi.Encode(&userabi.Open{Size: uint64(len(s.mem.Bytes())), Caps: uint64(h.claims),
		MaxReadSGEs: uint32(h.maxSGEs()), Atomicity: uint32(h.atomicity()), CQEShift: uint32(h.cqeShift())}))
	ub.OutFiles = []*os.File{s.mem.File(), s.bell.File()}
	go s.relay()
	return u, nil
}

// statusOr returns the status of an error, or s if it has none.
func statusOr(err error, s ci.Status) ci.Status {
	if x := ci.StatusOf(err); x != ci.UnknownError && x != ci.Success {
		return x
	}
	return s
}

// AllocatePD is CA.AllocatePD for the process.
func (u *user) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	p, err := u.ca.hca.newPD("UserCA.AllocatePD", typ, &u.refs)
	if err != nil {
		return nil, err
	}
	p.user = u
	nothing(ub)
	return p, nil
}

// Destroy closes the context. Status: InvalidCAHandle (closed already), ResourceBusy (a PD of the process exists).
// [SAS-2.4-15]
func (u *user) Destroy() error {
	if err := u.refs.BeginDestroy("UserCA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	if u.shared != nil {
		u.shared.stop()
		u.shared.free()
	}
	u.ca.refs.Put()
	return nil
}

// answer puts the result of a verb into the UserBuffer, which has room for it.
func answer(ub *ci.UserBuffer, b []byte) { ub.Status, ub.Out = 0, append(ub.Out[:0], b...) }

// nothing answers a verb without a result.
func nothing(ub *ci.UserBuffer) {
	if ub != nil {
		ub.Status, ub.Out = 0, ub.Out[:0]
	}
}

// shared is the memory that the driver shares with a process, and the process's page of doorbells. The process does not
// map that page: the descriptor of a device of VFIO gives all of the device away. Instead, it rings doorbells in the
// header of the memory, and relay writes them to the page. The adapter ignores doorbells in a page that is not the one
// of the queue, so that no process affects the queues of another one.
type shared struct {
	hca   *HCA
	mem   *arena.Memory
	pages *arena.Pages
	bell  *arena.Doorbell
	head  *userabi.Header
	uar   *fw.UAR
	done  chan struct{} // closed when relay has ended
	ends  atomic.Bool   // relay shall end

	mu     sync.Mutex
	number [2]numbers // of doorbells, of QPs and of CQs
	last   [2]uint32
	qps    [userabi.MaxQPs]atomic.Pointer[qp]
	cqs    [userabi.MaxQPs]atomic.Pointer[cq]
}

func newShared(h *HCA) (_ *shared, err error) {
	if err := h.dev.Err(); err != nil {
		return nil, firmwareError("CA.OpenUser", err)
	}
	s := &shared{hca: h, done: make(chan struct{})}
	if s.mem, err = arena.Create(userMemory); err != nil {
		return nil, err
	}
	if s.bell, err = arena.NewDoorbell(); err != nil {
		_ = s.mem.Close() // the error to report is the first one
		return nil, err
	}
	if s.uar, err = h.dev.AllocUAR(); err != nil {
		_, _ = s.bell.Close(), s.mem.Close()
		return nil, err
	}
	s.pages, s.head = arena.NewPages(s.mem, userabi.HeaderSize), userabi.OpenHeader(s.mem.Bytes())
	for i := range s.number {
		s.number[i].alloc = func() (uint32, error) {
			if s.last[i] == userabi.MaxQPs {
				return 0, fail("UserContext", ci.InsufficientResources, "the process has no doorbell left")
			}
			s.last[i]++
			return s.last[i] - 1, nil
		}
	}
	h.addShared(s)
	return s, nil
}

// addShared adds the memory of a process to that of the adapter.
func (h *HCA) addShared(s *shared) {
	h.sharedMu.Lock()
	defer h.sharedMu.Unlock()
	if h.shared == nil {
		h.shared = map[*shared]struct{}{}
	}
	h.shared[s] = struct{}{}
	if h.dev.Err() != nil { // failShared may have run
		s.head.Fail()
	}
}

// failShared announces to all processes that the adapter has failed.
func (h *HCA) failShared() {
	h.sharedMu.Lock()
	defer h.sharedMu.Unlock()
	for s := range h.shared {
		s.head.Fail()
		for i := range s.cqs {
			if q := s.cqs[i].Load(); q != nil {
				q.failUser()
			}
		}
	}
}

// free releases the memory, after stop.
func (s *shared) free() {
	s.hca.sharedMu.Lock()
	delete(s.hca.shared, s)
	s.hca.sharedMu.Unlock()
	s.uar.Free()
	_ = s.mem.Close() // nothing to do about an error
}

// stop ends relay.
func (s *shared) stop() {
	s.ends.Store(true)
	_ = s.bell.Close() // which ends Wait; nothing to do about an error
	<-s.done
}

// relayIdle is how long relay looks for doorbells before it sleeps, and relayRounds bounds the times that it looks,
// because the clock may be virtual.
const (
	relayIdle   = 50 * time.Microsecond
	relayRounds = 1 << 12
)

// relay writes the doorbells of the process to the adapter.
func (s *shared) relay() {
	defer close(s.done)
	for !s.ends.Load() {
		if s.lookAround() {
			continue
		}
		s.head.Sleep()
		if !s.head.Take(s.ring) && s.bell.Wait() != nil {
			return
		}
		s.head.Wake()
	}
}

// lookAround takes doorbells until there are none for some time. It reports whether there was one in the last round.
func (s *shared) lookAround() bool {
	if s.head.Take(s.ring) {
		return true
	}
	since := s.hca.now()
	for i := range relayRounds {
		arena.Yield()
		if s.head.Take(s.ring) || s.ends.Load() {
			return true
		}
		if i%8 == 7 && s.hca.now()-since > relayIdle {
			break
		}
	}
	return false
}

// ring writes a doorbell. Its number comes from the process.
func (s *shared) ring(doorbell uint32) {
	if doorbell < userabi.DoorbellCQ {
		if q := s.qps[doorbell].Load(); q != nil {
			s.uar.Send(q.hw)
		}
		return
	}
	if q := s.cqs[doorbell-userabi.DoorbellCQ].Load(); q != nil {
		q.armUser()
	}
}

// Kinds of doorbells.
const (
	doorbellQP = iota
	doorbellCQ
)

// takeDoorbell returns the number of a doorbell that is not in use.
func (s *shared) takeDoorbell(kind int) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number[kind].take()
}

func (s *shared) giveDoorbell(kind int, n uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number[kind].release(n)
}

// area is the memory of queues in shared memory, and of their control words behind them.
type area struct {
	s       *shared
	off     uint64
	size    int // of the queues
	queue   *fw.Queue
	control userabi.Control
}

// library returns the shared memory for the queues of a verb with an answer of size bytes, or nil if the user library
// of the process does not accompany the object. Status: InvalidParameter (no room for the answer).
func (p *pd) library(verb string, ub *ci.UserBuffer, size int) (*shared, error) {
	if p.user == nil || p.user.shared == nil || ub == nil || ub.Command != userabi.Command {
		return nil, nil
	}
	if cap(ub.Out) < size {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter,
			Detail: fmt.Sprintf("the user library accepts %d bytes, the answer has %d", cap(ub.Out), size)}
	}
	return p.user.shared, nil
}

// place allocates memory for queues of size bytes.
func (s *shared) place(size int) (*area, error) {
	size = (size + userabi.PageSize - 1) &^ (userabi.PageSize - 1)
	off, b, err := s.pages.Alloc(size + userabi.ControlSize)
	if err != nil {
		return nil, &ci.Error{Verb: "UserContext", Status: ci.InsufficientResources, Err: err,
			Detail: "queues in shared memory"}
	}
	a := &area{s: s, off: off, size: size, control: userabi.OpenControl(b[size:])}
	a.queue, err = s.hca.dev.MapQueue(s.hca.ctx, bus.Memory{Bytes: b, File: s.mem.File(), Offset: int64(off)})
	if err != nil {
		s.pages.Free(off)
		return nil, err
	}
	return a, nil
}

// record returns the device's address of the doorbell record.
func (a *area) record() uint64 { return a.queue.IOVA + uint64(a.size) }

// unmap ends the adapter's use of the memory, which the process may still read.
func (a *area) unmap() error { return a.s.hca.dev.FreeQueue(a.queue) }

// release releases the memory. It is idempotent.
func (a *area) release() {
	if a != nil && a.s != nil {
		a.s.pages.Free(a.off)
		a.s = nil
	}
}

// free ends the adapter's use of the memory, and releases it.
func (a *area) free() error {
	err := a.unmap()
	a.release()
	return err
}
