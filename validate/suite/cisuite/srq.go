package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// srqCases are the cases of shared receive queues. (IBTA 10.2.9, 11.2.3.)
var srqCases = &validate.Area{Feature: validate.FeatureSRQ, Needs: validate.Needs{Caps: ci.CapSRQ}}

var ciSRQ01 = srqCases.Must("CI-SRQ-01", "IBTA 10.2.9", "ci_post_srq_recv (57)",
	"Each QP of a shared receive queue uses its oldest entry for a message. The completion identifies the QP.")

var _ = srqCases.Add("srq.rc", "three RC QPs", func(t *validate.T) { srqShare(t, ci.RC) }, ciSRQ01, req.SAS2_3_23)

var _ = srqCases.Needing(validate.Needs{Caps: ci.CapUC | ci.CapSRQ}).Add("srq.uc", "three UC QPs",
	func(t *validate.T) { srqShare(t, ci.UC) }, ciSRQ01)

var _ = srqCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapSRQ}).Add("srq.ud", "three UD QPs",
	func(t *validate.T) { srqShare(t, ci.UD) }, ciSRQ01)

// srqStage is a shared receive queue on B's side with connections from A's side.
type srqStage struct {
	t    *validate.T
	a, b *kit.CA
	pd   ci.PD
	srq  ci.SRQ
	ev   *kit.Events
	cq   *kit.CQ // CQ of all receives
	send *kit.CQ // CQ of B's send queues
	buf  *kit.Buf
	conf kit.Config
	from []*kit.End
	to   []*kit.QP
}

// newSRQ creates a queue of the depth and n connections to it.
func newSRQ(t *validate.T, depth, n int, opts ...kit.Option) *srqStage {
	s := &srqStage{t: t}
	s.a, s.b = kit.OpenPair(t)
	s.conf = kit.Options(s.a, s.b, opts...)
	s.pd = s.b.EndPD(s.conf)
	s.srq, s.ev = s.b.SRQ(s.pd, depth, 2)
	s.cq, s.send = s.b.CQ(s.pd, 2*depth+16), s.b.CQ(s.pd, 16)
	s.buf = s.b.Buf(s.pd, 64<<10, kit.AllAccess)
	for range n {
		s.connect(s.pd)
	}
	return s
}

// connect adds a connection to a QP of the PD.
func (s *srqStage) connect(pd ci.PD) {
	c := s.conf
	c.Size = 4096
	from := s.a.End(c)
	to := s.b.QP(pd, s.send, s.cq, kit.With(func(o *kit.Config) {
		*o = s.conf
		o.SRQ, o.Context = s.srq, fmt.Sprintf("QP %d of the SRQ", len(s.to))
	}))
	kit.Connect(from.QP, to)
	if s.conf.Type == ci.UD {
		from.AV = s.a.AV(from.PD, s.b)
		from.Dest = ci.Dest{AV: from.AV, QPN: to.Num(), QKey: to.Config.QKey}
	}
	s.from, s.to = append(s.from, from), append(s.to, to)
}

// srqSlot is the size of the buffer of an entry.
const srqSlot = 256

// post posts entries with ids from from to to. The id selects the slot of the buffer.
func (s *srqStage) post(from, to int) {
	var wrs []ci.RecvWR
	for id := from; id <= to; id++ {
		wrs = append(wrs, ci.RecvWR{ID: uint64(id), SGL: s.buf.SGL(id*srqSlot, srqSlot)})
	}
	n, err := s.srq.PostRecv(wrs)
	kit.OK(s.t, err, fmt.Sprintf("SRQ.PostRecv of %d requests", len(wrs)))
	kit.Equal(s.t, "requests accepted by SRQ.PostRecv", n, len(wrs))
}

// message sends n bytes over connection i and expects them in the entry with that id.
func (s *srqStage) message(i, id, n int) {
	pad := 0
	if s.conf.Type == ci.UD {
		pad = 40
	}
	f := s.from[i]
	want := kit.Random(s.t, f.Buf.Bytes[:n])
	f.Send(f.SendWR(9, 0, n))
	f.CQ.WaitOK(9)
	wc := s.cq.Wait(1)[0]
	flags := ci.WCFlags(0)
	if wc.Flags&ci.WCGRH != 0 && s.conf.Type == ci.UD {
		flags = ci.WCGRH
	}
	kit.WantRecv(s.t, fmt.Sprintf("receive of a message over connection %d", i), wc,
		ci.WC{ID: uint64(id), Op: ci.WCRecv, Length: uint32(pad + n),
			QPN: s.to[i].Num(), Context: s.to[i].Config.Context, Flags: flags})
	kit.SameBytes(s.t, "message", s.buf.Bytes[id*srqSlot+pad:id*srqSlot+pad+n], want)
}

