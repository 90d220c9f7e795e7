package ciwrap

import "ciddk/ci"

// The wrappers below are in front of parents and pass the children to the Layer.

type hcaWrap struct {
	HCA
	l *Layer
}

func (h *hcaWrap) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	if onEvent != nil && h.l.OpenCA != nil {
		onEvent, arg = h.l.OpenCA(onEvent, arg)
	}
	in, err := h.HCA.OpenCA(guid, h.l.filter(onEvent), arg)
	return made(in, err, func(in ci.CA) ci.CA {
		if h.l.belowCA() {
			in = &caWrap{CA{in}, h.l}
		}
		if h.l.CA != nil {
			in = h.l.CA(in)
		}
		return in
	})
}

type caWrap struct {
	CA
	l *Layer
}

func (c *caWrap) AllocatePD(typ ci.PDType) (ci.PD, error) {
	in, err := c.CA.AllocatePD(typ)
	return c.l.pd(in, err, typ)
}

func (c *caWrap) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	in, err := c.CA.OpenUser(p, ub)
	return made(in, err, func(in ci.UserCA) ci.UserCA {
		if c.l.PD != nil || c.l.belowPD() {
			in = &userCAWrap{UserCA{in}, c.l}
		}
		if c.l.UserCA != nil {
			in = c.l.UserCA(in, p)
		}
		return in
	})
}

func (c *caWrap) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	if fn != nil && c.l.OnEvent != nil {
		fn, arg = c.l.OnEvent(fn, arg)
	}
	in, err := c.CA.OnEvent(c.l.filter(fn), arg)
	return made(in, err, c.l.EventHandler)
}

func (c *caWrap) MapDMA(mem ci.Memory) (ci.DMA, error) {
	in, err := c.CA.MapDMA(mem)
	return made(in, err, with(c.l.DMA, mem))
}

type userCAWrap struct {
	UserCA
	l *Layer
}

func (u *userCAWrap) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	in, err := u.UserCA.AllocatePD(typ, ub)
	return u.l.pd(in, err, typ)
}

func (l *Layer) pd(in ci.PD, err error, typ ci.PDType) (ci.PD, error) {
	return made(in, err, func(in ci.PD) ci.PD {
		if l.belowPD() {
			in = &pdWrap{PD{in}, l}
		}
		if l.PD != nil {
			in = l.PD(in, typ)
		}
		return in
	})
}

type pdWrap struct {
	PD
	l *Layer
}

// CreateAV may be called from callbacks and for each datagram, so it creates no closure.
func (p *pdWrap) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	in, err := p.PD.CreateAV(attr)
	if err != nil || in == nil || p.l.AV == nil {
		return in, err
	}
	return p.l.AV(in, attr), nil
}

func (p *pdWrap) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	if p.l.CQCreate != nil {
		c = p.l.CQCreate(c)
	}
	down := c
	down.OnEvent = p.l.filter(c.OnEvent)
	if done := c.OnCompletion; done != nil && p.l.Completion != nil {
		down.OnCompletion = func(arg any) { p.l.Completion(arg, done) }
	}
	in, err := p.PD.CreateCQ(down)
	return made(in, err, with(p.l.CQ, c))
}

func (p *pdWrap) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	if p.l.SRQCreate != nil {
		c = p.l.SRQCreate(c)
	}
	down := c
	down.OnEvent = p.l.filter(c.OnEvent)
	in, err := p.PD.CreateSRQ(down)
	return made(in, err, with(p.l.SRQ, c))
}

func (p *pdWrap) CreateQP(c ci.QPCreate) (ci.QP, error) {
	c, down := p.qpCreate(c)
	in, err := p.PD.CreateQP(down)
	return p.qp(in, err, c)
}

func (p *pdWrap) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	c, down := p.qpCreate(c)
	in, err := p.PD.CreateSpecialQP(port, down)
	return p.qp(in, err, c)
}

func (p *pdWrap) qpCreate(c ci.QPCreate) (hooked, down ci.QPCreate) {
	if p.l.QPCreate != nil {
		c = p.l.QPCreate(c)
	}
	down = c
	down.OnEvent = p.l.filter(c.OnEvent)
	return c, down
}

func (p *pdWrap) qp(in ci.QP, err error, c ci.QPCreate) (ci.QP, error) {
	return made(in, err, func(in ci.QP) ci.QP {
		if p.l.Mcast != nil {
			in = &qpWrap{QP{in}, p.l}
		}
		if p.l.QP != nil {
			in = p.l.QP(in, c)
		}
		return in
	})
}

func (p *pdWrap) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	if p.l.MRCreate != nil {
		c = p.l.MRCreate(c)
	}
	in, err := p.PD.RegisterMR(c)
	return made(in, err, with(p.l.MR, MROrigin{Kind: MRVirtual, Virtual: c}))
}

func (p *pdWrap) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	in, err := p.PD.RegisterPMR(c)
	return made(in, err, with(p.l.MR, MROrigin{Kind: MRPhysical, Physical: c}))
}

func (p *pdWrap) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	in, err := p.PD.RegisterSMR(src, iova, access)
	return made(in, err, with(p.l.MR, MROrigin{Kind: MRShared, Source: src, IOVA: iova, Access: access}))
}

func (p *pdWrap) AllocFastRegMR(maxPages int) (ci.MR, error) {
	in, err := p.PD.AllocFastRegMR(maxPages)
	return made(in, err, with(p.l.MR, MROrigin{Kind: MRFastReg, MaxPages: maxPages}))
}

func (p *pdWrap) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	in, err := p.PD.AllocFMR(c)
	return made(in, err, with(p.l.FMR, c))
}

func (p *pdWrap) CreateMW(c ci.MWCreate) (ci.MW, error) {
	in, err := p.PD.CreateMW(c)
	return made(in, err, with(p.l.MW, c))
}

func (p *pdWrap) AllocRDD() (ci.RDD, error) {
	in, err := p.PD.AllocRDD()
	return made(in, err, func(in ci.RDD) ci.RDD {
		if p.l.belowRDD() {
			in = &rddWrap{RDD{in}, p.l}
		}
		if p.l.RDD != nil {
			in = p.l.RDD(in)
		}
		return in
	})
}

type rddWrap struct {
	RDD
	l *Layer
}

func (r *rddWrap) CreateEEC(c ci.EECCreate) (ci.EEC, error) {
	if r.l.EECCreate != nil {
		c = r.l.EECCreate(c)
	}
	down := c
	down.OnEvent = r.l.filter(c.OnEvent)
	in, err := r.RDD.CreateEEC(down)
	return made(in, err, with(r.l.EEC, c))
}

type qpWrap struct {
	QP
	l *Layer
}

func (q *qpWrap) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	in, err := q.QP.AttachMcast(c)
	return made(in, err, func(in ci.Mcast) ci.Mcast { return q.l.Mcast(in, c) })
}
