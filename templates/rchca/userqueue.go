package rchca

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/hca/reference/arena"
	"ciddk/templates/rchca/userabi"
	"ciddk/templates/rchca/userqueues"
)

// userMemory is the size of the memory for the queues of a process. Pages that are not used occupy nothing. When it is
// used up, further objects have no queues there, and their verbs are messages.
const userMemory = 64 << 20

// shared is the memory that a process shares with the driver, and the goroutine that reads the send queues in it.
type shared struct {
	mem    *arena.Memory
	pages  *arena.Pages
	bell   *arena.Doorbell
	head   userqueues.Header
	closed atomic.Bool
	done   chan struct{}

	mu  sync.Mutex
	qps map[*qp]struct{}
}

// newShared returns new shared memory. It returns nil on systems that have none.
func newShared() (*shared, error) {
	m, err := arena.Create(userMemory)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	bell, err := arena.NewDoorbell()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	s := &shared{mem: m, pages: arena.NewPages(m, userqueues.HeaderSize), bell: bell,
		head: userqueues.OpenHeader(m.Bytes()),
		done: make(chan struct{}), qps: map[*qp]struct{}{}}
	go s.serve()
	return s, nil
}

func (s *shared) files() []*os.File { return []*os.File{s.mem.File(), s.bell.File()} }

// close ends the goroutine and releases the memory. The objects of the process do not exist any more.
func (s *shared) close() {
	s.closed.Store(true)
	_ = s.bell.Close() // nothing to do about an error
	<-s.done
	_ = s.mem.Close()
}

// serve reads the send queues whenever a process has posted. It sleeps when there is nothing to read.
func (s *shared) serve() {
	defer close(s.done)
	var list []*qp
	for !s.closed.Load() {
		if list = s.fetch(list); list != nil {
			continue
		}
		s.head.Sleep()
		if list = s.fetch(list); list != nil { // posted before the library could see that the driver sleeps
			s.head.Awaken()
			continue
		}
		if s.bell.Wait() != nil {
			return
		}
		s.head.Awaken()
	}
}

// fetch passes the requests in all send queues to the hardware. It returns nil if there was none.
func (s *shared) fetch(list []*qp) []*qp {
	list = list[:0]
	s.mu.Lock()
	for q := range s.qps {
		list = append(list, q)
	}
	s.mu.Unlock()
	found := false
	for _, q := range list {
		found = q.fetch() || found
	}
	clear(list)
	if !found {
		return nil
	}
	return list
}

// alloc returns the bytes of a queue, or nil if the memory is used up.
func (u *user) alloc(size int) (off uint64, b []byte) {
	if u.shared == nil {
		return 0, nil
	}
	off, b, err := u.shared.pages.Alloc(size)
	if err != nil {
		return 0, nil
	}
	return off, b
}

// userSend is a send queue in shared memory. The mutex sq.post of the QP guards it.
type userSend struct {
	shared  *shared
	off     uint64
	ring    *userqueues.Send
	fetched uint32
	failed  bool // what the process wrote was not valid
	batch   []ci.SendWR
	inline  [][]byte // for the inline data of the batch
}

// newSend allocates the send queue of q, and describes it in a.
func (u *user) newSend(q *qp, a *userabi.Answer) *userSend {
	c := &q.create.QPCaps
	shape := userqueues.Shape{Slots: c.SendDepth, SGEs: c.SendSGE, Inline: c.MaxInline}
	off, b := u.alloc(shape.Size())
	ring, ok := userqueues.OpenSend(b, shape)
	if !ok {
		return nil
	}
	a.Offset, a.Slots = off, uint32(shape.Slots)
	a.SGEs, a.Inline = uint16(shape.SGEs), uint16(shape.Inline)
	x := &userSend{shared: u.shared, off: off, ring: ring, batch: make([]ci.SendWR, min(16, c.SendDepth))}
	x.inline = make([][]byte, len(x.batch))
	for i := range x.batch {
		x.batch[i].SGL, x.inline[i] = make([]ci.SGE, 0, c.SendSGE), make([]byte, 0, c.MaxInline)
	}
	q.sq.completed = ring.Completed
	return x
}

