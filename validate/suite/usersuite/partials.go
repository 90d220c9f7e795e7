package usersuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Processes without a user library, with one that the driver does not answer, and with one that takes no part in some
// verbs, at a driver that has one. (SAS 2.4.)
var partials = area().Needing(validate.Needs{Caps: ci.CapUser})

var _ = partials.Add("user.library.none",
	"a process without a user library, at a driver that has one", func(t *validate.T) {
		s := startStage(t, new(trace), nil)
		a := s.with()
		a.works()
		a.cut()
		s.gone("the daemon after a process without a user library")
	}, req.SAS2_4_16)

var _ = partials.Add("user.library.unanswered", "a driver that does not answer the user library", func(t *validate.T) {
	lib := t.UserLibrary()
	r := new(trace)
	p := newProbe(r)
	p.library = lib.Name
	p.handle(func(string, *ci.UserBuffer) error { return nil })
	s := startStage(t, r, p)
	a := s.with(lib)
	ca, err := a.hca(0).OpenCA(s.guids[0], func(ci.Event) {}, nil)
	if err != nil { // the library needs the answer
		kit.True(t, ca == nil, "CA of HCA.OpenCA that fails", "nil", "a CA")
		return
	}
	kit.OK(t, ca.Destroy(), "CA.Destroy")
	a.works()
	a.cut()
	s.gone("the daemon after a process whose user library had no answers")
}, req.SAS2_4_16)

// The case has a library without the hooks of the verbs that move queues, such as one of an older version. If the
// driver cannot do without them, the verbs fail. The queues remain usable.
var _ = partials.Add("user.library.resize", "resizes in which the user library takes no part", func(t *validate.T) {
	lib := *t.UserLibrary()
	lib.ResizeCQ, lib.ModifySRQ = ci.UserHook[ci.UserResizeCQ]{}, ci.UserHook[ci.UserModifySRQ]{}
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair()
	claims := t.Claims()
	if claims.Has(ci.CapResizeCQ) {
		for _, q := range []*kit.CQ{p.A.CQ, p.A.RecvCQ, p.B.CQ} {
			if _, err := q.Resize(ci.CQResize{Size: min(500, t.Attr().MaxCQEs)}); err != nil {
				kit.Want(t, err, "CQ.Resize without the user library", ci.InsufficientResources, ci.Unsupported,
					ci.InvalidState)
			}
			p.A.Exchange(p.B, 100)
			p.B.Exchange(p.A, 100)
		}
	}
	if claims.Has(ci.CapSRQ | ci.CapModifySRQDepth) {
		srq, err := p.B.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		err = srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: min(200, t.Attr().MaxSRQWRs)})
		if err != nil {
			kit.Want(t, err, "SRQ.Modify of the depth without the user library", ci.InsufficientResources,
				ci.Unsupported, ci.InvalidState)
		}
		n, err := srq.PostRecv(p.B.RecvWRs(3, 16))
		kit.WantTaken(t, "SRQ.PostRecv after SRQ.Modify without the user library", n, err, 3)
		kit.OK(t, srq.Destroy(), "SRQ.Destroy")
	}
	a.cut()
	s.gone("the daemon after resizes in which the user library took no part")
}, req.SAS2_4_16)

// works tests that the process can use objects of each kind that has a part of the user library.
func (a *app) works() {
	t := a.s.t
	claims := t.Claims()
	p := a.pair()
	exchange := func() {
		for _, n := range []int{0, 100, 3000} {
			p.A.Exchange(p.B, n)
			p.B.Exchange(p.A, n)
		}
	}
	exchange()
	t.Step("QP")
	p.Reconnect()
	exchange()
	t.Step("CQ")
	if claims.Has(ci.CapResizeCQ) {
		for _, size := range []int{min(500, t.Attr().MaxCQEs), 200} {
			got, err := p.A.CQ.Resize(ci.CQResize{Size: size})
			kit.OK(t, err, "CQ.Resize")
			kit.AtLeast(t, "size of the CQ after CQ.Resize", got, size)
			exchange()
		}
	}
	kit.OK(t, p.A.CQ.Notify(ci.NotifyNext), "CQ.Notify")
	t.Step("SRQ")
	if claims.Has(ci.CapSRQ) {
		srq, err := p.B.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		if claims.Has(ci.CapModifySRQDepth) {
			kit.OK(t, srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 8}), "SRQ.Modify")
		}
		n, err := srq.PostRecv(p.B.RecvWRs(4, 16))
		kit.WantTaken(t, "SRQ.PostRecv", n, err, 4)
		qp, err := p.B.PD.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: p.B.CQ.CQ, RecvCQ: p.B.RecvCQ.CQ, SRQ: srq,
			QPCaps: ci.QPCaps{SendDepth: 2, SendSGE: 1}})
		kit.OK(t, err, "PD.CreateQP with an SRQ")
		kit.OK(t, qp.Destroy(), "QP.Destroy")
		kit.OK(t, srq.Destroy(), "SRQ.Destroy")
	}
	t.Step("MW")
	if claims.Has(ci.CapMW1) {
		w, err := p.B.PD.CreateMW(ci.MWCreate{Type: ci.MWType1})
		kit.OK(t, err, "PD.CreateMW")
		b := p.B.QP.CA.Buf(p.B.PD, 64, ci.LocalWrite|ci.BindWindow)
		key, err := p.B.BindMW(3, ci.SendSignaled, ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64,
			Access: ci.RemoteWrite})
		kit.OK(t, err, "QP.BindMW")
		p.B.CQ.WaitOK(3)
		attr, err := w.Query()
		kit.OK(t, err, "MW.Query")
		kit.Equal(t, "MWAttr.Key after QP.BindMW", attr.Key, key)
		p.WantWrite("the window", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
		kit.OK(t, w.Destroy(), "MW.Destroy")
	}
	t.Step("AV")
	if claims.Has(ci.CapUD | ci.CapAV) {
		x, y := p.A.QP.CA, p.B.QP.CA
		c := kit.Options(x, y, kit.Type(ci.UD))
		from, to := x.End(c), y.End(c)
		for _, e := range []*kit.End{from, to} {
			e.Init().RTR(nil).RTS()
		}
		to.Recv(to.RecvWR(1, 0, 40+64))
		wr := from.SendWR(1, 0, 64)
		wr.To = ci.Dest{AV: x.AV(from.PD, y), QPN: to.Num(), QKey: c.QKey}
		from.Send(wr)
		from.CQ.WaitOK(1)
		to.RecvCQ.WaitOK(1)
	}
	exchange()
}
