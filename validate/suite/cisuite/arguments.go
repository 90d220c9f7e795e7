package cisuite

import (
	"fmt"
	"math"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// argumentCases are the cases of the largest legal arguments, of those just beyond them, and of queues of depth 0.
// (IBTA 11.2.4.1, 11.2.6.1, 11.3.1.1, 11.4.1.)
var argumentCases = &validate.Area{Feature: validate.FeatureRC}

var _ = argumentCases.Of(validate.FeatureQP).Add("qp.create.largest", "each size at the limit of the CA",
	qpCreateLargest,
	argumentCases.Must("CI-CreateQP-04", "IBTA 11.2.4", "ci_create_qp (22); CAAttr.MaxWRs, MaxSGEs, MaxInline",
		"Each size of a QP can be as large as the limit of the CA."))

func qpCreateLargest(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	a := ca.Attr
	for _, x := range kit.Variants(t, "", []struct {
		what string
		caps ci.QPCaps
	}{
		{"SendDepth MaxWRs", ci.QPCaps{SendDepth: a.MaxWRs, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}},
		{"RecvDepth MaxWRs", ci.QPCaps{SendDepth: 1, RecvDepth: a.MaxWRs, SendSGE: 1, RecvSGE: 1}},
		{"SendSGE MaxSGEs", ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: a.MaxSGEs, RecvSGE: 1}},
		{"RecvSGE MaxSGEs", ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: a.MaxSGEs}},
		{"MaxInline of the CA", ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1, MaxInline: a.MaxInline}},
	}) {
		qp, err := pd.CreateQP(ci.QPCreate{QPCaps: x.caps, SendCQ: cq.CQ, RecvCQ: cq.CQ})
		kit.OK(t, err, "PD.CreateQP with "+x.what)
		kit.Own(t, qp, "QP")
		got, err := qp.Query()
		kit.OK(t, err, "QP.Query")
		granted := "QPAttr of a QP created with " + x.what + ": "
		kit.AtLeast(t, granted+"SendDepth", got.SendDepth, x.caps.SendDepth)
		kit.AtLeast(t, granted+"RecvDepth", got.RecvDepth, x.caps.RecvDepth)
		kit.AtLeast(t, granted+"SendSGE", got.SendSGE, x.caps.SendSGE)
		kit.AtLeast(t, granted+"RecvSGE", got.RecvSGE, x.caps.RecvSGE)
		kit.AtLeast(t, granted+"MaxInline", got.MaxInline, x.caps.MaxInline)
		kit.Destroy(t, qp, "QP")
	}
}

var _ = argumentCases.Of(validate.FeatureQP).Add("qp.create.negative",
	"negative sizes and an unknown flag", func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		cq := ca.CQ(pd, 16)
		for _, x := range kit.Variants(t, "", []struct {
			what   string
			change func(*ci.QPCreate)
			want   ci.Status
		}{
			{"a SendDepth of -1", func(c *ci.QPCreate) { c.SendDepth = -1 }, ci.InvalidMaxWRs},
			{"a RecvDepth of -1", func(c *ci.QPCreate) { c.RecvDepth = -1 }, ci.InvalidMaxWRs},
			{"the least SendDepth", func(c *ci.QPCreate) { c.SendDepth = math.MinInt32 }, ci.InvalidMaxWRs},
			{"a SendSGE of -1", func(c *ci.QPCreate) { c.SendSGE = -1 }, ci.InvalidMaxSGE},
			{"a RecvSGE of -1", func(c *ci.QPCreate) { c.RecvSGE = -1 }, ci.InvalidMaxSGE},
			{"a MaxInline of -1", func(c *ci.QPCreate) { c.MaxInline = -1 }, ci.InvalidParameter},
			{"the highest bit of Flags", func(c *ci.QPCreate) { c.Flags |= 0x80 }, ci.InvalidParameter},
		}) {
			c := ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}, SendCQ: cq.CQ,
				RecvCQ: cq.CQ}
			x.change(&c)
			qp, err := pd.CreateQP(c)
			kit.WantRefused(t, qp, err, "PD.CreateQP with "+x.what, x.want)
		}
		kit.Destroy(t, cq, "CQ after rejected calls of PD.CreateQP")
		kit.Destroy(t, pd, "PD after rejected calls of PD.CreateQP")
	}, argumentCases.Must("CI-CreateQP-05", "IBTA 11.2.4", "ci_create_qp (22); QPCaps, QPFlags",
		"A negative size fails with the status of a size beyond the limits, and an unknown flag with "+
			"InvalidParameter. No QP is created."))

