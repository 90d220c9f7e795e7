package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// staleKind is a kind of object.
type staleKind struct {
	name   string // part of the case ids
	title  string
	caps   ci.Caps
	status ci.Status // of a destroyed object
	rule   *req.Requirement
	make   func(s *staleStage) (ci.Object, error)
}

// staleStage holds the objects that a destroyed object and its verbs need. They exist when the verb is called.
type staleStage struct {
	t  *validate.T
	ca *kit.CA // nil if the object is the CA
	pd ci.PD
	cq *kit.CQ
}

// staleVerb is a verb, with arguments that are valid for an object of the kind.
type staleVerb struct {
	kind *staleKind
	name string
	caps ci.Caps
	call func(s *staleStage, o ci.Object) (ci.Object, error)
}

// creates is a verb that returns an object.
func creates[O ci.Object](k *staleKind, name string, caps ci.Caps,
	call func(*staleStage, O) (ci.Object, error)) staleVerb {
	return staleVerb{k, name, caps, func(s *staleStage, o ci.Object) (ci.Object, error) { return call(s, o.(O)) }}
}

// calls is a verb that returns no object.
func calls[O ci.Object](k *staleKind, name string, caps ci.Caps, call func(*staleStage, O) error) staleVerb {
	return staleVerb{k, name, caps, func(s *staleStage, o ci.Object) (ci.Object, error) { return nil, call(s, o.(O)) }}
}

// postsTo is a verb that takes a list of requests.
func postsTo[O ci.Object](k *staleKind, name string, call func(O) (int, error)) staleVerb {
	return calls(k, name, 0, func(s *staleStage, o O) error {
		n, err := call(o)
		kit.Equal(s.t, "requests accepted by "+name+" after Destroy", n, 0)
		return err
	})
}

var (
	staleCA = &staleKind{"ca", "CA", 0, ci.InvalidCAHandle, ciCloseCA02, func(s *staleStage) (ci.Object, error) {
		h := s.t.HCA()
		return h.OpenCA(h.Info().GUID, noEvents, nil)
	}}
	stalePD = &staleKind{"pd", "PD", 0, ci.InvalidPDHandle, ciDeallocatePD02,
		func(s *staleStage) (ci.Object, error) { return s.ca.AllocatePD(ci.PDNormal) }}
	staleCQ = &staleKind{"cq", "CQ", 0, ci.InvalidCQHandle, ciDestroyCQ02,
		func(s *staleStage) (ci.Object, error) { return s.pd.CreateCQ(ci.CQCreate{Size: 4}) }}
	staleQP = &staleKind{"qp", "QP", 0, ci.InvalidQPHandle, ciDestroyQP01,
		func(s *staleStage) (ci.Object, error) { return s.pd.CreateQP(small(ci.RC, s.cq)) }}
	staleUD = &staleKind{"ud", "UD QP", ci.CapUD, ci.InvalidQPHandle, ciDestroyQP01,
		func(s *staleStage) (ci.Object, error) { return s.pd.CreateQP(small(ci.UD, s.cq)) }}
	staleSRQ = &staleKind{"srq", "SRQ", ci.CapSRQ, ci.InvalidSRQHandle, ciDestroySRQ02,
		func(s *staleStage) (ci.Object, error) {
			return s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		}}
	staleMR = &staleKind{"mr", "MR", 0, ci.InvalidMRHandle, ciDeregisterMR04,
		func(s *staleStage) (ci.Object, error) { return s.pd.RegisterMR(someMemory()) }}
	staleMW1 = &staleKind{"mw1", "window of type 1", ci.CapMW1, ci.InvalidMWHandle, ciDestroyMW01,
		func(s *staleStage) (ci.Object, error) { return s.pd.CreateMW(ci.MWCreate{Type: ci.MWType1}) }}
	staleMW2 = &staleKind{"mw2", "window of type 2", ci.CapMW2, ci.InvalidMWHandle, ciDestroyMW01,
		func(s *staleStage) (ci.Object, error) { return s.pd.CreateMW(ci.MWCreate{Type: ci.MWType2}) }}
	staleFMR = &staleKind{"fmr", "FMR", ci.CapFMR, ci.InvalidFMRHandle, ciDeallocFMR01,
		func(s *staleStage) (ci.Object, error) { return s.pd.AllocFMR(someFMR(s.ca)) }}
	staleAV = &staleKind{"av", "AV", ci.CapUD | ci.CapAV, ci.InvalidAVHandle, ciDestroyAV01,
		func(s *staleStage) (ci.Object, error) { return s.pd.CreateAV(s.ca.AddressOf(s.ca)) }}
)

