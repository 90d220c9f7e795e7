package rchca

import (
	"errors"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/templates/rchca/userabi" // user.go
)

// DeviceSRQ is the part of Device for shared receive queues. A QP whose QPConfig.SRQ is not 0 takes its receives from
// that queue, and has none of its own. CQE.Slot of its receives is a slot of the shared queue. A QP that enters Error
// raises ci.EventLastWQE, and takes no more.
type DeviceSRQ interface {
	// CreateSRQ creates a queue. Its number is not 0. Memory of its receives is that of the domain c.PD.
	CreateSRQ(c SRQConfig) (SRQN, error)
	DestroySRQ(n SRQN) error
	// SetLimit arms the event ci.EventSRQLimit, which the hardware raises when fewer than limit receives are left, at
	// once if they are already. It raises it once. 0 disarms it. Limit returns 0 if the event is not armed.
	SetLimit(n SRQN, limit int) error
	Limit(n SRQN) int

	// WriteShared encodes a receive into a slot of the queue, as WriteRecv. The hardware takes receives in the order in
	// which they were written, which is not that of the slots: a slot is free as soon as its receive has completed.
	// RingShared passes the next count receives to the hardware. One goroutine at a time calls them for a queue.
	WriteShared(n SRQN, slot int, wr *ci.RecvWR)
	RingShared(n SRQN, count int)
}

// HandlerSRQ is the part of Handler for shared receive queues.
type HandlerSRQ interface {
	SRQEvent(n SRQN, t ci.EventType)
}

// An SRQN is the number of a shared receive queue of the device.
type SRQN uint32

// An SRQConfig describes a shared receive queue to the hardware.
type SRQConfig struct {
	PD          uint32
	Depth, SGEs int
}

// An srq is a shared receive queue.
type srq struct {
	refs   driver.Refs
	pd     *pd
	num    SRQN
	attr   ci.SRQAttr
	notify driver.Notifier

	post sync.Mutex // held while a goroutine posts; taken before mu
	mu   sync.Mutex
	ids  []uint64 // work request IDs, by slot
	free []int    // slots
}

var _ ci.SRQ = (*srq)(nil)

var sharedErrors = wrrules.NewErrors("SRQ.PostRecv", ci.InvalidSRQHandle)

// CreateSRQ creates a shared receive queue. Status: InvalidMaxWRs, InvalidMaxSGE, InvalidParameter (limit, private
// data), InvalidPDHandle, InsufficientResources, Timeout.
func (p *pd) CreateSRQ(c ci.SRQCreate) (_ ci.SRQ, err error) {
	const verb = "PD.CreateSRQ"
	h := p.hca
	switch {
	case c.MaxWR < 1 || c.MaxWR > h.info.MaxWRs:
		return nil, fail(verb, ci.InvalidMaxWRs, "want 1 to MaxSRQWRs")
	case c.MaxSGE < 0 || c.MaxSGE > h.info.MaxSGEs:
		return nil, fail(verb, ci.InvalidMaxSGE, "")
	case c.Limit < 0 || c.Limit > c.MaxWR:
		return nil, fail(verb, ci.InvalidParameter, "the limit exceeds the size")
	}
	data, err := openPrivate(verb, c.User) // user.go
	if err != nil {                        // user.go
		return nil, err
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	if err := h.srqs.Take(verb); err != nil {
		p.refs.Put()
		return nil, err
	}
	c.User = nil // c is kept, and the private data must not be
	s := &srq{pd: p, attr: c.SRQAttr, ids: make([]uint64, c.MaxWR),
		notify: driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}}
	for slot := range s.ids {
		s.free = append(s.free, slot)
	}
	if s.num, err = h.dev.CreateSRQ(SRQConfig{PD: p.num, Depth: c.MaxWR, SGEs: c.MaxSGE}); err != nil {
		h.srqs.Give()
		p.refs.Put()
		return nil, commandError(verb, err)
	}
	h.mu.Lock()
	h.srq[s.num] = s
	h.mu.Unlock()
	if err := h.dev.SetLimit(s.num, c.Limit); err != nil {
		return nil, commandError(verb, errors.Join(err, s.Destroy()))
	}
	data.answer(userabi.Answer{Number: uint32(s.num)}) // user.go
	return s, nil
}