var _ = argumentCases.Of(validate.FeatureCQ).Add("cq.create.bad-vector",
	"completion vectors beyond the last one", func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		if ca.Attr.Vectors >= math.MaxUint16 {
			t.Skip("the CA has all vectors that a CQ can name")
		}
		for _, v := range kit.Variants(t, "vector", []uint16{uint16(ca.Attr.Vectors) + 1, math.MaxUint16}) {
			cq, err := pd.CreateCQ(ci.CQCreate{Size: 4, Affinity: ci.Affinity{Vector: v}})
			kit.WantRefused(t, cq, err, fmt.Sprintf("PD.CreateCQ with vector %d of %d", v, ca.Attr.Vectors),
				ci.InvalidParameter)
		}
		kit.Destroy(t, pd, "PD after rejected calls of PD.CreateCQ")
	}, argumentCases.Must("CI-CreateCQ-03", "CI", "ci_create_cq_ex (30); Affinity.Vector",
		"A completion vector above CAAttr.Vectors fails with InvalidParameter, and no CQ is created."))

var _ = argumentCases.Add("post.depth-zero", "QPs without a send queue and without a receive queue", postDepthZero,
	argumentCases.Must("CI-DepthZero-01", "IBTA 11.4.1", "ci_post_send (55), ci_post_recv (56)",
		"A queue that was created with depth 0 takes as many requests as Query returns, and rejects the next with "+
			"InsufficientResources. The other queue of the QP works."))

// postDepthZero connects a QP that only sends with one that only receives.
func postDepthZero(t *validate.T) {
	a, b := kit.OpenPair(t)
	from, fromBuf := oneWay(t, a, ci.QPCaps{SendDepth: 4, SendSGE: 1})
	to, toBuf := oneWay(t, b, ci.QPCaps{RecvDepth: 4, RecvSGE: 1})
	kit.Connect(from, to)
	for _, x := range []struct {
		verb    string
		granted int
		post    func() (int, error)
	}{
		{"QP.PostRecv", granted(t, from).RecvDepth, func() (int, error) { return from.PostRecv([]ci.RecvWR{{ID: 9}}) }},
		{"QP.PostSend", granted(t, to).SendDepth, func() (int, error) {
			return to.PostSend([]ci.SendWR{{ID: 9, Op: ci.OpSend}})
		}},
	} {
		if x.granted > 0 {
			t.Note("a depth of %d is granted for one of 0", x.granted)
			continue
		}
		n, err := x.post()
		kit.WantTaken(t, x.verb+" to a queue of depth 0", n, err, 0, ci.InsufficientResources)
	}
	for id := uint64(1); id <= 2; id++ {
		to.Recv(ci.RecvWR{ID: id, SGL: toBuf.SGL(0, 64)})
		want := append([]byte(nil), fromBuf.Fill(t, 0, 64)...)
		from.Send(ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: fromBuf.SGL(0, 64)})
		from.SendCQ.WaitOK(id)
		to.RecvCQ.WaitOK(id)
		kit.SameBytes(t, "message to a QP without a send queue", toBuf.Bytes[:64], want)
	}
}

// oneWay creates an RC QP with sizes that may be 0, which options of package kit replace by their defaults.
func oneWay(t *validate.T, ca *kit.CA, caps ci.QPCaps) (*kit.QP, *kit.Buf) {
	pd := ca.PD()
	q := *ca.QP(pd, ca.CQ(pd, 16), ca.CQ(pd, 16))
	c := q.Create()
	c.QPCaps = caps
	in, err := pd.CreateQP(c)
	kit.OK(t, err, fmt.Sprintf("PD.CreateQP with depths %d and %d", caps.SendDepth, caps.RecvDepth))
	q.QP = kit.Own(t, in, "QP")
	return &q, ca.Buf(pd, 64, kit.AllAccess)
}

// granted returns the sizes that Query returns.
func granted(t *validate.T, q ci.QP) ci.QPCaps {
	a, err := q.Query()
	kit.OK(t, err, "QP.Query")
	return a.QPCaps
}

