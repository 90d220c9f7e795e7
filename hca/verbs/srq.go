//go:build linux && (amd64 || arm64)

package verbs

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/hca/verbs/internal/ibv"
)

type srq struct {
	ci.UnimplementedSRQ
	refs   driver.Refs
	pd     *pd
	hca    *HCA
	srq    ibv.SRQ
	notify driver.Notifier

	mu   sync.Mutex // of the fields below, and of the calls that the provider does not serialize with Destroy
	dead bool
	sges int
	list *ibv.List[ibv.RecvWR]
}

// CreateSRQ creates an SRQ. Status: Unsupported, InvalidMaxWRs, InvalidMaxSGE, InvalidParameter (Limit, private data),
// InsufficientResources, InvalidPDHandle.
func (p *pd) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	const verb = "PD.CreateSRQ"
	h := p.hca
	switch {
	case h.attr.MaxSRQ == 0:
		return p.UnimplementedPD.CreateSRQ(c)
	case c.User != nil:
		return nil, fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case c.MaxWR < 1 || c.MaxWR > limit(h.attr.MaxSRQWR):
		return nil, fail(verb, ci.InvalidMaxWRs, "want 1 to MaxSRQWRs")
	case c.MaxSGE < 1 || c.MaxSGE > limit(h.attr.MaxSRQSGE):
		return nil, fail(verb, ci.InvalidMaxSGE, "want 1 to MaxSRQSGEs")
	case c.Limit < 0 || c.Limit > c.MaxWR:
		return nil, fail(verb, ci.InvalidParameter, "Limit: want 0 to MaxWR")
	}
	if err := p.hold(verb, &h.srqs); err != nil {
		return nil, err
	}
	s := &srq{pd: p, hca: h, notify: driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}}
	var granted ibv.SRQAttr
	var err error
	s.srq, granted, err = h.dev.CreateSRQ(p.pd, ibv.SRQAttr{MaxWR: uint32(c.MaxWR), MaxSGE: uint32(c.MaxSGE)})
	if err != nil {
		p.release(&h.srqs)
		return nil, reject(verb, err, ci.Success)
	}
	s.sges = int(granted.MaxSGE)
	s.list = h.dev.SRQList(s.srq, postBatch, s.sges)
	h.mu.Lock()
	h.srq[s.srq.Ptr()] = s
	h.mu.Unlock()
	if c.Limit > 0 { // ibv_create_srq ignores the limit
		if err := h.dev.ModifySRQ(s.srq, ibv.SRQAttr{Limit: uint32(c.Limit)}, ibv.SRQLimit); err != nil {
			_ = s.Destroy()
			return nil, reject(verb, err, ci.Success)
		}
	}
	return s, nil
}

// Destroy destroys the SRQ. Status: ResourceBusy (a QP uses it), InvalidSRQHandle. Context: drain.
func (s *srq) Destroy() error {
	const verb = "SRQ.Destroy"
	err := s.refs.DestroyIf(verb, ci.InvalidSRQHandle, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.hca.dev.DestroySRQ(s.srq); err != nil {
			return reject(verb, err, ci.Success)
		}
		s.dead = true
		return nil
	})
	if err != nil {
		return err
	}
	h := s.hca
	h.mu.Lock()
	if h.srq[s.srq.Ptr()] == s {
		delete(h.srq, s.srq.Ptr())
	}
	h.mu.Unlock()
	s.notify.Close()
	s.pd.release(&h.srqs)
	return nil
}

// Query returns the attributes. Status: InvalidSRQHandle, or that of the provider's error.
func (s *srq) Query() (ci.SRQAttr, error) {
	const verb = "SRQ.Query"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return ci.SRQAttr{}, fail(verb, ci.InvalidSRQHandle, "")
	}
	a, err := s.hca.dev.QuerySRQ(s.srq)
	if err != nil {
		return ci.SRQAttr{}, reject(verb, err, ci.Success)
	}
	return ci.SRQAttr{MaxWR: int(a.MaxWR), MaxSGE: int(a.MaxSGE), Limit: int(a.Limit)}, nil
}

// Modify changes the size or arms the limit. Status: InvalidMaxWRs, InvalidParameter, Unsupported, InvalidSRQHandle.
func (s *srq) Modify(set ci.SRQField, a ci.SRQAttr) error {
	const verb = "SRQ.Modify"
	var mask int
	attr := ibv.SRQAttr{MaxWR: uint32(a.MaxWR), Limit: uint32(a.Limit)}
	switch {
	case set == 0 || set&^(ci.SRQFieldMaxWR|ci.SRQFieldLimit) != 0:
		return fail(verb, ci.InvalidParameter, "no field, or an unknown one")
	case a.User != nil:
		return fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case set&ci.SRQFieldMaxWR != 0 && !s.hca.claims().Has(ci.CapModifySRQDepth):
		return fail(verb, ci.Unsupported, "CapModifySRQDepth is not claimed")
	case set&ci.SRQFieldMaxWR != 0 && (a.MaxWR < 1 || a.MaxWR > limit(s.hca.attr.MaxSRQWR)):
		return fail(verb, ci.InvalidMaxWRs, "want 1 to MaxSRQWRs")
	case set&ci.SRQFieldLimit != 0 && (a.Limit < 0 || a.Limit > limit(s.hca.attr.MaxSRQWR)):
		return fail(verb, ci.InvalidParameter, "Limit: want 0 to MaxWR")
	}
	if set&ci.SRQFieldMaxWR != 0 {
		mask |= ibv.SRQMaxWR
	}
	if set&ci.SRQFieldLimit != 0 {
		mask |= ibv.SRQLimit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return fail(verb, ci.InvalidSRQHandle, "")
	}
	if err := s.hca.dev.ModifySRQ(s.srq, attr, mask); err != nil {
		return reject(verb, err, ci.Success)
	}
	return nil
}

var srqErrors = wrrules.NewErrors("SRQ.PostRecv", ci.InvalidSRQHandle)

// PostRecv posts receives. Status: InsufficientResources, InvalidMaxSGE, InvalidSRQHandle.
func (s *srq) PostRecv(wrs []ci.RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return 0, srqErrors.Destroyed
	}
	return postRecv(s.list, wrs, s.sges, srqErrors)
}