// add lets the driver read the send queue of q.
func (u *user) add(q *qp) {
	u.shared.mu.Lock()
	defer u.shared.mu.Unlock()
	u.shared.qps[q] = struct{}{}
}

// reset empties the queue. The library holds its posts up during the verb.
func (x *userSend) reset() {
	x.ring.Posted.Store(0)
	x.ring.Completed.Store(0)
	x.fetched, x.failed = 0, false
}

// close releases the queue of a QP that was destroyed. No entry of the QP is left in its CQs.
func (x *userSend) close(q *qp) {
	x.shared.mu.Lock()
	delete(x.shared.qps, q)
	x.shared.mu.Unlock()
	q.sq.post.Lock() // a fetch that began before the QP was destroyed
	defer q.sq.post.Unlock()
	x.shared.pages.Free(x.off)
}

// fetch passes new requests to the hardware, and reports whether there were any. If the process wrote an index or a
// request that its library would not write, the QP enters Error.
func (q *qp) fetch() bool {
	q.sq.post.Lock()
	defer q.sq.post.Unlock()
	x := q.user
	if x.failed || !q.refs.Alive() {
		return false
	}
	n := x.ring.Posted.Load() - x.fetched
	if n == 0 {
		return false
	}
	if n > uint32(q.create.SendDepth) {
		q.failUser()
		return true
	}
	k := min(int(n), len(x.batch))
	for i := range k {
		x.batch[i].Inline = x.inline[i]
		if !x.ring.Get(x.fetched+uint32(i), &x.batch[i]) {
			k = i
			break
		}
		if len(x.batch[i].Inline) == 0 {
			x.batch[i].Inline = nil
		}
	}
	posted, err := q.postSend(x.batch[:k])
	x.fetched += uint32(posted)
	if k == 0 || err != nil {
		q.failUser()
	}
	return true
}

// failUser moves the QP to Error. The caller holds sq.post.
func (q *qp) failUser() {
	q.user.failed = true
	// An error means that the hardware does not react, which other verbs report.
	_ = q.hca.dev.ModifyQP(q.num, ci.QPFieldState, &ci.QPAttr{State: ci.QPError})
	q.notify.Event(ci.Event{Type: ci.EventQPFatal})
}

// userCompletions is a completion queue in shared memory.
type userCompletions struct {
	shared *shared
	off    uint64

	mu    sync.Mutex
	ring  *userqueues.Completions // nil when the CQ is destroyed
	added uint32
	armed bool
	all   bool // armed for any entry, not only for solicited ones
}

// newCompletions allocates the queue of a CQ, and describes it in a.
func (u *user) newCompletions(size int, a *userabi.Answer) *userCompletions {
	off, b := u.alloc(userqueues.CompletionsSize(size))
	ring, ok := userqueues.OpenCompletions(b, size)
	if !ok {
		return nil
	}
	a.Offset, a.Slots = off, uint32(size)
	return &userCompletions{shared: u.shared, off: off, ring: ring}
}

// closeUser releases the queue of a CQ that was destroyed.
func (q *cq) closeUser() {
	x := q.user
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ring = nil
	x.shared.pages.Free(x.off)
}

// armUser arms the CQ for entries that are added from now on.
func (q *cq) armUser(when ci.Notify) {
	x := q.user
	x.mu.Lock()
	defer x.mu.Unlock()
	x.armed, x.all = true, x.all || when == ci.NotifyNext
}

// deliver adds an entry of the hardware to the queue in shared memory. It returns false if the queue is full.
func (q *cq) deliver(e *CQE) bool {
	var wc ci.WC
	q.hca.translate(e, &wc) // also frees the slots of the requests
	x := q.user
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ring == nil {
		return true
	}
	if x.added-x.ring.Polled.Load() >= uint32(x.ring.Size()) {
		return false
	}
	x.ring.Put(x.added, &wc)
	x.added++
	x.ring.Added.Store(x.added)
	if x.armed && (x.all || e.Solicited || e.Status != ci.WCSuccess) {
		x.armed, x.all = false, false
		q.notify.Completion()
	}
	return true
}