var _ = argumentCases.Add("fault.rnr.rtr", "a message to a QP in RTR without a receive", func(t *validate.T) {
	p := kit.NewPairInReset(t, kit.RNRRetry(7), kit.MinRNR(5))
	p.A.Init()
	p.B.Init()
	p.A.RTR(p.B.QP)
	p.B.RTR(p.A.QP)
	p.A.RTS()
	want := append([]byte(nil), p.A.Buf.Fill(t, 0, 3000)...)
	p.A.Send(p.A.SendWR(1, 0, 3000))
	p.A.CQ.Quiet(quiet / 4)
	p.B.WantState(ci.QPRTR)
	p.B.Recv(p.B.RecvWR(2, 0, 3000))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(2)
	kit.SameBytes(t, "message received in RTR", p.B.Buf.Bytes[:3000], want)
	p.B.WantState(ci.QPRTR)
	p.B.RTS()
	p.B.Exchange(p.A, 100)
}, argumentCases.Must("IBTA-9.9-14", "IBTA 9.7.5.2.8", "RNR NAK; 10.3.1.3",
	"A responder in RTR without a receive answers with an RNR NAK, and the message completes the receive that is "+
		"posted later."))

var _ = argumentCases.Of(validate.FeatureMulticast).Needing(
	validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapMulticast}).With(
	validate.Case{Exhaustive: exhaustiveTime}).Add("mcast.limits",
	"as many members and groups as the limits, and one more", mcastLimits,
	argumentCases.Must("CI-Mcast-11", "IBTA 11.3.1",
		"ci_attach_mcast (63); CAAttr.MaxQPsPerMcastGroup, MaxMcastQPs, MaxMcastGroups",
		"As many QPs as the limits permit can be attached, to one group and to all groups. One more fails with "+
			"MaxMcastQPsReached, and one more group with InsufficientResources."))

// mostGroups is the largest number of groups that a case joins: joinable counts them in a byte.
const mostGroups = 100

func mcastLimits(t *validate.T) {
	p := kit.UD(t)
	ca := p.A.QP.CA
	a := ca.Attr
	perGroup := min(a.MaxQPsPerMcastGroup, a.MaxMcastQPs)
	if perGroup+2 >= a.MaxQPs || perGroup > fullTable && !t.Profile().Exhaustive {
		t.Skip("the limit of %d QPs in a group is too high for this profile", perGroup)
	}
	cq := ca.CQ(p.A.PD, 4)
	var qps []*kit.QP
	member := func(i int) *kit.QP {
		for len(qps) <= i {
			qps = append(qps, ca.QP(p.A.PD, cq, cq, kit.Type(ci.UD), kit.Depth(1), kit.SGEs(1)).Init())
		}
		return qps[i]
	}
	var all []ci.Mcast
	attach := func(q *kit.QP, g *group) {
		m, err := q.AttachMcast(ci.McastAttach{GID: g.gid, LID: g.mlid})
		kit.OK(t, err, fmt.Sprintf("QP.AttachMcast number %d, with MaxMcastQPs %d, MaxQPsPerMcastGroup %d and "+
			"MaxMcastGroups %d", len(all)+1, a.MaxMcastQPs, a.MaxQPsPerMcastGroup, a.MaxMcastGroups))
		all = append(all, kit.Own(t, m, "Mcast"))
	}
	refused := func(q *kit.QP, g *group, what string, want ...ci.Status) {
		m, err := q.AttachMcast(ci.McastAttach{GID: g.gid, LID: g.mlid})
		kit.WantRefused(t, m, err, fmt.Sprintf("QP.AttachMcast of %s", what), want...)
	}
	detach := func() {
		for _, m := range all {
			kit.Destroy(t, m, "Mcast")
		}
		all = nil
	}
	first := joinable(t, p, 1)
	for range 2 {
		for i := range perGroup {
			attach(member(i), first)
		}
		refused(member(perGroup), first, "one QP more than a group can have", ci.MaxMcastQPsReached)
		detach()
	}
	groups := min(a.MaxMcastGroups, a.MaxMcastQPs)
	if groups >= mostGroups {
		t.Note("the limit of %d groups is not reached", groups)
		return
	}
	for range 2 {
		for i := range groups {
			attach(member(0), joinable(t, p, byte(i+1)))
		}
		refused(member(0), joinable(t, p, byte(groups+1)), "a QP to one group more than the CA can have",
			ci.InsufficientResources, ci.MaxMcastQPsReached)
		detach()
	}
}

var ciModifyQP12 = argumentCases.Must("CI-ModifyQP-12", "IBTA 10.3.1", "ci_modify_qp (25)",
	"In Reset and in Error no attribute can be changed without a transition, and nothing changes.")

var _ = validate.Matrix(argumentCases, eachService([]statePattern{{id: "still"}}),
	func(p perService[statePattern]) (validate.Case, []*req.Requirement) {
		c := validate.Case{
			ID:      "qp.state." + p.name + "." + p.of.id,
			Title:   fmt.Sprintf("%s QP: attributes without a transition in Reset and Error", p.typ),
			Feature: p.feature,
			Needs:   validate.Needs{Caps: p.caps &^ ci.CapAV},
			Run:     func(t *validate.T) { qpStill(t, p.typ) },
		}
		if p.typ == ci.RC {
			c.Feature = validate.FeatureQP
		}
		return c, []*req.Requirement{ciModifyQP12}
	})