func someMemory() ci.MRCreate {
	return ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess}
}

func someFMR(ca *kit.CA) ci.FMRCreate {
	return ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: pageShift(ca.Attr), Access: ci.LocalWrite}
}

// staleVerbs are the verbs of each kind of object. The second Destroy is one of them.
var staleVerbs = []staleVerb{
	calls(staleCA, "query", 0, func(_ *staleStage, c ci.CA) error { _, err := c.Query(); return err }),
	calls(staleCA, "modify", 0,
		func(s *staleStage, c ci.CA) error { return c.Modify(s.t.Attr().Ports[0].Num, 0, ci.PortModify{}) }),
	creates(staleCA, "allocate-pd", 0,
		func(_ *staleStage, c ci.CA) (ci.Object, error) { return c.AllocatePD(ci.PDNormal) }),
	creates(staleCA, "on-event", ci.CapEventHandlers,
		func(_ *staleStage, c ci.CA) (ci.Object, error) { return c.OnEvent(noEvents, nil) }),
	creates(staleCA, "map-dma", ci.CapPhysicalMR,
		func(_ *staleStage, c ci.CA) (ci.Object, error) { return c.MapDMA(ci.Bytes(kit.Pages(4096, 4096))) }),
	calls(staleCA, "local-mad", ci.CapLocalMAD, func(s *staleStage, c ci.CA) error {
		var out ci.MAD
		in := ci.MAD{1, 0x81, 1, 1, 17: 0x11} // Get NodeInfo
		return c.LocalMAD(s.t.Attr().Ports[0].Num, nil, &in, &out)
	}),

	creates(staleCA, "open-user", ci.CapUser,
		func(_ *staleStage, c ci.CA) (ci.Object, error) { return c.OpenUser(process{}, &ci.UserBuffer{}) }),
	calls(staleCA, "vendor-call", ci.CapVendorCall, func(s *staleStage, c ci.CA) error {
		v := s.t.VendorCall()
		op := ci.VendorOp{Command: v.Command, Data: make([]byte, max(len(v.In), len(v.Want)))}
		copy(op.Data, v.In)
		return c.VendorCall(&op)
	}),
	calls(staleCA, "sl-for-ip", ci.CapSLForIP, func(s *staleStage, c ci.CA) error {
		_, err := c.SLForIP(s.t.Attr().Ports[0].Num, 4420)
		return err
	}),

	creates(stalePD, "create-av", ci.CapAV,
		func(s *staleStage, p ci.PD) (ci.Object, error) { return p.CreateAV(s.ca.AddressOf(s.ca)) }),
	creates(stalePD, "create-cq", 0,
		func(_ *staleStage, p ci.PD) (ci.Object, error) { return p.CreateCQ(ci.CQCreate{Size: 4}) }),
	creates(stalePD, "create-srq", ci.CapSRQ, func(_ *staleStage, p ci.PD) (ci.Object, error) {
		return p.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	}),
	creates(stalePD, "create-qp", 0,
		func(s *staleStage, p ci.PD) (ci.Object, error) { return p.CreateQP(small(ci.RC, s.cq)) }),
	creates(stalePD, "create-special-qp", ci.CapSpecialQP, func(s *staleStage, p ci.PD) (ci.Object, error) {
		return p.CreateSpecialQP(s.ca.Port.Num, small(ci.QP1, s.cq))
	}),
	creates(stalePD, "register-mr", 0,
		func(_ *staleStage, p ci.PD) (ci.Object, error) { return p.RegisterMR(someMemory()) }),
	creates(stalePD, "register-pmr", ci.CapPhysicalMR, func(s *staleStage, p ci.PD) (ci.Object, error) {
		page := smallPage(s.ca.Attr)
		ranges := s.ca.DMA(kit.Pages(int(page), int(page))).Ranges()
		return p.RegisterPMR(ci.PMRCreate{Ranges: ranges, PageSize: page, Length: page})
	}),
	creates(stalePD, "register-smr", ci.CapSharedMR, func(s *staleStage, p ci.PD) (ci.Object, error) {
		return p.RegisterSMR(s.ca.Buf(s.pd, 64, kit.AllAccess).MR, 0, ci.LocalWrite)
	}),
	creates(stalePD, "alloc-fast-reg-mr", ci.CapFastReg,
		func(_ *staleStage, p ci.PD) (ci.Object, error) { return p.AllocFastRegMR(1) }),
	creates(stalePD, "alloc-fmr", ci.CapFMR,
		func(s *staleStage, p ci.PD) (ci.Object, error) { return p.AllocFMR(someFMR(s.ca)) }),
	creates(stalePD, "create-mw1", ci.CapMW1,
		func(_ *staleStage, p ci.PD) (ci.Object, error) { return p.CreateMW(ci.MWCreate{Type: ci.MWType1}) }),
	creates(stalePD, "create-mw2", ci.CapMW2,
		func(_ *staleStage, p ci.PD) (ci.Object, error) { return p.CreateMW(ci.MWCreate{Type: ci.MWType2}) }),
	creates(stalePD, "alloc-rdd", ci.CapRD, func(_ *staleStage, p ci.PD) (ci.Object, error) { return p.AllocRDD() }),

	calls(staleCQ, "poll", 0,
		func(_ *staleStage, q ci.CQ) error { _, err := q.Poll(make([]ci.WC, 1)); return err }),
	calls(staleCQ, "notify", 0, func(_ *staleStage, q ci.CQ) error { return q.Notify(ci.NotifyNext) }),
	calls(staleCQ, "notify-after", ci.CapNotifyAfter, func(_ *staleStage, q ci.CQ) error { return q.NotifyAfter(1) }),
	calls(staleCQ, "peek", ci.CapPeek, func(_ *staleStage, q ci.CQ) error { _, err := q.Peek(); return err }),
	calls(staleCQ, "query", 0, func(_ *staleStage, q ci.CQ) error { _, err := q.Query(); return err }),
	calls(staleCQ, "resize", ci.CapResizeCQ,
		func(_ *staleStage, q ci.CQ) error { _, err := q.Resize(ci.CQResize{Size: 32}); return err }),
	calls(staleCQ, "modify", ci.CapModeration,
		func(_ *staleStage, q ci.CQ) error { return q.Modify(ci.Moderation{}) }),

	postsTo(staleQP, "post-send", func(q ci.QP) (int, error) { return q.PostSend([]ci.SendWR{{Op: ci.OpSend}}) }),
	postsTo(staleQP, "post-recv", func(q ci.QP) (int, error) { return q.PostRecv([]ci.RecvWR{{}}) }),
	calls(staleQP, "query", 0, func(_ *staleStage, q ci.QP) error { _, err := q.Query(); return err }),
	calls(staleQP, "modify", 0, func(_ *staleStage, q ci.QP) error {
		return q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
	}),
	calls(staleQP, "bind-mw", ci.CapMW1, func(s *staleStage, q ci.QP) error {
		b := s.ca.Buf(s.pd, 64, bindable)
		w := s.ca.MW(s.pd, ci.MWType1)
		bind := ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64, Access: ci.RemoteRead}
		_, err := q.BindMW(1, 0, bind)
		return err
	}),
	creates(staleUD, "attach-mcast", ci.CapMulticast, func(s *staleStage, q ci.QP) (ci.Object, error) {
		return q.AttachMcast(ci.McastAttach{GID: groupGID(s.ca), LID: 0xc077})
	}),

	postsTo(staleSRQ, "post-recv", func(q ci.SRQ) (int, error) { return q.PostRecv([]ci.RecvWR{{}}) }),
	calls(staleSRQ, "query", 0, func(_ *staleStage, q ci.SRQ) error { _, err := q.Query(); return err }),
	calls(staleSRQ, "modify", 0,
		func(_ *staleStage, q ci.SRQ) error { return q.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 1}) }),

	calls(staleMR, "query", 0, func(_ *staleStage, m ci.MR) error { _, err := m.Query(); return err }),
	calls(staleMR, "modify", ci.CapModifyMR, func(_ *staleStage, m ci.MR) error {
		return m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite})
	}),
	creates(staleMR, "register-smr", ci.CapSharedMR, func(s *staleStage, m ci.MR) (ci.Object, error) {
		return s.pd.RegisterSMR(m, 0, ci.LocalWrite)
	}),

	calls(staleMW1, "query", 0, func(_ *staleStage, w ci.MW) error { _, err := w.Query(); return err }),
	calls(staleMW2, "query", 0, func(_ *staleStage, w ci.MW) error { _, err := w.Query(); return err }),

	calls(staleFMR, "map", 0, func(s *staleStage, f ci.FMR) error {
		page := smallPage(s.ca.Attr)
		_, err := f.Map(kit.PageList(s.ca.DMA(kit.Pages(int(page), int(page))).Ranges(), page), 0)
		return err
	}),

	calls(staleAV, "query", 0, func(_ *staleStage, a ci.AV) error { _, _, err := a.Query(); return err }),
	calls(staleAV, "modify", 0, func(s *staleStage, a ci.AV) error { return a.Modify(s.ca.AddressOf(s.ca)) }),

	destroys(staleCA), destroys(stalePD), destroys(staleCQ), destroys(staleQP), destroys(staleSRQ), destroys(staleMR),
	destroys(staleMW1), destroys(staleMW2), destroys(staleFMR), destroys(staleAV),
}