var _ = srqCases.Add("srq.create", "requested and granted sizes", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	for _, x := range kit.Variants(t, "",
		[]ci.SRQAttr{{MaxWR: 1, MaxSGE: 1}, {MaxWR: 100, MaxSGE: min(3, ca.Attr.MaxSRQSGEs)},
			{MaxWR: ca.Attr.MaxSRQWRs, MaxSGE: 1},
			{MaxWR: 1, MaxSGE: ca.Attr.MaxSRQSGEs}}) {
		what := fmt.Sprintf("PD.CreateSRQ with %d entries of %d SGEs", x.MaxWR, x.MaxSGE)
		s, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: x})
		kit.OK(t, err, what)
		kit.Own(t, s, "SRQ")
		a, err := s.Query()
		kit.OK(t, err, "SRQ.Query")
		kit.AtLeast(t, "SRQAttr.MaxWR after "+what, a.MaxWR, x.MaxWR)
		kit.AtLeast(t, "SRQAttr.MaxSGE after "+what, a.MaxSGE, x.MaxSGE)
		kit.Equal(t, "SRQAttr.Limit of a new SRQ", a.Limit, 0)
		kit.Destroy(t, s, "SRQ")
	}
}, srqCases.Must("CI-CreateSRQ-01", "IBTA 11.2.3", "ci_create_srq (18)",
	"A shared receive queue has at least the requested sizes, up to the limits of the CA."))

var _ = srqCases.Add("srq.limits", "invalid sizes", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	for _, x := range kit.Variants(t, "", []struct {
		attr ci.SRQAttr
		want ci.Status
	}{
		{ci.SRQAttr{MaxWR: 0, MaxSGE: 1}, ci.InvalidMaxWRs},
		{ci.SRQAttr{MaxWR: -1, MaxSGE: 1}, ci.InvalidMaxWRs},
		{ci.SRQAttr{MaxWR: ca.Attr.MaxSRQWRs + 1, MaxSGE: 1}, ci.InvalidMaxWRs},
		{ci.SRQAttr{MaxWR: 1, MaxSGE: ca.Attr.MaxSRQSGEs + 1}, ci.InvalidMaxSGE},
		{ci.SRQAttr{MaxWR: 1, MaxSGE: -1}, ci.InvalidMaxSGE},
		{ci.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 5}, ci.InvalidParameter},
		{ci.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: -1}, ci.InvalidParameter},
	}) {
		s, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: x.attr})
		kit.WantRefused(t, s, err, fmt.Sprintf("PD.CreateSRQ with %d entries of %d SGEs", x.attr.MaxWR, x.attr.MaxSGE),
			x.want)
	}
}, srqCases.Must("CI-CreateSRQ-02", "IBTA 11.2.3", "ci_create_srq (18)",
	"A size of 0 or above MaxSRQWRs fails with InvalidMaxWRs, and more SGEs than MaxSRQSGEs fail with "+
		"InvalidMaxSGE."))

var _ = srqCases.Add("srq.recv-depth", "a QP with an SRQ and a receive queue", func(t *validate.T) {
	s := newSRQ(t, 8, 1, kit.Type(ci.RC))
	caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	qp, err := s.pd.CreateQP(ci.QPCreate{Type: ci.RC, QPCaps: caps, SendCQ: s.send.CQ, RecvCQ: s.cq.CQ, SRQ: s.srq})
	kit.WantRefused(t, qp, err, "PD.CreateQP with an SRQ and a RecvDepth of 1", ci.InvalidParameter)
	n, err := s.to[0].PostRecv([]ci.RecvWR{{ID: 1, SGL: s.buf.SGL(0, 8)}})
	kit.WantTaken(t, "QP.PostRecv on a QP with an SRQ", n, err, 0, ci.InvalidWRType)
	a, err := s.to[0].Query()
	kit.OK(t, err, "QP.Query")
	kit.SameObject(t, "QPAttr.SRQ", a.SRQ, s.srq)
	s.post(1, 1)
	s.message(0, 1, 10)
}, srqCases.Must("CI-CreateSRQ-03", "IBTA 10.2.9", "ci_create_srq (18)",
	"A QP with a shared receive queue has no receive queue: RecvDepth must be 0, and QP.PostRecv fails with "+
		"InvalidWRType."))

