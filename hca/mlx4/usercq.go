package mlx4

import (
	"cmp"
	"errors"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// userCQ is what a CQ has whose queue is in shared memory. The user library polls and arms it. The driver does not read
// the queue, which the process can write.
type userCQ struct {
	*area          // of the create: the doorbell record, and the queue until the first resize
	moved    *area // the queue after a resize, or nil
	old      *area // the queue before the last resize, unless in area; the library may not have read it to its end
	doorbell uint32
	size     int    // entries that can wait
	events   uint32 // completion events; cq.mu guards it
	isBad    bool   // EventCQError was raised for an entry; cq.mu guards it
}

// Errors of verbs of the data path that the user library has replaced.
var (
	errUserPoll   = fail("CQ.Poll", ci.InvalidState, "the user library of the process polls this queue")
	errUserPeek   = fail("CQ.Peek", ci.InvalidState, "the user library of the process polls this queue")
	errUserResize = fail("CQ.Resize", ci.InvalidState, "the user library of the process moves this queue")
	errUserNotify = fail("CQ.Notify", ci.InvalidState, "the user library of the process arms this queue")
	errUserSend   = fail("QP.PostSend", ci.InvalidState, "the user library of the process posts to this queue")
	errUserRecv   = fail("QP.PostRecv", ci.InvalidState, "the user library of the process posts to this queue")
	errUserBind   = fail("QP.BindMW", ci.InvalidState, "the user library of the process posts to this queue")
	errUserSRQ    = fail("SRQ.PostRecv", ci.InvalidState, "the user library of the process posts to this queue")
)

// allocateUser allocates the queue in shared memory.
func (q *cq) allocateUser(s *shared, log uint8, u *undo) error {
	a, err := s.place(q.hca.caps.CQESize << log)
	if err != nil {
		return err
	}
	u.add(func() { _ = a.free() }) // the error of the create is the one to return
	x := &userCQ{area: a, size: sizeOfCQ(log)}
	if x.doorbell, err = s.takeDoorbell(doorbellCQ); err != nil {
		return err
	}
	u.add(func() { s.giveDoorbell(doorbellCQ, x.doorbell) })
	q.user, q.memory = x, a.queue
	q.record = &fw.Record{Bytes: a.control.Record(), IOVA: a.record()}
	// The adapter finds an empty queue, and the library makes its own ring.
	_, err = queue.NewCompletionRing(q.memory.Bytes[:q.hca.caps.CQESize<<log], q.record.Bytes, log, q.hca.cqeShift())
	return err
}

// describe returns what the library needs to know.
func (q *cq) describe(a *area, log uint8) []byte {
	return userabi.Encode(&userabi.CQ{Offset: a.off, Number: q.num, Doorbell: userabi.DoorbellCQ + q.user.doorbell,
		Log: uint32(log)})
}

// completion handles a completion event. The library reads the number of events, which is the sequence number of
// the doorbell. cq.mu is held.
func (x *userCQ) completion() {
	x.events++
	x.control.SetEvents(x.events)
}

// armUser executes the doorbell of the process. What it arms is in the doorbell record. The library also rings it to
// report an entry that no request can have.
func (q *cq) armUser() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.user == nil || q.user.area == nil {
		return
	}
	if qpn, ok := q.user.control.TakeBad(); ok && !q.user.isBad {
		q.user.isBad = true // one event, however often the process reports entries
		q.isBad(&queue.Completion{QPN: qpn})
	}
	const index = 1<<24 - 1
	w := q.user.control.Arm()
	q.user.s.uar.ArmCQ(w&^index|q.num, w&index)
}

// failUser announces the failure of the adapter to a consumer that waits for an event of the CQ.
func (q *cq) failUser() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.user == nil || q.user.area == nil {
		return
	}
	command := q.user.control.Arm() >> 24
	if isArmed := command&7 != 0 && command>>4&3 == q.user.events&3; isArmed {
		q.user.completion()
		q.notify.Completion()
	}
}

// freeUser releases the memory of a CQ that was destroyed.
func (q *cq) freeUser() error {
	q.mu.Lock()
	x := q.user
	a := x.area
	x.area, q.memory = nil, nil
	q.mu.Unlock()
	s := a.s
	s.cqs[x.doorbell].Store(nil)
	s.giveDoorbell(doorbellCQ, x.doorbell)
	x.old.release()
	var err error
	if x.moved != nil {
		err = x.moved.free()
	}
	return errors.Join(err, a.free())
}

// resizeUser moves a queue in shared memory. The old memory remains until the next resize, because the library has to
// read it up to the entry with which the adapter ends it. resize is held. If the size does not change, the answer is
// empty.
func (q *cq) resizeUser(verb string, size int, ub *ci.UserBuffer) (granted int, err error) {
	h, x := q.hca, q.user
	log := logOfCQ(size)
	if x.size == sizeOfCQ(log) {
		nothing(ub)
		return x.size, nil
	}
	s, err := q.pd.library(verb, ub, userabi.CQSize)
	if s == nil {
		return 0, cmp.Or(err, error(errUserResize))
	}
	a, e := s.place(h.caps.CQESize << log)
	if e != nil {
		return 0, userError(verb, e)
	}
	var b [0x40]byte
	q.encode(b[:], log, a.queue)
	if e := h.cmd(prm.CmdModifyCQ, fw.Args{In: b[:], Modifier: q.num, OpModifier: prm.ModifyCQResize}); e != nil {
		_ = a.free() // the error of the command is the one to return
		return 0, firmwareError(verb, e)
	}
	x.old.release()
	x.old = x.moved
	q.mu.Lock()
	x.moved, x.size = a, sizeOfCQ(log)
	q.memory = a.queue
	q.mu.Unlock()
	if x.old != nil {
		if e := x.old.unmap(); e != nil {
			return 0, firmwareError(verb, e)
		}
	}
	answer(ub, q.describe(a, log))
	return sizeOfCQ(log), nil
}

// userError returns the error of a verb that could not place a queue in shared memory.
func userError(verb string, err error) error {
	s := ci.StatusOf(err)
	if errors.Is(err, bus.ErrTooMany) {
		s = ci.InsufficientResources
	}
	if s == ci.InsufficientResources || s == ci.InvalidCAHandle || s == ci.InvalidParameter {
		return &ci.Error{Verb: verb, Status: s, Err: err}
	}
	return firmwareError(verb, err)
}

// unless returns the error of a destroyed CQ, or that of a verb that the user library has replaced.
func (q *cq) unless(destroyed, replaced *ci.Error) error {
	if q.user != nil && q.refs.Alive() {
		return replaced
	}
	return destroyed
}
