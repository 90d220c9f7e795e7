package model

import (
	"ciddk/ci"
	"ciddk/rvt"
)

// making has the object that a command is making, whose queues the transport asks for. Model.mu guards it.
type making struct {
	cq  *cq
	srq *srq
	qp  *qp
}

// rings makes the queues of the transport's objects, which are in the memory of the host. The transport calls it within
// the create verbs of the commands.
type rings struct{ m *Model }

// SendRing returns the send queue of the QP that is being made.
func (r rings) SendRing(_, _, _ int, _ *ci.UserBuffer) (rvt.SendRing, error) {
	q := r.m.making.qp
	if q == nil {
		return nil, ci.InvalidState
	}
	if q.port != 0 || q.gsiPort != 0 {
		return managementRing{q.send}, nil
	}
	return q.send, nil
}

// RecvRing returns the receive queue of the QP or SRQ that is being made.
func (r rings) RecvRing(_, _ int, _ *ci.UserBuffer) (rvt.RecvRing, error) {
	switch {
	case r.m.making.srq != nil:
		return r.m.making.srq, nil
	case r.m.making.qp != nil:
		return r.m.making.qp.recv, nil
	}
	return nil, ci.InvalidState
}

// CompletionRing returns the queue of the CQ that is being made.
func (r rings) CompletionRing(_ int, _ *ci.UserBuffer) (rvt.CompletionRing, error) {
	if r.m.making.cq == nil {
		return nil, ci.InvalidState
	}
	return r.m.making.cq, nil
}
