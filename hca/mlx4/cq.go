package mlx4

import (
	"math/bits"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

type cq struct {
	ci.UnimplementedCQ
	refs   driver.Refs
	pd     *pd
	hca    *HCA
	num    uint32
	eqn    uint8
	notify driver.Notifier
	record *fw.Record
	resize sync.Mutex // serialises Resize and Modify

	mu     sync.Mutex // guards what follows
	memory *fw.Queue
	ring   *queue.CompletionRing
	saved  []ci.WC // of QPs that were destroyed, reset or flushed, or of a ring before a resize
	last   *qp     // of the last completion
	arm    arm

	moderation ci.Moderation
	failure    awaited

	user *userCQ // of a queue in shared memory; then ring is nil

	isResizing bool // from the command until Resize has found the entry that ends the old ring
	hasEnded   bool // the adapter has failed; there are only the completions in saved
}

// arm is the state of the doorbell.
type arm struct {
	command  uint32 // of the event that is armed: prm.ArmAny, prm.ArmSolicited, or 0
	index    uint32 // from which entries raise it
	sequence uint32 // of events
}

// cqeShift returns log2 of the bytes of an entry.
func (h *HCA) cqeShift() uint8 { return uint8(bits.TrailingZeros(uint(h.caps.CQESize))) }

// logOf returns log2 of the smallest power of two that is at least n.
func logOf(n int) uint8 { return uint8(bits.Len(uint(max(n, 1) - 1))) }

// maxCQEs returns the most entries that a consumer can have in a CQ.
func (h *HCA) maxCQEs() int { return int(h.caps.MaxCQSize) - 1 }

// logOfCQ returns log2 of the entries of a ring in which size entries can wait. One more is for the entry that ends the
// ring when the CQ is resized (linux mlx4_ib_create_cq, mlx4_ib_resize_cq).
func logOfCQ(size int) uint8 { return logOf(size + 1) }

// sizeOfCQ returns the number of entries that can wait in a ring of 1<<log entries.
func sizeOfCQ(log uint8) int { return 1<<log - 1 }

// CreateCQ creates a CQ. Status: InvalidCQSize, InvalidParameter (vector), InvalidPDHandle, InsufficientResources.
func (p *pd) CreateCQ(c ci.CQCreate) (_ ci.CQ, err error) {
	const verb = "PD.CreateCQ"
	h := p.hca
	if c.Size < 1 || c.Size > h.maxCQEs() {
		return nil, fail(verb, ci.InvalidCQSize, "want 1 to MaxCQEs")
	}
	vectors := h.dev.NumCompletionEQs()
	if int(c.Affinity.Vector) > vectors {
		return nil, fail(verb, ci.InvalidParameter, "Affinity.Vector is above CAAttr.Vectors")
	}
	shared, err := p.library(verb, c.User, userabi.CQSize)
	if err != nil {
		return nil, err
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	var u undo
	defer u.run(&err)
	u.add(p.refs.Put)
	if err := h.cqs.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.cqs.Give)
	q := &cq{pd: p, hca: h,
		notify: driver.Notifier{OnCompletion: c.OnCompletion, OnEvent: c.OnEvent, Context: c.Context}}
	q.failure.expect()
	var e error
	if q.num, e = h.cqns.take(); e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(func() { h.cqns.release(q.num) })
	log := logOfCQ(c.Size)
	if shared != nil {
		if e = q.allocateUser(shared, log, &u); e != nil {
			return nil, userError(verb, e)
		}
	} else if e = q.allocate(log, &u); e != nil {
		return nil, firmwareError(verb, e)
	}
	vector := int(q.num) % vectors
	if c.Affinity.Vector > 0 {
		vector = int(c.Affinity.Vector) - 1
	}
	q.eqn = h.dev.CompletionEQ(vector)
	if e := h.dev.HandleCQ(q.num, q.completion, q.event); e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(func() { h.dev.ReleaseCQ(q.num) })
	var b [0x40]byte
	q.encode(b[:], log, q.memory)
	if e := h.cmd(prm.CmdSW2HWCQ, fw.Args{In: b[:], Modifier: q.num}); e != nil {
		return nil, firmwareError(verb, e)
	}
	if q.user != nil {
		q.user.s.cqs[q.user.doorbell].Store(q)
		answer(c.User, q.describe(q.user.area, log))
	} else {
		nothing(c.User)
	}
	return q, nil
}

// allocate allocates the queue in memory of the driver.
func (q *cq) allocate(log uint8, u *undo) (err error) {
	h := q.hca
	if q.record, err = h.dev.AllocRecord(); err != nil {
		return err
	}
	u.add(func() { h.dev.FreeRecord(q.record) })
	if q.memory, err = h.dev.AllocQueue(h.ctx, h.caps.CQESize<<log); err != nil {
		return err
	}
	u.add(func() { _ = h.dev.FreeQueue(q.memory) }) // the error of the create is the one to return
	q.ring, err = queue.NewCompletionRing(q.memory.Bytes[:h.caps.CQESize<<log], q.record.Bytes, log, h.cqeShift())
	return err
}

// encode writes the context.
func (q *cq) encode(b []byte, log uint8, m *fw.Queue) {
	prm.CQCLogSize.Put(b, uint64(log))
	prm.CQCUAR.Put(b, uint64(q.uar().Index()))
	prm.CQCEQN.Put(b, uint64(q.eqn))
	prm.CQCMTTHigh.Put(b, m.MTT.Offset()>>32)
	prm.CQCMTTLow.Put(b, m.MTT.Offset()&0xffffffff)
	prm.CQCDoorbell.Put(b, q.record.IOVA)
}

// uar returns the page of the doorbell.
func (q *cq) uar() *fw.UAR {
	if q.user != nil {
		return q.user.s.uar
	}
	return q.hca.uar
}

// completion handles a completion event.
func (q *cq) completion() {
	q.mu.Lock()
	if q.user != nil && q.user.area != nil {
		q.user.completion()
	}
	q.arm.command = 0
	q.arm.sequence++
	q.mu.Unlock()
	q.notify.Completion()
}

// event handles an error of the queue, and the loss of events.
func (q *cq) event(e fw.Event) {
	if uint8(e.Type) == prm.EventEQOverflow {
		q.resync()
		return
	}
	q.failure.forget()
	t := ci.Event{Type: ci.EventCQError, Vendor: uint64(e.Syndrome)}
	q.notify.Event(t)
}

// Destroy destroys the CQ. Status: ResourceBusy (a QP uses it), InvalidCQHandle. Context: drain.
func (q *cq) Destroy() error {
	const verb = "CQ.Destroy"
	if err := q.refs.BeginDestroy(verb, ci.InvalidCQHandle); err != nil {
		return err
	}
	h := q.hca
	if err := h.release(prm.CmdHW2SWCQ, fw.Args{Modifier: q.num, OpModifier: 1}); err != nil {
		q.refs.Revive()
		return firmwareError(verb, err)
	}
	h.dev.ReleaseCQ(q.num)
	q.notify.Close()
	err := q.free()
	h.cqns.release(q.num)
	h.cqs.Give()
	q.pd.refs.Put()
	if err != nil {
		return firmwareError(verb, err)
	}
	return nil
}

// free releases the memory.
func (q *cq) free() error {
	if q.user != nil {
		return q.freeUser()
	}
	q.mu.Lock()
	m := q.memory
	q.memory, q.ring = nil, nil
	q.saved, q.last = nil, nil
	q.mu.Unlock()
	err := q.hca.dev.FreeQueue(m)
	q.hca.dev.FreeRecord(q.record)
	return err
}

// Query returns the attributes. Status: InvalidCQHandle.
func (q *cq) Query() (ci.CQAttr, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.user != nil && q.refs.Alive():
		return ci.CQAttr{Size: q.user.size, Moderation: q.moderation}, nil
	case !q.refs.Alive() || q.ring == nil:
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle, "")
	}
	return ci.CQAttr{Size: sizeOfCQ(q.ring.Log()), Moderation: q.moderation}, nil
}

