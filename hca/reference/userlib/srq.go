package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
)

// srq is a shared receive queue.
type srq struct {
	mu       sync.Mutex // posts
	life     arena.Life
	isBroken bool // the queue does not exist any more
	ca       *ca
	sge      int
	ring     *rings.UserRecv
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
	s := &srq{ca: d.ca, ring: ring, sge: int(r.Shape.SGE)}
	d.ca.Hold()
	a.SRQ = ci.UserSRQ{Handle: s, PostRecv: s.postRecv}
	return nil
}

// openRecv opens a receive queue in the shared memory.
func openRecv(verb string, c *ca, off uint64, s rings.Shape) (*rings.UserRecv, error) {
	b, ok := c.at(off, 0)
	if ok {
		b = c.Bytes()[off:]
	}
	ring, fits := rings.OpenRecv(b, s)
	if !ok || !fits {
		return nil, badAnswer(verb, "a receive queue of the shape %+v at %d", s, off)
	}
	return ring, nil
}

// preDestroySRQ ends posts, until Destroy has failed.
func preDestroySRQ(a *ci.UserDestroySRQ, _ *ci.UserBuffer) error {
	if s, ok := a.SRQ.(*srq); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.life.Begin()
	}
	return nil
}

func postDestroySRQ(a *ci.UserDestroySRQ, _ *ci.UserBuffer, err error) {
	if s, ok := a.SRQ.(*srq); ok {
		s.mu.Lock()
		hasEnded := s.life.Finish(err)
		s.mu.Unlock()
		if hasEnded {
			s.ca.Drop()
		}
	}
}

// preModifySRQ makes posts wait, if the depth changes, until the queue has moved or remains.
func preModifySRQ(a *ci.UserModifySRQ, ub *ci.UserBuffer) error {
	if s, ok := a.SRQ.(*srq); ok && a.Set&ci.SRQFieldMaxWR != 0 {
		ask(ub, rings.UserQueueSize)
		s.mu.Lock()
	}
	return nil
}

func postModifySRQ(a *ci.UserModifySRQ, ub *ci.UserBuffer, err error) {
	s, ok := a.SRQ.(*srq)
	if !ok || a.Set&ci.SRQFieldMaxWR == 0 {
		return
	}
	defer s.mu.Unlock()
	if err != nil || ub.Status != 0 {
		return
	}
	var r rings.UserQueue
	err = r.DecodeSRQ(ub.Out)
	if err == nil {
		s.ring, err = openRecv("SRQ.Modify", s.ca, r.Offset, r.Shape)
	}
	s.isBroken = err != nil
}

var (
	srqErrors  = wrrules.NewErrors("SRQ.PostRecv", ci.InvalidSRQHandle)
	sendErrors = wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors = wrrules.NewErrors("QP.PostRecv", ci.InvalidQPHandle)
)

func (s *srq) postRecv(wrs []ci.RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isBroken || s.life.IsOver() {
		return 0, srqErrors.Destroyed
	}
	return postRecv(s.ring, wrs, s.sge, srqErrors)
}

// postRecv posts the receive buffers before the first that is invalid.
func postRecv(ring *rings.UserRecv, wrs []ci.RecvWR, sge int, e *wrrules.Errors) (int, error) {
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
		return n, e.Full
	case legal < len(wrs):
		return n, e.Of(wrrules.SGEs)
	}
	return n, nil
}