func srqShare(t *validate.T, typ ci.QPType) {
	s := newSRQ(t, 64, 3, kit.Type(typ))
	s.post(1, 30)
	id := 1
	for n := range 10 {
		for _, i := range kit.Variants(t, "QP", []int{n % 3, (n + 1) % 3, (n + 2) % 3}) {
			s.message(i, id, 10+n)
			id++
		}
	}
	s.cq.Empty()
}

var _ = srqCases.Add("srq.order", "32 entries in order", func(t *validate.T) {
	s := newSRQ(t, 64, 1, kit.Type(ci.RC), kit.Depth(32))
	s.post(1, 20)
	s.post(21, 32)
	s.from[0].Send(s.from[0].SendWRs(32)...)
	s.from[0].CQ.WaitOK(ids(1, 32)...)
	s.cq.WaitOK(ids(1, 32)...)
	for id := 1; id <= 32; id++ {
		kit.SameBytes(t, fmt.Sprintf("entry %d", id), s.buf.Bytes[id*srqSlot:id*srqSlot+1],
			s.from[0].Buf.Bytes[id-1:id])
	}
}, srqCases.Must("CI-SRQ-02", "IBTA 10.2.9", "ci_post_srq_recv (57)",
	"Entries are used in the order of their posts."), req.SAS2_1_21)

var _ = srqCases.Add("srq.empty", "a message before an entry is posted", func(t *validate.T) {
	s := newSRQ(t, 8, 2, kit.Type(ci.RC), kit.MinRNR(5))
	for i, f := range s.from {
		f.Buf.Fill(t, 0, 50)
		f.Send(f.SendWR(uint64(i), 0, 50))
	}
	s.cq.Quiet(quiet) // meanwhile, both messages arrive
	s.post(1, 2)
	seen := map[any]bool{}
	for _, wc := range s.cq.WaitOK(1, 2) {
		seen[wc.Context] = true
	}
	for i, f := range s.from {
		f.CQ.WaitOK(uint64(i))
		kit.True(t, seen[s.to[i].Config.Context], "receives after an RNR NAK", "one for each connection",
			"none for connection %d", i)
	}
}, srqCases.Must("CI-SRQ-03", "IBTA 10.2.9", "ci_post_srq_recv (57)",
	"A message for an empty shared receive queue causes an RNR NAK on its connection. It is delivered after an "+
		"entry is posted."))

var ciSRQ04 = srqCases.Must("CI-SRQ-04", "IBTA 10.2.9", "ci_post_srq_recv (57)",
	"When a QP fails or is destroyed, the other QPs can use all entries that it has not used.")

var _ = srqCases.Add("srq.error", "one QP fails", func(t *validate.T) {
	s := newSRQ(t, 16, 2, kit.Type(ci.RC))
	s.post(1, 2)
	bad := ci.RecvWR{ID: 3, SGL: []ci.SGE{{Addr: s.buf.Addr, Length: 64, LKey: s.buf.LKey ^ 1<<20}}}
	n, err := s.srq.PostRecv([]ci.RecvWR{bad})
	kit.WantTaken(t, "SRQ.PostRecv", n, err, 1)
	s.post(4, 6)
	s.message(0, 1, 10)
	s.message(1, 2, 10)
	s.from[0].Send(s.from[0].SendWR(9, 0, 10))
	wc := s.cq.WaitStatus(3, ci.WCLocalProtErr)
	kit.Equal(t, "WC.QPN of the error", wc.QPN, s.to[0].Num())
	s.from[0].CQ.WaitStatus(9, ci.WCRemOpErr)
	s.to[0].Becomes(ci.QPError)
	for id := 4; id <= 6; id++ {
		s.message(1, id, 20) // no entry was flushed together with the other QP
	}
	s.cq.Empty()
}, ciSRQ04)

var _ = srqCases.Add("srq.partial", "a QP fails inside a message", srqPartial, ciFlush01, ciSRQ04)

