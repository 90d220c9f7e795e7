package mlx4

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// userQP is what a QP has whose queues are in shared memory. The driver does not read them, which the process can
// write.
type userQP struct {
	*area
	doorbell uint32
}

// userSRQ is what an SRQ has whose queue is in shared memory.
type userSRQ struct{ *area }

// hasUserQueues reports whether the CQs and the SRQ of a QP have their queues in shared memory, as want requires.
func (q *qp) hasUserQueues(want bool) bool {
	return (q.send.user != nil) == want && (q.recv.user != nil) == want &&
		(q.srq == nil || (q.srq.user != nil) == want)
}

// allocateUser allocates the queues in shared memory.
func (q *qp) allocateUser(s *shared, u *undo) error {
	a, err := s.place(q.layout.size)
	if err != nil {
		return err
	}
	u.add(func() { _ = a.free() }) // the error of the create is the one to return
	x := &userQP{area: a}
	if x.doorbell, err = s.takeDoorbell(doorbellQP); err != nil {
		return err
	}
	u.add(func() { s.giveDoorbell(doorbellQP, x.doorbell) })
	q.user, q.memory = x, a.queue
	q.record = &fw.Record{Bytes: a.control.Record(), IOVA: a.record()}
	return nil
}

// describe returns what the library needs to know.
func (q *qp) describe() []byte {
	l, c := &q.layout, &q.create
	x := &userabi.QP{Offset: q.user.off, Size: uint64(l.size), Number: q.hw, Doorbell: q.user.doorbell,
		SendLog: uint32(l.sendLog), SendShift: uint32(l.sendShift), RecvLog: uint32(l.recvLog),
		RecvShift: uint32(l.recvShift), SendAt: uint32(l.sendAt), RecvAt: uint32(l.recvAt),
		SendDepth: uint32(c.SendDepth), SendSGE: uint32(c.SendSGE), RecvDepth: uint32(c.RecvDepth),
		RecvSGE: uint32(c.RecvSGE), MaxInline: uint32(c.MaxInline)}
	if l.hasRecv {
		x.HasRecv = 1
	}
	return userabi.Encode(x)
}

// uar returns the page of the doorbells.
func (q *qp) uar() *fw.UAR {
	if q.user != nil {
		return q.user.s.uar
	}
	return q.hca.uar
}

// setState sets the state that posts check.
func (q *qp) setState(s ci.QPState) {
	q.state.Store(int32(s))
	if q.user != nil {
		q.user.control.SetState(userabi.State{State: uint8(s), Port: uint8(q.onPort.Load()),
			IsEthernet: q.onEthernet.Load()})
	}
}

// freeUser releases the memory of a QP that was destroyed.
func (q *qp) freeUser() error {
	s := q.user.s
	s.qps[q.user.doorbell].Store(nil)
	s.giveDoorbell(doorbellQP, q.user.doorbell)
	return q.user.free()
}

// postError returns the error of a post to a QP without queues of the driver.
func (q *qp) postError(destroyed, replaced *ci.Error) error {
	if q.user != nil && q.refs.Alive() {
		return replaced
	}
	return destroyed
}

// describe returns an address vector for the library.
func (v *vector) describe() []byte {
	x := &userabi.AV{Address: [userabi.AddressSize]byte(v.address.Bytes()), Port: v.attr.Port}
	if v.isBad {
		x.IsBad = 1
	}
	return userabi.Encode(x)
}

// The two packages agree about the size of an address vector.
var _ [userabi.AddressSize]byte = [queue.AddressSize]byte{}

// allocateUser allocates the queue of an SRQ in shared memory.
func (s *srq) allocateUser(x *shared, log, shift uint8, u *undo) error {
	a, err := x.place(1 << (log + shift))
	if err != nil {
		return err
	}
	u.add(func() { _ = a.free() }) // the error of the create is the one to return
	s.user, s.memory = &userSRQ{a}, a.queue
	s.record = &fw.Record{Bytes: a.control.Record(), IOVA: a.record()}
	// The adapter finds a linked list, and the library makes its own ring.
	_, err = queue.NewSharedRing(s.memory.Bytes[:1<<(log+shift)], s.record.Bytes, log, shift)
	return err
}

// describe returns what the library needs to know.
func (s *srq) describe(log, shift uint8) []byte {
	return userabi.Encode(&userabi.SRQ{Offset: s.user.off, Log: uint32(log), Shift: uint32(shift),
		MaxSGE: uint32(s.attr.MaxSGE)})
}
