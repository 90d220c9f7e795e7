package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/reference/arena"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// srq is a shared receive queue.
type srq struct {
	ca  *ca
	sge int

	mu   sync.Mutex // posts and completions
	life arena.Life
	ring *queue.SharedRing
}

func preCreateSRQ(a *ci.UserCreateSRQ, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); ok {
		ask(ub, userabi.SRQSize)
	}
	return nil
}

func postCreateSRQ(a *ci.UserCreateSRQ, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateSRQ"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 {
		return nil
	}
	var r userabi.SRQ
	if err := userabi.Decode(ub.Out, &r); err != nil {
		return badAnswer(verb, "%v", err)
	}
	if r.Log > 15 || r.Shift > queue.MaxRecvShift {
		return badAnswer(verb, "a queue of 1<<%d slots of 1<<%d bytes", r.Log, r.Shift)
	}
	b, control, err := d.ca.area(verb, r.Offset, 1<<(r.Log+r.Shift))
	if err != nil {
		return err
	}
	s := &srq{ca: d.ca, sge: int(r.MaxSGE)}
	if s.ring, err = queue.NewSharedRing(b, control.Record(), uint8(r.Log), uint8(r.Shift)); err != nil {
		return badAnswer(verb, "%v", err)
	}
	s.ca.Hold()
	a.SRQ = ci.UserSRQ{Handle: s, PostRecv: s.postRecv}
	return nil
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

// complete releases the slot of a completion, and reports whether the message fits it.
func (s *srq) complete(c *queue.Completion) (id uint64, fits, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.IsOver() {
		return 0, false, false
	}
	fits = s.ring.Fits(c)
	id, ok = s.ring.Complete(c.Index)
	return id, fits, ok
}

var srqErrors = wrrules.NewErrors("SRQ.PostRecv", ci.InvalidSRQHandle)

func (s *srq) postRecv(wrs []ci.RecvWR) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.IsOver() {
		return 0, srqErrors.Destroyed
	}
	if s.ca.head.HasFailed() {
		return 0, errSharedFailed
	}
	room := s.ring.Room()
	for n < len(wrs) {
		if len(wrs[n].SGL) > s.sge {
			err = srqErrors.Of(wrrules.SGEs)
			break
		}
		if n >= room {
			err = srqErrors.Full
			break
		}
		s.ring.Put(&wrs[n])
		n++
	}
	if n > 0 {
		s.ring.Publish()
	}
	return n, err
}