// srqPartial sends the first packet of a message whose second one cannot be sent, and takes the receiver to Error. The
// entry that it has taken is flushed. If it has taken none, the next message uses the entry.
func srqPartial(t *validate.T) {
	s := newSRQ(t, 8, 2, kit.Type(ci.RC), kit.MTU(ci.MTU256))
	s.post(1, 2)
	f := s.from[0]
	wr := f.SendWR(9, 0, 256)
	wr.SGL = append(wr.SGL, ci.SGE{Addr: wr.SGL[0].Addr, Length: 8, LKey: ^wr.SGL[0].LKey})
	f.Send(wr)
	f.CQ.WaitStatus(9, ci.WCLocalProtErr)
	s.to[0].To(ci.QPError)
	s.to[0].Events.Wait(ci.EventLastWQE)
	f = s.from[1]
	f.Send(f.SendWR(9, 0, 10))
	f.CQ.WaitOK(9)
	isFlushed := func(wc ci.WC) bool { return wc.ID == 1 && wc.Status == ci.WCFlushErr && wc.QPN == s.to[0].Num() }
	wc := s.cq.Wait(1)[0]
	wasFirst := isFlushed(wc)
	if wasFirst {
		wc = s.cq.Wait(1)[0]
	}
	kit.Equal(t, "status of the receive of another QP", wc.Status, ci.WCSuccess)
	switch {
	case wasFirst:
		kit.Equal(t, "entry after one that was flushed", wc.ID, 2)
	case wc.ID != 1: // the QP has taken the first one
		s.cq.WaitStatus(1, ci.WCFlushErr)
	}
	s.cq.Empty()
}

var _ = srqCases.Add("srq.qp-destroy", "destroy one QP", func(t *validate.T) {
	s := newSRQ(t, 16, 2, kit.Type(ci.RC))
	s.post(1, 4)
	s.message(0, 1, 10)
	s.to[0].To(ci.QPReset)
	s.cq.Empty()
	s.message(1, 2, 10)
	kit.Destroy(t, s.to[0], "QP with an SRQ")
	s.cq.Empty()
	s.message(1, 3, 10)
	kit.Destroy(t, s.to[1], "QP with an SRQ")
	s.connect(s.pd)
	s.message(2, 4, 10)
}, ciSRQ04)

var _ = srqCases.Add("srq.pd", "QP and SRQ of different PDs", func(t *validate.T) {
	s := newSRQ(t, 16, 1, kit.Type(ci.RC))
	s.connect(s.b.PD())
	s.post(1, 2) // into a region of the SRQ's PD
	s.message(0, 1, 30)
	s.message(1, 2, 30)
	theirs := s.b.Buf(s.to[1].PD, 64, kit.AllAccess)
	n, err := s.srq.PostRecv([]ci.RecvWR{{ID: 3, SGL: theirs.SGL(0, 64)}})
	kit.WantTaken(t, "SRQ.PostRecv", n, err, 1)
	s.from[1].Send(s.from[1].SendWR(9, 0, 10))
	s.cq.WaitStatus(3, ci.WCLocalProtErr) // the region has the QP's PD and not the SRQ's
}, srqCases.Must("CI-SRQ-05", "IBTA 10.2.9", "ci_post_srq_recv (57)",
	"SGEs of a shared receive queue are checked against its own PD, not that of the QP."))

var ciPostSRQRecv01 = srqCases.Must("CI-PostSRQRecv-01", "IBTA 11.4.1", "ci_post_srq_recv (57)",
	"A post to a full queue fails with InsufficientResources, and of a request with too many SGEs with "+
		"InvalidMaxSGE. The requests before it in the list are posted.")

var _ = srqCases.Add("srq.full", "post to a full queue", func(t *validate.T) {
	s := newSRQ(t, 8, 1, kit.Type(ci.RC))
	a, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	wrs := make([]ci.RecvWR, a.MaxWR+2)
	for i := range wrs {
		wrs[i] = ci.RecvWR{ID: uint64(i + 1), SGL: s.buf.SGL((i+1)*srqSlot, srqSlot)}
	}
	n, err := s.srq.PostRecv(wrs)
	kit.WantTaken(t, fmt.Sprintf("SRQ.PostRecv of two requests more than the %d entries", a.MaxWR), n, err, a.MaxWR,
		ci.InsufficientResources)
	n, err = s.srq.PostRecv(wrs[:1])
	kit.WantTaken(t, "SRQ.PostRecv to a full SRQ", n, err, 0, ci.InsufficientResources)
	for id := 1; id <= a.MaxWR; id++ {
		s.message(0, id, 5)
	}
	s.post(1, a.MaxWR) // and again for all entries
	s.message(0, 1, 5)
}, ciPostSRQRecv01, req.SAS2_1_23)

