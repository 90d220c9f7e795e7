package fakehca

import "ciddk/ci"

type pd struct {
	ci.UnimplementedPD
	ca          *ca
	destroyed   bool
	numChildren int
}

func (p *pd) Destroy() error {
	h := p.ca.h
	h.enter("PD.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.destroyed:
		return fail("PD.Destroy", ci.InvalidPDHandle)
	case p.numChildren > 0:
		return fail("PD.Destroy", ci.ResourceBusy)
	}
	p.destroyed = true
	p.ca.numChildren--
	h.remove("pd", "PD.Destroy")
	return nil
}

func (p *pd) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	h := p.ca.h
	h.enter("PD.CreateCQ")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.destroyed:
		return nil, fail("PD.CreateCQ", ci.InvalidPDHandle)
	case c.Size < 1 && !(c.Size == 0 && h.faults.AcceptZero), c.Size > maxCQEs:
		return nil, fail("PD.CreateCQ", ci.InvalidCQSize)
	case c.Affinity.Vector > 1:
		return nil, fail("PD.CreateCQ", ci.InvalidParameter)
	}
	p.numChildren++
	h.add("cq")
	return &cq{pd: p, c: c}, nil
}

func (p *pd) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	h := p.ca.h
	h.enter("PD.RegisterMR")
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.destroyed {
		return nil, fail("PD.RegisterMR", ci.InvalidPDHandle)
	}
	if c.Access&(ci.ZeroBased|ci.FlushRights) != 0 {
		return nil, fail("PD.RegisterMR", ci.Unsupported)
	}
	if c.Length == 0 {
		c.Length = c.Memory.Len() - c.Offset
	}
	p.numChildren++
	h.add("mr")
	h.next++
	r := ci.Region{
		Addr: c.Memory.Addr() + c.Offset, Length: c.Length, LKey: ci.Key(h.next), RKey: ci.Key(h.next),
	}
	m := &mr{pd: p, c: c, r: r}
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
	case p.destroyed:
		return nil, fail("PD.CreateQP", ci.InvalidPDHandle)
	case c.Type != ci.RC:
		return nil, fail("PD.CreateQP", ci.Unsupported)
	case !ok1 || !ok2 || send.destroyed || recv.destroyed:
		return nil, fail("PD.CreateQP", ci.InvalidCQHandle)
	case c.SendDepth > maxWRs || c.RecvDepth > maxWRs:
		return nil, fail("PD.CreateQP", ci.InvalidMaxWRs)
	case c.SendSGE > maxSGEs || c.RecvSGE > maxSGEs:
		return nil, fail("PD.CreateQP", ci.InvalidMaxSGE)
	}
	p.numChildren++
	send.numUsers++
	recv.numUsers++
	h.add("qp")
	h.next++
	attr := ci.QPAttr{
		QPCaps: c.QPCaps, Type: c.Type, Num: ci.QPN(h.next), PD: p, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ,
	}
	q := &qp{pd: p, c: c, send: send, recv: recv, attr: attr}
	h.qps[q.attr.Num] = q
	return q, nil
}

type cq struct {
	ci.UnimplementedCQ
	pd        *pd
	c         ci.CQCreate
	destroyed bool
	numUsers  int
	wcs       []ci.WC
	armed     bool
}

func (c *cq) Destroy() error {
	h := c.pd.ca.h
	h.enter("CQ.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.destroyed:
		return fail("CQ.Destroy", ci.InvalidCQHandle)
	case c.numUsers > 0:
		return fail("CQ.Destroy", ci.ResourceBusy)
	}
	c.destroyed = true
	c.pd.numChildren--
	h.remove("cq", "CQ.Destroy")
	return nil
}

func (c *cq) Poll(wc []ci.WC) (int, error) {
	h := c.pd.ca.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.destroyed {
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
	if c.destroyed {
		return fail("CQ.Notify", ci.InvalidCQHandle)
	}
	c.armed = true
	return nil
}

func (c *cq) Query() (ci.CQAttr, error) {
	h := c.pd.ca.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.destroyed {
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle)
	}
	return ci.CQAttr{Size: c.c.Size}, nil
}

// push adds a completion. The lock is held. The callback runs on its own goroutine.
func (c *cq) push(wc ci.WC) {
	c.wcs = append(c.wcs, wc)
	if c.armed && c.c.OnCompletion != nil {
		c.armed = false
		go c.c.OnCompletion(c.c.Context)
	}
}

type mr struct {
	ci.UnimplementedMR
	pd        *pd
	c         ci.MRCreate
	r         ci.Region
	destroyed bool
}

func (m *mr) Region() ci.Region { return m.r }

func (m *mr) Query() (ci.MRAttr, error) {
	if m.destroyed {
		return ci.MRAttr{}, fail("MR.Query", ci.InvalidMRHandle)
	}
	return ci.MRAttr{Region: m.r, PD: m.pd, Access: m.c.Access, LocalLo: m.r.Addr, LocalHi: m.r.Addr + m.r.Length}, nil
}

func (m *mr) Destroy() error {
	h := m.pd.ca.h
	h.enter("MR.Destroy")
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.destroyed {
		return fail("MR.Destroy", ci.InvalidMRHandle)
	}
	m.destroyed = true
	m.pd.numChildren--
	delete(h.mrs, m.r.LKey)
	h.remove("mr", "MR.Destroy")
	return nil
}
