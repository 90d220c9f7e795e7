package fakehca

import "ciddk/ci"

type pd struct {
	ci.UnimplementedPD
	ca   *ca
	dead bool
	kids int
}

func (p *pd) Destroy() error {
	h := p.ca.h
	h.enter("PD.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.dead:
		return fail("PD.Destroy", ci.InvalidPDHandle)
	case p.kids > 0:
		return fail("PD.Destroy", ci.ResourceBusy)
	}
	p.dead = true
	p.ca.kids--
	h.gone("pd", "PD.Destroy")
	return nil
}

func (p *pd) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	h := p.ca.h
	h.enter("PD.CreateCQ")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.dead:
		return nil, fail("PD.CreateCQ", ci.InvalidPDHandle)
	case c.Size < 1 && !(c.Size == 0 && h.faults.AcceptZero), c.Size > maxCQEs:
		return nil, fail("PD.CreateCQ", ci.InvalidCQSize)
	case c.Affinity.Vector > 1:
		return nil, fail("PD.CreateCQ", ci.InvalidParameter)
	}
	p.kids++
	h.add("cq")
	return &cq{pd: p, c: c}, nil
}

func (p *pd) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	h := p.ca.h
	h.enter("PD.RegisterMR")
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.dead {
		return nil, fail("PD.RegisterMR", ci.InvalidPDHandle)
	}
	if c.Access&ci.ZeroBased != 0 {
		return nil, fail("PD.RegisterMR", ci.Unsupported)
	}
	if c.Length == 0 {
		c.Length = c.Memory.Len() - c.Offset
	}
	p.kids++
	h.add("mr")
	h.next++
	m := &mr{pd: p, c: c, r: ci.Region{Addr: c.Memory.Addr() + c.Offset, Length: c.Length, LKey: ci.Key(h.next), RKey: ci.Key(h.next)}}
	h.mrs[m.r.LKey] = m
	return m, nil
}

func (p *pd) CreateQP(c ci.QPCreate) (ci.QP, error) {
	h := p.ca.h
	h.enter("PD.CreateQP")
	h.mu.Lock()
	defer h.mu.Unlock()
	send, ok1 := ci.As[*cq](c.SendCQ)
	recv, ok2 := ci.As[*cq](c.RecvCQ)
	switch {
	case p.dead:
		return nil, fail("PD.CreateQP", ci.InvalidPDHandle)
	case c.Type != ci.RC:
		return nil, fail("PD.CreateQP", ci.Unsupported)
	case !ok1 || !ok2 || send.dead || recv.dead:
		return nil, fail("PD.CreateQP", ci.InvalidCQHandle)
	case c.SendDepth > maxWRs || c.RecvDepth > maxWRs:
		return nil, fail("PD.CreateQP", ci.InvalidMaxWRs)
	case c.SendSGE > maxSGEs || c.RecvSGE > maxSGEs:
		return nil, fail("PD.CreateQP", ci.InvalidMaxSGE)
	}
	p.kids++
	send.users++
	recv.users++
	h.add("qp")
	h.next++
	q := &qp{pd: p, c: c, send: send, recv: recv, attr: ci.QPAttr{QPCaps: c.QPCaps, Type: c.Type, Num: ci.QPN(h.next), PD: p, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ}}
	h.qps[q.attr.Num] = q
	return q, nil
}

type cq struct {
	ci.UnimplementedCQ
	pd    *pd
	c     ci.CQCreate
	dead  bool
	users int
	wcs   []ci.WC
	armed bool
}

func (c *cq) Destroy() error {
	h := c.pd.ca.h
	h.enter("CQ.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.dead:
		return fail("CQ.Destroy", ci.InvalidCQHandle)
	case c.users > 0:
		return fail("CQ.Destroy", ci.ResourceBusy)
	}
	c.dead = true
	c.pd.kids--
	h.gone("cq", "CQ.Destroy")
	return nil
}

func (c *cq) Poll(wc []ci.WC) (int, error) {
	h := c.pd.ca.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.dead {
		return 0, fail("CQ.Poll", ci.InvalidCQHandle)
	}
	n := copy(wc, c.wcs)
	c.wcs = c.wcs[n:]
	return n, nil
}

func (c *cq) Notify(ci.Notify) error {
	h := c.pd.ca.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.dead {
		return fail("CQ.Notify", ci.InvalidCQHandle)
	}
	c.armed = true
	return nil
}

func (c *cq) Query() (ci.CQAttr, error) {
	h := c.pd.ca.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.dead {
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle)
	}
	return ci.CQAttr{Size: c.c.Size}, nil
}

// push adds a completion; the lock is held. The callback runs on a goroutine of its own.
func (c *cq) push(wc ci.WC) {
	c.wcs = append(c.wcs, wc)
	if c.armed && c.c.OnCompletion != nil {
		c.armed = false
		go c.c.OnCompletion(c.c.Context)
	}
}

type mr struct {
	ci.UnimplementedMR
	pd   *pd
	c    ci.MRCreate
	r    ci.Region
	dead bool
}

func (m *mr) Region() ci.Region { return m.r }

func (m *mr) Query() (ci.MRAttr, error) {
	if m.dead {
		return ci.MRAttr{}, fail("MR.Query", ci.InvalidMRHandle)
	}
	return ci.MRAttr{Region: m.r, PD: m.pd, Access: m.c.Access, LocalLo: m.r.Addr, LocalHi: m.r.Addr + m.r.Length}, nil
}

func (m *mr) Destroy() error {
	h := m.pd.ca.h
	h.enter("MR.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.dead {
		return fail("MR.Destroy", ci.InvalidMRHandle)
	}
	m.dead = true
	m.pd.kids--
	delete(h.mrs, m.r.LKey)
	h.gone("mr", "MR.Destroy")
	return nil
}
