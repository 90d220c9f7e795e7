package cisuite

import (
	"strings"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// family is a parent and a child. While the child exists, the parent cannot be destroyed.
type family struct {
	name  string // parent.child
	title string
	needs ci.Caps
	make  func(s *orderStage) (parent, child func() error)
}

// orderStage holds the objects for families.
type orderStage struct {
	t  *validate.T
	ca *kit.CA
	pd ci.PD // the parent, or the PD of parent and child
	cq *kit.CQ
	// probe uses the parent, if it is neither the PD nor the CA. It may be nil: cases of their own use the others.
	probe func()
}

// orderCases are one case for each parent and child, which destroys the parent first. (SAS 2.3; IBTA 11.2.)
var orderCases = &validate.Area{}

var _ = validate.Matrix(orderCases, families, func(f family) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "order." + f.name,
		Title:   f.title,
		Feature: validate.FeatureCore,
		Needs:   validate.Needs{Caps: f.needs},
		Run:     func(t *validate.T) { orderCase(t, f) },
	}, []*req.Requirement{req.SAS2_3_26}
})

// own registers a child for its destruction at the end of the case and returns its Destroy.
func (s *orderStage) own(o ci.Object, err error, verb string) func() error {
	kit.OK(s.t, err, verb)
	return kit.Own(s.t, o, verb+": the created object").Destroy
}

// ofPD returns a family whose parent is the PD.
func ofPD(verb string, create func(s *orderStage) (ci.Object, error)) func(*orderStage) (func() error, func() error) {
	return func(s *orderStage) (func() error, func() error) {
		o, err := create(s)
		return s.pd.Destroy, s.own(o, err, verb)
	}
}

// qp creates a QP on another PD than s.pd, with these queues.
func (s *orderStage) qp(send, recv *kit.CQ, srq ci.SRQ) *kit.QP {
	return s.ca.QP(s.ca.PD(), send, recv, kit.WithSRQ(srq))
}

// groupGID returns a multicast GID that the first port can join. On Ethernet it has the address family of the port's
// own GID.
func groupGID(ca *kit.CA) ci.GID {
	if ca.Port.Link == ci.LinkEthernet {
		own := ca.Port.GIDs[ca.AddressOf(ca).GRH.SGIDIndex].GID
		if v4 := (ci.GID{10: 0xff, 11: 0xff}); [12]byte(own[:12]) == [12]byte(v4[:12]) {
			return ci.GID{10: 0xff, 11: 0xff, 12: 239, 13: own[13], 14: own[14], 15: own[15]}
		}
	}
	return ci.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 15: 0x77}
}