// PostRecv writes receives to the queue, as QP.PostRecv. Status: InsufficientResources, InvalidMaxSGE,
// InvalidSRQHandle. Context: data.
func (s *srq) PostRecv(wrs []ci.RecvWR) (n int, err error) {
	s.post.Lock()
	defer s.post.Unlock()
	if !s.refs.Alive() {
		return 0, sharedErrors.Destroyed
	}
	dev := s.pd.hca.dev
	for n < len(wrs) {
		if len(wrs[n].SGL) > s.attr.MaxSGE {
			err = sharedErrors.Of(wrrules.SGEs)
			break
		}
		slot, ok := s.take(wrs[n].ID)
		if !ok {
			err = sharedErrors.Full
			break
		}
		dev.WriteShared(s.num, slot, &wrs[n])
		n++
	}
	if n > 0 {
		dev.RingShared(s.num, n)
	}
	return n, err
}

// take allocates a slot.
func (s *srq) take(id uint64) (slot int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.free) - 1
	if last < 0 {
		return 0, false
	}
	slot, s.free = s.free[last], s.free[:last]
	s.ids[slot] = id
	return slot, true
}

// done frees a slot, and returns the work request ID in it.
func (s *srq) done(slot int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, slot)
	return s.ids[slot]
}

// Query returns the attributes. Status: InvalidSRQHandle.
func (s *srq) Query() (ci.SRQAttr, error) {
	if !s.refs.Alive() {
		return ci.SRQAttr{}, fail("SRQ.Query", ci.InvalidSRQHandle, "")
	}
	a := s.attr
	a.Limit = s.pd.hca.dev.Limit(s.num)
	return a, nil
}

// Modify arms the limit event. Status: InvalidParameter, Unsupported (another size), InvalidSRQHandle, Timeout.
func (s *srq) Modify(set ci.SRQField, a ci.SRQAttr) error {
	const verb = "SRQ.Modify"
	if !s.refs.Alive() {
		return fail(verb, ci.InvalidSRQHandle, "")
	}
	data, err := openPrivate(verb, a.User) // user.go
	if err != nil {                        // user.go
		return err
	}
	switch {
	case set == 0 || set&^(ci.SRQFieldMaxWR|ci.SRQFieldLimit) != 0:
		return fail(verb, ci.InvalidParameter, "no field, or an unknown one")
	case set&ci.SRQFieldMaxWR != 0:
		return fail(verb, ci.Unsupported, "the size is constant")
	case a.Limit < 0 || a.Limit > s.attr.MaxWR:
		return fail(verb, ci.InvalidParameter, "the limit exceeds the size")
	}
	if err := s.pd.hca.dev.SetLimit(s.num, a.Limit); err != nil {
		return commandError(verb, err)
	}
	data.answer(userabi.Answer{Number: uint32(s.num)}) // user.go
	return nil
}

// Destroy destroys the queue. Its receives do not complete. Status: ResourceBusy (a QP uses it), InvalidSRQHandle,
// Timeout. Context: drain.
func (s *srq) Destroy() error {
	const verb = "SRQ.Destroy"
	if err := s.refs.BeginDestroy(verb, ci.InvalidSRQHandle); err != nil {
		return err
	}
	h := s.pd.hca
	s.post.Lock() // a post in progress
	err := h.dev.DestroySRQ(s.num)
	s.post.Unlock()
	if err != nil {
		return commandError(verb, err)
	}
	h.mu.Lock()
	delete(h.srq, s.num)
	h.mu.Unlock()
	s.notify.Close()
	h.srqs.Give()
	s.pd.refs.Put()
	return nil
}

func (h *interrupts) SRQEvent(n SRQN, t ci.EventType) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if s := h.srq[n]; s != nil {
		s.notify.Event(ci.Event{Type: t})
	}
}
