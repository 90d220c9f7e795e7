package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/hca/reference/rings"
)

// srq is a shared receive queue.
type srq struct {
	mu        sync.Mutex // posts
	destroyed bool
	sge       int
	ring      *rings.UserRecv
}

func preCreateSRQ(a *ci.UserCreateSRQ, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); ok {
		ask(ub, rings.UserQueueSize)
	}
	return nil
}

func postCreateSRQ(a *ci.UserCreateSRQ, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateSRQ"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 {
		return nil
	}
	var r rings.UserQueue
	if err := r.DecodeSRQ(ub.Out); err != nil {
		return badAnswer(verb, "%v", err)
	}
	ring, err := openRecv(verb, d.ca, r.Offset, r.Shape)
	if err != nil {
		return err
	}
	s := &srq{ring: ring, sge: int(r.Shape.SGE)}
	a.SRQ = ci.UserSRQ{Handle: s, PostRecv: s.postRecv}
	return nil
}

// openRecv opens a receive queue in the shared memory.
func openRecv(verb string, c *ca, off uint64, s rings.Shape) (*rings.UserRecv, error) {
	b, ok := c.at(off, 0)
	if ok {
		b = c.mem.Bytes()[off:]
	}
	ring, fits := rings.OpenRecv(b, s)
	if !ok || !fits {
		return nil, badAnswer(verb, "a receive queue of the shape %+v at %d", s, off)
	}
	return ring, nil
}

func postDestroySRQ(a *ci.UserDestroySRQ, _ *ci.UserBuffer, err error) {
	if s, ok := a.SRQ.(*srq); ok && err == nil {
		s.mu.Lock()
		s.destroyed = true
		s.mu.Unlock()
	}
}

var (
	srqErrors  = newErrors("SRQ.PostRecv", ci.InvalidSRQHandle)
	sendErrors = newErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors = newErrors("QP.PostRecv", ci.InvalidQPHandle)
)

// postErrors are the errors of a verb that posts. They are made in advance: the data path does not allocate.
type postErrors struct {
	destroyed, full, state, wrType, maxSGE, av, param, inline, unsupported error
}

func newErrors(verb string, destroyed ci.Status) postErrors {
	e := func(s ci.Status, detail string) error { return &ci.Error{Verb: verb, Status: s, Detail: detail} }
	return postErrors{
		destroyed:   e(destroyed, ""),
		full:        e(ci.InsufficientResources, "the queue is full"),
		state:       e(ci.InvalidQPState, "sends are taken from RTS on, receives from Init on"),
		wrType:      e(ci.InvalidWRType, "the QP's service has no such request, or its receives come from an SRQ"),
		maxSGE:      e(ci.InvalidMaxSGE, "more SGEs than the queue was created for"),
		av:          e(ci.InvalidAVHandle, "To.AV is nil, destroyed, or of another PD than the QP"),
		param:       e(ci.InvalidParameter, "a flag or a number of the request does not go with its operation"),
		inline:      e(ci.InvalidParameter, "inline data longer than MaxInline, or with an operation that takes none"),
		unsupported: e(ci.Unsupported, "the operation or flag is not supported in user mode"),
	}
}

func (s *srq) postRecv(wrs []ci.RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.destroyed {
		return 0, srqErrors.destroyed
	}
	return postRecv(s.ring, wrs, s.sge, &srqErrors)
}

// postRecv posts the receive buffers before the first that is invalid.
func postRecv(ring *rings.UserRecv, wrs []ci.RecvWR, sge int, e *postErrors) (int, error) {
	legal := len(wrs)
	for i := range wrs {
		if len(wrs[i].SGL) > sge {
			legal = i
			break
		}
	}
	n := ring.Post(wrs[:legal])
	switch {
	case n < legal:
		return n, e.full
	case legal < len(wrs):
		return n, e.maxSGE
	}
	return n, nil
}