var families = []family{
	{"pd.av", "PD before AV", ci.CapAV,
		ofPD("PD.CreateAV", func(s *orderStage) (ci.Object, error) { return s.pd.CreateAV(s.ca.AddressOf(s.ca)) })},
	{"pd.cq", "PD before CQ", 0,
		ofPD("PD.CreateCQ", func(s *orderStage) (ci.Object, error) { return s.pd.CreateCQ(ci.CQCreate{Size: 1}) })},
	{"pd.srq", "PD before SRQ", ci.CapSRQ, ofPD("PD.CreateSRQ", func(s *orderStage) (ci.Object, error) {
		return s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	})},
	{"pd.qp", "PD before QP", 0, ofPD("PD.CreateQP", func(s *orderStage) (ci.Object, error) {
		return s.pd.CreateQP(ci.QPCreate{
			QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
			SendCQ: s.cq.CQ,
			RecvCQ: s.cq.CQ,
		})
	})},
	{"pd.special-qp", "PD before QP1", ci.CapSpecialQP,
		ofPD("PD.CreateSpecialQP", func(s *orderStage) (ci.Object, error) {
			caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
			return s.pd.CreateSpecialQP(s.ca.Port.Num,
				ci.QPCreate{Type: ci.QP1, QPCaps: caps, SendCQ: s.cq.CQ, RecvCQ: s.cq.CQ})
		})},
	{"pd.mr", "PD before MR", 0, ofPD("PD.RegisterMR", func(s *orderStage) (ci.Object, error) {
		return s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64))})
	})},
	{"pd.pmr", "PD before physical MR", ci.CapPhysicalMR,
		ofPD("PD.RegisterPMR", func(s *orderStage) (ci.Object, error) {
			page := smallPage(s.ca.Attr)
			return s.pd.RegisterPMR(ci.PMRCreate{
				Ranges:   s.ca.DMA(kit.Pages(int(page), int(page))).Ranges(),
				PageSize: page,
				Length:   page,
			})
		})},
	{"pd.smr", "PD before shared MR", ci.CapSharedMR, ofPD("PD.RegisterSMR", func(s *orderStage) (ci.Object, error) {
		return s.pd.RegisterSMR(s.ca.Buf(s.ca.PD(), 64, kit.AllAccess).MR, 0, ci.LocalWrite)
	})},
	{"pd.fast-mr", "PD before fast registration MR", ci.CapFastReg,
		ofPD("PD.AllocFastRegMR", func(s *orderStage) (ci.Object, error) { return s.pd.AllocFastRegMR(1) })},
	{"pd.fmr", "PD before FMR", ci.CapFMR, ofPD("PD.AllocFMR", func(s *orderStage) (ci.Object, error) {
		return s.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: pageShift(s.ca.Attr)})
	})},
	{"pd.mw1", "PD before window of type 1", ci.CapMW1,
		ofPD("PD.CreateMW",
			func(s *orderStage) (ci.Object, error) { return s.pd.CreateMW(ci.MWCreate{Type: ci.MWType1}) })},
	{"pd.mw2", "PD before window of type 2", ci.CapMW2,
		ofPD("PD.CreateMW",
			func(s *orderStage) (ci.Object, error) { return s.pd.CreateMW(ci.MWCreate{Type: ci.MWType2}) })},
	{"pd.rdd", "PD before RDD", ci.CapRD,
		ofPD("PD.AllocRDD", func(s *orderStage) (ci.Object, error) { return s.pd.AllocRDD() })},
	{"cq.send", "CQ before the QP that uses it for sends", 0, func(s *orderStage) (func() error, func() error) {
		q := s.ca.CQ(s.pd, 4)
		qp := s.qp(q, s.cq, nil)
		s.probe = func() {
			qp.Init().To(ci.QPError)
			qp.Send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled})
			q.WaitFlushed(1)
		}
		return q.Destroy, qp.Destroy
	}},
	{"cq.recv", "CQ before the QP that uses it for receives", 0, func(s *orderStage) (func() error, func() error) {
		q := s.ca.CQ(s.pd, 4)
		qp := s.qp(s.cq, q, nil)
		s.probe = func() {
			qp.Init().To(ci.QPError)
			qp.Recv(ci.RecvWR{ID: 1})
			q.WaitFlushed(1)
		}
		return q.Destroy, qp.Destroy
	}},
	{"srq.qp", "SRQ before QP", ci.CapSRQ, func(s *orderStage) (func() error, func() error) {
		q, _ := s.ca.SRQ(s.pd, 1, 1)
		qp := s.qp(s.cq, s.cq, q)
		s.probe = func() {
			n, err := q.PostRecv([]ci.RecvWR{{ID: 1}})
			kit.WantTaken(s.t, "SRQ.PostRecv after the rejected destroy", n, err, 1)
		}
		return q.Destroy, qp.Destroy
	}},
	{"qp.mcast", "QP before its multicast attachment", ci.CapUD | ci.CapMulticast,
		func(s *orderStage) (func() error, func() error) {
			q := s.ca.QP(s.pd, s.cq, s.cq, kit.Type(ci.UD))
			m, err := q.AttachMcast(ci.McastAttach{GID: groupGID(s.ca), LID: 0xc077})
			return q.Destroy, s.own(m, err, "QP.AttachMcast")
		}},
	{"mr.smr", "MR before shared MR", ci.CapSharedMR, func(s *orderStage) (func() error, func() error) {
		b := s.ca.Buf(s.pd, 64, kit.AllAccess)
		m, err := s.pd.RegisterSMR(b.MR, 0, ci.LocalWrite)
		return b.Destroy, s.own(m, err, "PD.RegisterSMR")
	}},
	{"mr.mw", "MR before the window bound to it", ci.CapMW1, func(s *orderStage) (func() error, func() error) {
		p := kit.NewPairOn(s.ca)
		b := s.ca.Buf(p.B.PD, 64, bindable)
		return b.Destroy, bound(p.B, b, ci.RemoteRead).Destroy
	}},
	{"dma.pmr", "DMA mapping before physical MR", ci.CapPhysicalMR, func(s *orderStage) (func() error, func() error) {
		page := smallPage(s.ca.Attr)
		d := s.ca.DMA(kit.Pages(int(page), int(page)))
		m, err := s.pd.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Length: page})
		return d.Destroy, s.own(m, err, "PD.RegisterPMR")
	}},
	{"dma.fmr", "DMA mapping before the mapping of an FMR", ci.CapFMR,
		func(s *orderStage) (func() error, func() error) {
			f := newFMR(s.t, s.ca, s.pd, 1, 1, 0)
			f.mapped(s.t, f.pages, 0x40000)
			return f.dma.Destroy, func() error { return s.pd.UnmapFMRs([]ci.FMR{f.FMR}) }
		}},
	{"ca.pd", "CA before PD", 0, func(s *orderStage) (func() error, func() error) {
		kit.Destroy(s.t, s.cq, "CQ")
		return s.ca.Destroy, s.pd.Destroy
	}},
	{"ca.dma", "CA before DMA mapping", ci.CapPhysicalMR, func(s *orderStage) (func() error, func() error) {
		kit.Destroy(s.t, s.cq, "CQ")
		kit.Destroy(s.t, s.pd, "PD")
		return s.ca.Destroy, s.ca.DMA(kit.Pages(4096, 4096)).Destroy
	}},
	{"ca.handler", "CA before event handler", ci.CapEventHandlers, func(s *orderStage) (func() error, func() error) {
		kit.Destroy(s.t, s.cq, "CQ")
		kit.Destroy(s.t, s.pd, "PD")
		h, err := s.ca.OnEvent(noEvents, nil)
		return s.ca.Destroy, s.own(h, err, "CA.OnEvent")
	}},
}