var _ = srqCases.Add("srq.sges", "too many SGEs in the middle of a list", func(t *validate.T) {
	s := newSRQ(t, 8, 1, kit.Type(ci.RC))
	a, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	bad := ci.RecvWR{ID: 2}
	for range a.MaxSGE + 1 {
		bad.SGL = append(bad.SGL, s.buf.SGE(0, 1))
	}
	n, err := s.srq.PostRecv([]ci.RecvWR{{ID: 1, SGL: s.buf.SGL(srqSlot, srqSlot)}, bad,
		{ID: 3, SGL: s.buf.SGL(3*srqSlot, srqSlot)}})
	kit.WantTaken(t, "SRQ.PostRecv with one SGE too many in the second of three requests", n, err, 1, ci.InvalidMaxSGE)
	s.post(4, 4)
	s.message(0, 1, 5)
	s.message(0, 4, 5)
}, ciPostSRQRecv01, req.SAS2_1_23)

var ciModifySRQ01 = srqCases.Must("CI-ModifySRQ-01", "IBTA 10.2.9", "ci_modify_srq (19)",
	"The limit event is raised once for each arming, when fewer entries than the limit are left, and not before.")

var _ = srqCases.Add("srq.limit", "the limit event", func(t *validate.T) {
	s := newSRQ(t, 16, 1, kit.Type(ci.RC))
	s.post(1, 10)
	id := 1
	consume := func(left, to int) {
		for ; left > to; left-- {
			s.message(0, id, 3)
			id++
		}
	}
	consume(10, 7) // not armed yet
	kit.OK(t, s.srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 4}), "SRQ.Modify of the limit to 4 with 7 entries")
	a, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	kit.Equal(t, "SRQAttr.Limit when armed", a.Limit, 4)
	consume(7, 5)
	kit.Equal(t, "limit events with 5 entries left and a limit of 4", s.ev.Count(ci.EventSRQLimit), 0)
	consume(5, 3)
	ev := s.ev.Wait(ci.EventSRQLimit)
	kit.True(t, ev.Context == any(s.ev), "Event.Context", "the context set at creation", "%v", ev.Context)
	a, err = s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	kit.Equal(t, "SRQAttr.Limit after the event", a.Limit, 0)
	consume(3, 1)
	s.post(id+1, id+8)
	consume(9, 2) // not armed again
	kit.Equal(t, "limit events of one arming after the SRQ was filled and drained again", s.ev.Count(ci.EventSRQLimit),
		1)
	s.post(id+2, id+8)
	kit.OK(t, s.srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 2}), "SRQ.Modify of the limit to 2")
	consume(9, 1)
	s.ev.Wait(ci.EventSRQLimit)
	// events of one object are delivered in order, so a third one would be here
	kit.Equal(t, "limit events of two armings", s.ev.Count(ci.EventSRQLimit), 2)
}, ciModifySRQ01, req.SAS2_1_10)

var _ = srqCases.Add("srq.limit.create", "a limit armed at creation", func(t *validate.T) {
	s := newSRQ(t, 16, 0, kit.Type(ci.RC))
	armed := kit.NewEvents(t)
	srq, err := s.pd.CreateSRQ(ci.SRQCreate{
		SRQAttr: ci.SRQAttr{MaxWR: 16, MaxSGE: 1, Limit: 2},
		Context: armed,
		OnEvent: armed.Add,
	})
	kit.OK(t, err, "PD.CreateSRQ with a limit")
	s.srq = kit.Own(t, srq, "SRQ")
	s.connect(s.pd)
	a, err := srq.Query()
	kit.OK(t, err, "SRQ.Query")
	if a.Limit == 0 {
		t.Note("a limit set at creation is not armed")
		return
	}
	s.post(1, 4)
	for id := 1; id <= 3; id++ {
		s.message(0, id, 1)
	}
	armed.Wait(ci.EventSRQLimit)
	kit.Equal(t, "limit events", armed.Count(ci.EventSRQLimit), 1)
}, ciModifySRQ01)

