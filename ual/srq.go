package ual

import (
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// SRQ is a shared receive queue of the daemon.
type SRQ struct {
	ci.UnimplementedSRQ
	ca     *CA
	handle schema.Handle
	events receiver
	post   sync.Mutex // of posts, which can take several messages
}

var _ ci.SRQ = (*SRQ)(nil)

// CreateSRQ creates a shared receive queue.
func (p *PD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	s := &SRQ{ca: p.ca}
	s.events = receiver{context: c.Context, onEvent: c.OnEvent, drained: p.ca.drained}
	p.ca.c.tokens.add(&s.events)
	req := &schema.CreateSRQ{PD: p.handle, Token: s.events.token, Async: p.ca.async.handle, Attr: srqAttr(c.SRQAttr)}
	var r schema.Created
	if err := p.ca.c.do(schema.CmdCreateSRQ, req, nil, &r); err != nil {
		p.ca.c.tokens.remove(&s.events)
		return nil, err
	}
	s.handle = r.Handle
	return s, nil
}

func srqAttr(a ci.SRQAttr) schema.SRQAttr {
	return schema.SRQAttr{MaxWR: schema.Int32(a.MaxWR), MaxSGE: schema.Int32(a.MaxSGE), Limit: schema.Int32(a.Limit)}
}

// Destroy destroys the queue.
func (s *SRQ) Destroy() error {
	if _, err := s.ca.c.destroyEvents(s.handle, &s.events); err != nil {
		return err
	}
	s.ca.c.tokens.remove(&s.events)
	return nil
}

// PostRecv posts receive buffers.
func (s *SRQ) PostRecv(wrs []ci.RecvWR) (int, error) {
	s.post.Lock()
	defer s.post.Unlock()
	return s.ca.c.postRecv(schema.CmdPostSRQRecv, s.handle, wrs)
}

// Query returns the attributes.
func (s *SRQ) Query() (ci.SRQAttr, error) {
	var r schema.SRQAttr
	if err := s.ca.c.do(schema.CmdQuerySRQ, &schema.SRQ{SRQ: s.handle}, nil, &r); err != nil {
		return ci.SRQAttr{}, err
	}
	return ci.SRQAttr{MaxWR: int(r.MaxWR), MaxSGE: int(r.MaxSGE), Limit: int(r.Limit)}, nil
}

// Modify changes the attributes that set names.
func (s *SRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	req := &schema.ModifySRQ{SRQ: s.handle, Set: uint32(set), Attr: srqAttr(a)}
	return s.ca.c.do(schema.CmdModifySRQ, req, nil, &schema.Changed{})
}
