package ual

import (
	"sync"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// SRQ is a shared receive queue of the daemon.
type SRQ struct {
	ci.UnimplementedSRQ
	ca     *CA
	handle schema.Handle
	events receiver
	user   ci.UserSRQ // the library's
	post   sync.Mutex // of posts, which can take several messages
}

var _ ci.SRQ = (*SRQ)(nil)

// CreateSRQ creates a shared receive queue.
func (p *PD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	s := &SRQ{ca: p.ca}
	s.events = receiver{context: c.Context, onEvent: c.OnEvent, drained: p.ca.drained}
	p.ca.c.tokens.add(&s.events)
	a, v := &ci.UserCreateSRQ{PD: p.state, Create: c}, verbKind{verb: "PD.CreateSRQ", data: true}
	_, err := aroundFallible(p.ca, p.state, p.ca.hooks().CreateSRQ, a, v, func(x private) error {
		req := &schema.CreateSRQ{PD: p.handle, Token: s.events.token, Async: p.ca.async.handle,
			Attr: srqAttr(a.Create.SRQAttr)}
		var r schema.Created
		err := p.ca.c.doUser(schema.CmdCreateSRQ, req, &r, &req.User, &r.User, x)
		s.handle = r.Handle
		return err
	}, func() { _, _ = p.ca.c.destroyEvents(s.handle, &s.events) }) // the application receives the error of Post
	if err != nil {
		p.ca.c.tokens.remove(&s.events)
		return nil, err
	}
	s.user = a.SRQ
	return s, nil
}

func srqAttr(a ci.SRQAttr) schema.SRQAttr {
	return schema.SRQAttr{MaxWR: schema.Int32(a.MaxWR), MaxSGE: schema.Int32(a.MaxSGE), Limit: schema.Int32(a.Limit)}
}

// Destroy destroys the queue.
func (s *SRQ) Destroy() error {
	a, v := &ci.UserDestroySRQ{SRQ: s.user.Handle}, verbKind{verb: "SRQ.Destroy"}
	err := around(s.ca, s.user.Handle, s.ca.hooks().DestroySRQ, a, v, func(private) error {
		_, err := s.ca.c.destroyEvents(s.handle, &s.events)
		return err
	})
	if err != nil {
		return err
	}
	s.ca.c.tokens.remove(&s.events)
	return nil
}

// PostRecv posts receive buffers.
func (s *SRQ) PostRecv(wrs []ci.RecvWR) (int, error) {
	if s.user.PostRecv != nil {
		if err := s.ca.bypassError(schema.CmdPostSRQRecv); err != nil {
			return 0, err
		}
		return s.user.PostRecv(wrs)
	}
	s.post.Lock()
	defer s.post.Unlock()
	return s.ca.c.postRecv(schema.CmdPostSRQRecv, s.handle, wrs)
}

// Query returns the attributes.
func (s *SRQ) Query() (ci.SRQAttr, error) {
	a, v := &ci.UserQuerySRQ{SRQ: s.user.Handle}, verbKind{verb: "SRQ.Query"}
	err := around(s.ca, s.user.Handle, s.ca.hooks().QuerySRQ, a, v, func(private) error {
		var r schema.SRQAttr
		err := s.ca.c.do(schema.CmdQuerySRQ, &schema.SRQ{SRQ: s.handle}, nil, &r)
		a.Attr = ci.SRQAttr{MaxWR: int(r.MaxWR), MaxSGE: int(r.MaxSGE), Limit: int(r.Limit)}
		return err
	})
	if err != nil {
		return ci.SRQAttr{}, err
	}
	return a.Attr, nil
}

// Modify changes the attributes that set names.
func (s *SRQ) Modify(set ci.SRQField, attr ci.SRQAttr) error {
	a, v := &ci.UserModifySRQ{SRQ: s.user.Handle, Set: set, Attr: attr}, verbKind{verb: "SRQ.Modify", data: true}
	return around(s.ca, s.user.Handle, s.ca.hooks().ModifySRQ, a, v, func(p private) error {
		var r schema.Changed
		req := &schema.ModifySRQ{SRQ: s.handle, Set: uint32(a.Set), Attr: srqAttr(a.Attr)}
		return s.ca.c.doUser(schema.CmdModifySRQ, req, &r, &req.User, &r.User, p)
	})
}