func qpStill(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	for _, s := range kit.Variants(t, "state", []ci.QPState{ci.QPReset, ci.QPError}) {
		l.climb(s)
		for _, e := range edges(typ) {
			set, a := l.attrs(e)
			set = (set | qpRules(typ)[e].may) &^ ci.QPFieldState
			for bit := ci.QPField(1); bit <= ci.QPFieldRecvDepth; bit <<= 1 {
				if set&bit != 0 {
					l.refused(bit, a, fmt.Sprintf("QP.Modify of field %#x in %s", uint32(bit), s),
						ci.InvalidQPState, ci.InvalidParameter)
				}
			}
		}
	}
}

var _ = argumentCases.Of(validate.FeatureMW).Needing(validate.Needs{Caps: ci.CapMW1}).Add("mw.state",
	"QP.BindMW before RTS", func(t *validate.T) {
		p := kit.NewPairInReset(t)
		b := p.B.CA.Buf(p.B.PD, 64, bindable)
		w := p.B.CA.MW(p.B.PD, ci.MWType1)
		bind := ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64, Access: ci.RemoteRead}
		for _, step := range []func(){func() {}, func() { p.B.Init() }, func() { p.B.RTR(p.A.QP) }} {
			step()
			_, err := p.B.BindMW(bindID, ci.SendSignaled, bind)
			kit.WantExactly(t, err, "QP.BindMW in "+p.B.State().String(), ci.InvalidQPState)
			kit.Equal(t, "MW.Key after the rejected QP.BindMW", w.Key(), bind.Key)
		}
		p.B.RTS()
		rebind(t, p.B, w, bind)
		p.B.CQ.Empty()
	}, argumentCases.Must("CI-BindMW-11", "IBTA 11.4.1", "ci_bind_mw (53)",
		"QP.BindMW in Reset, Init and RTR fails with InvalidQPState, and the window keeps its key."))

var _ = argumentCases.Of(validate.FeatureMW).Needing(validate.Needs{Caps: ci.CapMW1}).Add("mw.foreign-rights",
	"QP.BindMW with rights that are not remote", func(t *validate.T) {
		p := kit.RC(t)
		b := p.B.CA.Buf(p.B.PD, 64, bindable)
		w := p.B.CA.MW(p.B.PD, ci.MWType1)
		for _, x := range kit.Variants(t, "", []struct {
			what   string
			access ci.Access
		}{
			{"local write", ci.RemoteRead | ci.LocalWrite},
			{"bind window", ci.RemoteRead | ci.BindWindow},
			{"an unknown right", ci.RemoteRead | 1<<20},
		}) {
			bindFails(t, p, "with "+x.what, ci.MWBind{MW: w, MR: b.MR, Addr: b.Addr, Length: 64, Access: x.access},
				ci.InvalidParameter, ci.InvalidPermission)
		}
		rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
	}, argumentCases.Must("CI-BindMW-12", "IBTA 11.4.1", "ci_bind_mw (53); MWBind.Access",
		"A bind with a right that windows do not have fails, and the window keeps its key."))

var _ = argumentCases.Add("qp.path.unusable", "a connection to an address that cannot be used", func(t *validate.T) {
	p := kit.NewPairInReset(t)
	p.A.Init()
	p.B.Init()
	list := unusableAddresses(p)
	if ca := p.A.QP.CA; ca.Port.Link == ci.LinkEthernet {
		group := ca.AddressOf(p.B.QP.CA)
		group.GRH.DGID = groupGID(ca)
		list = append(list, address{"a multicast group", group})
	}
	for _, x := range kit.Variants(t, "", list) {
		f, a := p.A.RTRAttr(p.B.QP)
		a.Primary.AV = x.attr
		kit.WantExactly(t, p.A.Modify(f, a), "QP.Modify to RTR with "+x.what, ci.InvalidParameter, ci.InvalidIndex)
		p.A.WantState(ci.QPInit)
	}
	p.A.RTR(p.B.QP).RTS()
	p.B.RTR(p.A.QP).RTS()
	p.A.Exchange(p.B, 100)
}, argumentCases.Must("CI-ModifyQP-13", "IBTA 11.2.4.2", "ci_modify_qp (26); primary address vector",
	"Modify to RTR with an address that the port cannot use, or with that of a multicast group, fails, and the "+
		"QP stays in Init."))