func destroys(k *staleKind) staleVerb {
	return calls(k, "destroy", 0, func(_ *staleStage, o ci.Object) error { return o.Destroy() })
}

// staleCases are one case for each kind of object and verb, which calls the verb on a destroyed object.
var staleCases = &validate.Area{}

var _ = validate.Matrix(staleCases, staleVerbs, func(v staleVerb) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "stale." + v.kind.name + "." + v.name,
		Title:   fmt.Sprintf("the verb %s of a destroyed %s", v.name, v.kind.title),
		Feature: validate.FeatureTeardown,
		Needs:   validate.Needs{Caps: v.kind.caps | v.caps},
		Run:     v.run,
	}, []*req.Requirement{v.kind.rule}
})

// run calls the verb after Destroy, and again when a younger object may have the place of the destroyed one in the
// driver's table.
func (v staleVerb) run(t *validate.T) {
	s := &staleStage{t: t}
	if v.kind != staleCA {
		s.ca = kit.Open(t)
		s.pd = s.ca.PD()
		s.cq = s.ca.CQ(s.pd, 16)
	}
	made := func() ci.Object {
		end := t.Setup()
		defer end()
		o, err := v.kind.make(s)
		kit.OK(t, err, "creation of a "+v.kind.title)
		return kit.Own(t, o, v.kind.title)
	}
	o := made()
	kit.Destroy(t, o, v.kind.title)
	rejected := func(when string) {
		made, err := v.call(s, o)
		kit.WantRefused(t, made, err, fmt.Sprintf("the verb %s of a destroyed %s%s", v.name, v.kind.title, when),
			v.kind.status)
	}
	rejected("")
	younger := made()
	rejected(", when there is a younger one")
	kit.Destroy(t, younger, "younger "+v.kind.title)
}
