package rvt

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// SRQ is a shared receive queue.
type SRQ struct {
	refs      driver.Refs
	notify    driver.Notifier
	pd        *PD
	destroyed atomic.Bool
	postMu    sync.Mutex
	mu        sync.Mutex // takes; after a QP's token and postMu
	ring      RecvRing
	bytes     int64 // of HCA.queues
	maxSGE    int
	limit     int // armed when above 0
}

// CreateSRQ creates a shared receive queue.
func (d *PD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	const verb = "PD.CreateSRQ"
	dev := d.dev
	switch {
	case !dev.attr.Caps.Has(ci.CapSRQ):
		return d.UnimplementedPD.CreateSRQ(c)
	case c.MaxWR <= 0 || c.MaxWR > dev.attr.MaxSRQWRs:
		return nil, outside(verb, ci.InvalidMaxWRs, "MaxWR", c.MaxWR, 1, dev.attr.MaxSRQWRs)
	case c.MaxSGE < 0 || c.MaxSGE > dev.attr.MaxSRQSGEs:
		return nil, outside(verb, ci.InvalidMaxSGE, "MaxSGE", c.MaxSGE, 0, dev.attr.MaxSRQSGEs)
	case c.Limit < 0 || c.Limit > c.MaxWR:
		return nil, failf(verb, ci.InvalidParameter, "the limit is above the size")
	}
	if err := d.child(verb, kindSRQ, dev.attr.MaxSRQs); err != nil {
		return nil, err
	}
	bytes := dev.srqBytes() + dev.recvBytes(c.MaxWR, c.MaxSGE)
	if err := dev.reserve(verb, "the queue", bytes); err != nil {
		d.unchild(kindSRQ)
		return nil, err
	}
	ring, err := d.srqRing(&c)
	if err != nil {
		dev.queues.give(bytes)
		d.unchild(kindSRQ)
		return nil, failErr(verb, ci.InsufficientResources, err)
	}
	s := &SRQ{pd: d, ring: ring, bytes: bytes, maxSGE: c.MaxSGE, limit: c.Limit}
	s.notify = driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}
	return s, nil
}

// srqRing makes the queue of an SRQ and answers the UserBuffer.
func (d *PD) srqRing(c *ci.SRQCreate) (RecvRing, error) {
	ring, err := d.rings().RecvRing(c.MaxWR, c.MaxSGE, c.User)
	if err != nil {
		return nil, err
	}
	if d.user == nil {
		nothingForUser(c.User)
		return ring, nil
	}
	if err := d.user.AddSRQ(ring, c.User); err != nil {
		freeRing(ring)
		return nil, err
	}
	return ring, nil
}

// PostRecv appends receive buffers.
func (s *SRQ) PostRecv(wrs []ci.RecvWR) (int, error) {
	s.postMu.Lock()
	defer s.postMu.Unlock()
	if s.destroyed.Load() {
		return 0, srqPostErrors.Destroyed
	}
	return postRecv(s.ring, wrs, s.maxSGE, srqPostErrors)
}

// Query returns the sizes and the limit.
func (s *SRQ) Query() (ci.SRQAttr, error) {
	if s.destroyed.Load() {
		return ci.SRQAttr{}, fail("SRQ.Query", ci.InvalidSRQHandle)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return ci.SRQAttr{MaxWR: s.ring.Depth(), MaxSGE: s.maxSGE, Limit: s.limit}, nil
}

// Modify arms the limit or changes the size.
func (s *SRQ) Modify(set ci.SRQField, attr ci.SRQAttr) error {
	const verb = "SRQ.Modify"
	s.postMu.Lock()
	defer s.postMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	dev := s.pd.dev
	if s.destroyed.Load() {
		return fail(verb, ci.InvalidSRQHandle)
	}
	if set&^(ci.SRQFieldMaxWR|ci.SRQFieldLimit) != 0 || set == 0 {
		return failf(verb, ci.InvalidParameter, "unknown field, or none")
	}
	depth := s.ring.Depth()
	if set&ci.SRQFieldMaxWR != 0 {
		switch {
		case !dev.attr.Caps.Has(ci.CapModifySRQDepth):
			return fail(verb, ci.Unsupported)
		case attr.MaxWR <= 0 || attr.MaxWR > dev.attr.MaxSRQWRs || attr.MaxWR < s.ring.Len():
			return fail(verb, ci.InvalidMaxWRs)
		}
		depth = attr.MaxWR
	}
	if set&ci.SRQFieldLimit != 0 && (attr.Limit < 0 || attr.Limit > depth) {
		return failf(verb, ci.InvalidParameter, "the limit is above the size")
	}
	if set&ci.SRQFieldMaxWR != 0 {
		bytes := dev.srqBytes() + dev.recvBytes(attr.MaxWR, s.maxSGE)
		if err := dev.reserve(verb, "the new size", bytes); err != nil {
			return err
		}
		if err := resizeRing(s.ring, attr.MaxWR, attr.User); err != nil {
			dev.queues.give(bytes)
			return failErr(verb, ci.StatusOf(err), err)
		}
		dev.queues.give(s.bytes)
		s.bytes = bytes
	}
	if set&ci.SRQFieldLimit != 0 {
		s.limit = attr.Limit
		s.checkLimit()
	}
	if set&ci.SRQFieldMaxWR == 0 {
		nothingForUser(attr.User)
	}
	return nil
}

// Destroy frees the queue. Buffers that are still posted never complete.
func (s *SRQ) Destroy() error {
	if err := s.refs.BeginDestroy("SRQ.Destroy", ci.InvalidSRQHandle); err != nil {
		return err
	}
	s.destroyed.Store(true)
	s.notify.Close()
	s.postMu.Lock()
	s.mu.Lock()
	freeRing(s.ring)
	s.ring = noRecvRing{}
	s.pd.dev.queues.give(s.bytes)
	s.mu.Unlock()
	s.postMu.Unlock()
	s.pd.unchild(kindSRQ)
	return nil
}

// Next implements RecvSource for a QP.
func (s *SRQ) Next(w *RecvWork) bool {
	s.mu.Lock()
	ok := s.ring.Next(w)
	if ok {
		s.checkLimit()
	}
	s.mu.Unlock()
	return ok
}

// checkLimit raises the limit event once per arming (IBTA volume 1, 10.2.9.3).
func (s *SRQ) checkLimit() {
	if s.limit > 0 && s.ring.Len() < s.limit {
		s.limit = 0
		s.notify.Event(ci.Event{Type: ci.EventSRQLimit})
	}
}