var _ = srqCases.Add("srq.modify.refused", "no field, unknown fields, invalid limits", func(t *validate.T) {
	s := newSRQ(t, 8, 1, kit.Type(ci.RC))
	before, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	for _, x := range kit.Variants(t, "", []struct {
		what string
		set  ci.SRQField
		attr ci.SRQAttr
	}{
		{"no field", 0, ci.SRQAttr{Limit: 1}},
		{"an unknown field", ci.SRQFieldLimit << 1, ci.SRQAttr{Limit: 1}},
		{"an unknown field together with the limit", ci.SRQFieldLimit<<1 | ci.SRQFieldLimit, ci.SRQAttr{Limit: 1}},
		{"a limit above the size", ci.SRQFieldLimit, ci.SRQAttr{Limit: before.MaxWR + 1}},
		{"a limit below 0", ci.SRQFieldLimit, ci.SRQAttr{Limit: -1}},
	}) {
		kit.Want(t, s.srq.Modify(x.set, x.attr), "SRQ.Modify with "+x.what, ci.InvalidParameter)
		a, err := s.srq.Query()
		kit.OK(t, err, "SRQ.Query")
		kit.Equal(t, "SRQAttr after SRQ.Modify with "+x.what, a, before)
	}
	s.post(1, 1)
	s.message(0, 1, 1)
}, srqCases.Must("CI-ModifySRQ-03", "IBTA 11.2.3", "ci_modify_srq (19)",
	"No field, unknown fields, and a limit above the size fail with InvalidParameter."))

var _ = srqCases.Needing(validate.Needs{Caps: ci.CapSRQ, Lacks: ci.CapModifySRQDepth}).Add(
	"srq.modify.depth-unsupported", "a change of depth without a claim", srqDepthUnsupported, ciClaims01)

func srqDepthUnsupported(t *validate.T) {
	s := newSRQ(t, 8, 0, kit.Type(ci.RC))
	kit.WantExactly(t, s.srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 16}),
		"SRQ.Modify of the depth without ModifySRQDepth", ci.Unsupported)
}

var _ = srqCases.Needing(validate.Needs{Caps: ci.CapSRQ | ci.CapModifySRQDepth}).Add("srq.modify.depth",
	"larger and smaller depth, with entries posted", srqModifyDepth,
	srqCases.Must("CI-ModifySRQ-02", "IBTA 11.2.3", "ci_modify_srq (19)",
		"A change of depth keeps the entries and their order. A depth below their number is rejected and changes "+
			"nothing."))

func srqModifyDepth(t *validate.T) {
	s := newSRQ(t, 15, 1, kit.Type(ci.RC), kit.RNRRetry(0))
	s.post(1, 12)
	s.message(0, 1, 4)
	limit := 2
	kit.OK(t, s.srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: limit, MaxWR: 4}), "SRQ.Modify of the limit")
	grow := func(n int) {
		kit.OK(t, s.srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: n, Limit: 1}),
			fmt.Sprintf("SRQ.Modify of the depth to %d", n))
		a, err := s.srq.Query()
		kit.OK(t, err, "SRQ.Query")
		kit.AtLeast(t, "SRQAttr.MaxWR", a.MaxWR, n)
		kit.Equal(t, "SRQAttr.Limit after a change of the depth alone", a.Limit, limit)
	}
	grow(100)
	s.message(0, 2, 4)
	s.post(13, 60)
	s.message(0, 3, 4)
	before, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	kit.Want(t, s.srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 10}), "SRQ.Modify of the depth to 10 with 57 entries",
		ci.InvalidMaxWRs, ci.InvalidParameter, ci.Overflow)
	for _, n := range kit.Variants(t, "count", []int{0, -1, t.Attr().MaxSRQWRs + 1}) {
		kit.Want(t, s.srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: n}),
			fmt.Sprintf("SRQ.Modify of the depth to %d", n), ci.InvalidMaxWRs, ci.InvalidParameter)
	}
	after, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	kit.Equal(t, "SRQAttr after rejected calls of SRQ.Modify", after, before)
	for id := 4; id <= 50; id++ {
		s.message(0, id, 4)
	}
	grow(12)
	for id := 51; id <= 60; id++ {
		s.message(0, id, 4)
	}
	s.ev.Wait(ci.EventSRQLimit)
	limit = 0
	s.post(1, 12)
	s.message(0, 1, 4)
	grow(11) // as many as there are entries
	if most := t.Attr().MaxSRQWRs; most <= 1<<16 {
		grow(most)
	}
	for id := 2; id < 12; id++ {
		s.message(0, id, 4)
	}
	grow(1)
	s.message(0, 12, 4)
	s.from[0].Send(s.from[0].SendWR(9, 0, 4))
	s.from[0].CQ.WaitStatus(9, ci.WCRNRRetryErr) // no entry is left
	s.cq.Empty()

	t.Step("fill a queue whose depth was changed")
	s.connect(s.pd)
	grow(5)
	s.post(1, 3)
	grow(40)
	a, err := s.srq.Query()
	kit.OK(t, err, "SRQ.Query")
	for i := 4; ; i++ {
		n, err := s.srq.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: s.buf.SGL(0, 4)}})
		if i <= a.MaxWR {
			kit.WantTaken(t, fmt.Sprintf("SRQ.PostRecv %d of %d", i, a.MaxWR), n, err, 1)
			continue
		}
		kit.WantTaken(t, "SRQ.PostRecv to a full queue", n, err, 0, ci.InsufficientResources)
		break
	}
	for id := 1; id <= 3; id++ {
		s.message(1, id, 4)
	}
}

