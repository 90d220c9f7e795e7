package accesslayer

import "ciddk/ci"

// SRQ is a shared receive queue. It is a ci.SRQ: PostRecv goes straight to the driver. It cannot be destroyed while a
// QP uses it.
type SRQ struct {
	object
	srqVerbs
	pd *PD
}

func (s *SRQ) Unwrap() any { return s.srqVerbs.SRQ }

// PD returns the parent.
func (s *SRQ) PD() *PD { return s.pd }

// NewSRQ creates a shared receive queue. onEvent, which may be nil, is called with the SRQ and its events, one at a
// time on a goroutine of the access layer; c.OnEvent is called as well. Status: as ci.PD.CreateSRQ; InvalidMaxWRs and
// InvalidMaxSGE for sizes of zero or above the limits of the HCA; InvalidState with ErrClosed.
func (p *PD) NewSRQ(c ci.SRQCreate, onEvent func(*SRQ, ci.Event)) (*SRQ, error) {
	const verb = "PD.CreateSRQ"
	if attr := p.ca.a.Attr(); attr.Caps.Has(ci.CapSRQ) {
		switch {
		case c.MaxWR <= 0 || c.MaxWR > attr.MaxSRQWRs:
			return nil, tooMany(verb, ci.InvalidMaxWRs, "MaxWR", c.MaxWR, attr.MaxSRQWRs)
		case c.MaxSGE <= 0 || c.MaxSGE > attr.MaxSRQSGEs:
			return nil, tooMany(verb, ci.InvalidMaxSGE, "MaxSGE", c.MaxSGE, attr.MaxSRQSGEs)
		}
	}
	s := &SRQ{pd: p}
	s.n = &node{kind: kindSRQ, obj: s}
	if event := c.OnEvent; event != nil || onEvent != nil {
		c.OnEvent = func(e ci.Event) {
			s.n.callback(func() {
				if onEvent != nil {
					onEvent(s, e)
				}
				if event != nil {
					event(e)
				}
			})
		}
	}
	err := s.n.make(p.n, verb, func() (func() error, error) {
		in, err := p.verbs.CreateSRQ(c)
		s.srqVerbs.SRQ = in
		return destroyer(in), err
	})
	return made(s, err)
}

// Query returns the attributes. Status: as ci.SRQ.Query; InvalidSRQHandle with ErrClosed.
func (s *SRQ) Query() (attr ci.SRQAttr, err error) {
	err = s.n.during("SRQ.Query", func() error { attr, err = s.srqVerbs.Query(); return err })
	return attr, err
}

// Modify changes attributes. Status: as ci.SRQ.Modify; InvalidSRQHandle with ErrClosed.
func (s *SRQ) Modify(set ci.SRQField, attr ci.SRQAttr) error {
	return s.n.during("SRQ.Modify", func() error { return s.srqVerbs.Modify(set, attr) })
}