// Resize moves the queue to memory of another size. Status: InvalidCQSize, Overflow, InvalidCQHandle,
// InsufficientResources.
func (q *cq) Resize(r ci.CQResize) (granted int, err error) {
	const verb = "CQ.Resize"
	h := q.hca
	q.resize.Lock()
	defer q.resize.Unlock()
	if !q.refs.Use() {
		return 0, fail(verb, ci.InvalidCQHandle, "")
	}
	defer q.refs.Done()
	if r.Size < 1 || r.Size > h.maxCQEs() {
		return 0, fail(verb, ci.InvalidCQSize, "want 1 to MaxCQEs")
	}
	if q.user != nil {
		return q.resizeUser(verb, r.Size, r.User)
	}
	log := logOfCQ(r.Size)
	q.mu.Lock()
	waiting, size := q.waiting(), sizeOfCQ(q.ring.Log())
	q.mu.Unlock()
	switch {
	case waiting > r.Size:
		return 0, fail(verb, ci.Overflow, "more entries wait than the size")
	case size == sizeOfCQ(log):
		nothing(r.User)
		return size, nil
	}
	m, e := h.dev.AllocQueue(h.ctx, h.caps.CQESize<<log)
	if e != nil {
		return 0, firmwareError(verb, e)
	}
	q.save() // so that there is room for the entry that ends the ring
	var b [0x40]byte
	q.encode(b[:], log, m)
	q.setResizing(true)
	defer q.setResizing(false)
	if e := h.cmd(prm.CmdModifyCQ, fw.Args{In: b[:], Modifier: q.num, OpModifier: prm.ModifyCQResize}); e != nil {
		_ = h.dev.FreeQueue(m) // the error of the command is the one to return
		return 0, firmwareError(verb, e)
	}
	q.save() // up to the entry that ends the ring
	q.mu.Lock()
	old := q.memory
	e = q.follow(m, log)
	q.mu.Unlock()
	if e != nil {
		h.dev.Fail(e)
		return 0, firmwareError(verb, e)
	}
	if e := h.dev.FreeQueue(old); e != nil {
		return 0, firmwareError(verb, e)
	}
	nothing(r.User)
	return sizeOfCQ(log), nil
}

func (q *cq) setResizing(on bool) {
	q.mu.Lock()
	q.isResizing = on
	q.mu.Unlock()
}

// follow continues in the memory of a resize. mu is held.
func (q *cq) follow(m *fw.Queue, log uint8) error {
	e := q.ring.Next()
	var c queue.Completion
	if e != nil {
		queue.DecodeCompletion(e, &c)
	}
	if !c.IsResize {
		return errResize
	}
	at := q.ring.Consumer()
	q.ring.Advance()
	if q.arm.index == at { // the entry that ends the ring is no completion: what is armed is armed for the next one
		q.arm.index = q.ring.Consumer()
	}
	r, err := q.ring.Follow(m.Bytes[:q.hca.caps.CQESize<<log], log)
	if err != nil {
		return err
	}
	q.memory, q.ring = m, r
	r.Publish()
	return nil
}

// waiting returns the number of entries that wait. mu is held.
func (q *cq) waiting() int {
	if q.hasEnded {
		return len(q.saved)
	}
	return len(q.saved) + int(q.ring.Seen()-q.ring.Consumer())
}