var _ = srqCases.Add("srq.last-wqe", "a QP that goes to Error", func(t *validate.T) {
	s := newSRQ(t, 8, 2, kit.Type(ci.RC))
	s.post(1, 2)
	s.message(0, 1, 10)
	s.to[0].To(ci.QPError)
	ev := s.to[0].Events.Wait(ci.EventLastWQE)
	kit.True(t, ev.Context == s.to[0].Config.Context, "Event.Context", "the context of the QP", "%v", ev.Context)
	s.cq.Empty()
	s.message(1, 2, 10) // the other QP uses the remaining entry
	s.to[1].Events.Only()
	s.to[0].To(ci.QPReset)
	kit.Equal(t, "events last WQE reached after one transition to Error", s.to[0].Events.Count(ci.EventLastWQE), 1)
}, srqCases.Must("CI-LastWQE-01", "IBTA 11.5.2", "SRQ_QP_LAST_WQE_REACHED (26)",
	"When a QP with a shared receive queue goes to Error, an event reports that it uses no more entries."),
	req.SAS2_1_10)

var _ = srqCases.Add("srq.busy", "destroy an SRQ that has QPs", func(t *validate.T) {
	s := newSRQ(t, 8, 2, kit.Type(ci.RC))
	s.post(1, 4)
	for i, q := range s.to {
		kit.WantExactly(t, s.srq.Destroy(), fmt.Sprintf("SRQ.Destroy with %d QPs", 2-i), ci.ResourceBusy)
		s.message(i, i+1, 10)
		kit.Destroy(t, q, "QP")
	}
	kit.DestroyTwice(t, s.srq, "SRQ with posted entries", ci.InvalidSRQHandle)
	s.cq.Empty()
}, srqCases.Must("CI-DestroySRQ-01", "IBTA 11.2.3", "ci_destroy_srq (21)",
	"Destroy of a shared receive queue with a QP fails with ResourceBusy, and the queue still works."),
	req.SAS2_3_26)

var ciDestroySRQ02 = srqCases.Must("CI-DestroySRQ-02", "IBTA 11.2.3", "ci_destroy_srq (21)",
	"A verb on a destroyed shared receive queue fails with InvalidSRQHandle, and its entries never complete.")

var _ = srqCases.Add("srq.stale", "entries of a destroyed SRQ, and a QP with it", func(t *validate.T) {
	s := newSRQ(t, 8, 0, kit.Type(ci.RC))
	s.post(1, 4)
	kit.Destroy(t, s.srq, "SRQ")
	caps := ci.QPCaps{SendDepth: 1, SendSGE: 1}
	qp, err := s.pd.CreateQP(ci.QPCreate{Type: ci.RC, QPCaps: caps, SendCQ: s.send.CQ, RecvCQ: s.cq.CQ, SRQ: s.srq})
	kit.WantRefused(t, qp, err, "PD.CreateQP with a destroyed SRQ", ci.InvalidSRQHandle)
	s.cq.Empty()
}, ciDestroySRQ02)