// stillWorks expects that the parent works after its rejected Destroy.
func (s *orderStage) stillWorks(f family) {
	switch parent, _, _ := strings.Cut(f.name, "."); parent {
	case "pd":
		mr, err := s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
		kit.OK(s.t, err, "PD.RegisterMR after the rejected destroy: "+f.title)
		kit.Destroy(s.t, kit.Own(s.t, mr, "MR"), "MR")
	case "ca":
		pd, err := s.ca.AllocatePD(ci.PDNormal)
		kit.OK(s.t, err, "CA.AllocatePD after the rejected destroy: "+f.title)
		kit.Destroy(s.t, kit.Own(s.t, pd, "PD"), "PD")
	}
	if s.probe != nil {
		s.probe()
	}
}

func orderCase(t *validate.T, f family) {
	ca := kit.Open(t)
	s := &orderStage{t: t, ca: ca, pd: ca.PD()}
	home := s.pd // PD of the CQ, another one if s.pd is the parent
	if f.name[:3] == "pd." {
		home = ca.PD()
	}
	s.cq = ca.CQ(home, 8)
	parent, child := f.make(s)
	for _, time := range kit.Variants(t, "", []string{"first try", "second try"}) {
		kit.WantExactly(t, parent(), "destroy of the parent first: "+f.title+", "+time, ci.ResourceBusy)
	}
	s.stillWorks(f)
	kit.OK(t, child(), "destroy of the child after the rejected destroy: "+f.title+", parent first")
	kit.OK(t, parent(), "destroy of the parent after its child ("+f.title+")")
}
