package cisuite

import (
	"bytes"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Statements of the specification that concern the interface as a whole, or that a case of one verb cannot prove.
var principles = &validate.Area{Feature: validate.FeatureClaims}

var _ = principles.Of(validate.FeatureCore).Add("contract.meanings",
	"each mandatory verb has its effect, as another verb observes it", func(t *validate.T) {
		p := kit.RC(t, kit.Size(8192))
		ca := p.A.QP.CA
		p.A.Exchange(p.B, 100)
		p.WantWrite("memory of the peer", p.B.Buf.Remote(0), p.B.Buf.Bytes[:64])
		want := bytes.Clone(p.B.Buf.Fill(t, 1024, 64))
		p.WantStatus("RDMA READ", p.A.RDMA(ci.OpRead, 1, 2048, 64, p.B, 1024), ci.WCSuccess)
		p.Fence()
		kit.SameBytes(t, "memory that an RDMA READ has returned", p.A.Buf.Bytes[2048:2112], want)
		kit.SameBytes(t, "memory of the peer after an RDMA READ", p.B.Buf.Bytes[1024:1088], want)
		q := p.More(false)
		q.B.Recv(q.B.RecvWR(1, 0, 8))
		kit.OK(t, q.B.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}), "QP.Modify to Error")
		q.B.RecvCQ.WaitStatus(1, ci.WCFlushErr)
		q.B.WantState(ci.QPError)
		b := ca.Buf(p.A.PD, 64, kit.AllAccess)
		from := ci.SendWR{Op: ci.OpWrite, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}
		p.WantStatus("RDMA WRITE from a region", from, ci.WCSuccess)
		kit.Destroy(t, b.MR, "MR")
		p.WantStatus("RDMA WRITE from a destroyed region", from, ci.WCLocalProtErr)
		pd := ca.PD()
		cq := ca.CQ(pd, 4)
		other := ca.QP(pd, cq, cq)
		kit.Destroy(t, other.QP, "QP")
		_, err := other.Query()
		kit.Want(t, err, "QP.Query after Destroy", ci.InvalidQPHandle)
		kit.Destroy(t, cq.CQ, "CQ")
		_, err = cq.Query()
		kit.Want(t, err, "CQ.Query after Destroy", ci.InvalidCQHandle)
		kit.Destroy(t, pd, "PD")
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64))})
		kit.WantRefused(t, mr, err, "PD.RegisterMR after Destroy", ci.InvalidPDHandle)
	}, req.SAS0_01)

var _ = principles.Add("contract.mandatory", "no mandatory verb fails with Unsupported", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	ca := p.A.QP.CA
	supported := func(verb string, err error) {
		kit.True(t, ci.StatusOf(err) != ci.Unsupported, verb, "a result other than Unsupported", "%s",
			kit.Describe(err))
	}
	_, err := ca.Query()
	supported("CA.Query", err)
	supported("CA.Modify of no fields", ca.Modify(ca.Port.Num, 0, ci.PortModify{}))
	pd, err := ca.AllocatePD(ci.PDNormal)
	supported("CA.AllocatePD", err)
	kit.OK(t, err, "CA.AllocatePD")
	kit.Own(t, pd, "PD")
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 8})
	supported("PD.CreateCQ", err)
	kit.OK(t, err, "PD.CreateCQ")
	kit.Own(t, cq, "CQ")
	_, err = cq.Query()
	supported("CQ.Query", err)
	_, err = cq.Poll(make([]ci.WC, 1))
	supported("CQ.Poll", err)
	for _, when := range []ci.Notify{ci.NotifyNext, ci.NotifySolicited} {
		supported("CQ.Notify", cq.Notify(when))
	}
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	supported("PD.RegisterMR", err)
	kit.OK(t, err, "PD.RegisterMR")
	kit.Own(t, mr, "MR")
	_, err = mr.Query()
	supported("MR.Query", err)
	_, err = p.A.Query()
	supported("QP.Query", err)
	// The QP in Error accepts and flushes every request, so that no peer is needed.
	supported("QP.Modify to Error", p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	for _, op := range []ci.SendOp{ci.OpSend, ci.OpWrite, ci.OpRead} {
		for _, flags := range []ci.SendFlags{ci.SendSignaled, ci.SendSignaled | ci.SendSolicited,
			ci.SendSignaled | ci.SendFence, ci.SendSignaled | ci.SendImmediate} {
			if op == ci.OpRead && flags&ci.SendImmediate != 0 {
				continue // no such operation
			}
			_, err := p.A.PostSend([]ci.SendWR{{Op: op, Flags: flags, SGL: p.A.Buf.SGL(0, 8),
				Remote: p.B.Buf.Remote(0)}})
			supported(fmt.Sprintf("QP.PostSend of opcode %d with flags %#x", op, flags), err)
		}
	}
	_, err = p.A.PostRecv([]ci.RecvWR{p.A.RecvWR(1, 0, 8)})
	supported("QP.PostRecv", err)
	supported("QP.Modify to Reset", p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	supported("MR.Destroy", mr.Destroy())
	supported("CQ.Destroy", cq.Destroy())
	supported("PD.Destroy", pd.Destroy())
	supported("QP.Destroy", p.A.QP.QP.Destroy())
}, req.SAS2_2_01)

var _ = principles.Of(validate.FeatureCore).Add("pd.innermost",
	"an object belongs to the PD from which it was created, and to that PD's CA", pdInnermost, req.SAS2_1_01)

func pdInnermost(t *validate.T) {
	var cas []*kit.CA
	for _, h := range t.HCAs()[:min(2, len(t.HCAs()))] {
		cas = append(cas, kit.OpenHCA(t, h))
	}
	// Only one CA has objects. It is each of them in turn, since a driver may add them all to the first or the last.
	for i := 0; len(cas) > 1 && i < len(cas); i++ {
		pd := cas[i].PD()
		kit.WantExactly(t, cas[i].Destroy(), "CA.Destroy of the CA that has objects", ci.ResourceBusy)
		rest := 1 - i
		kit.OK(t, cas[rest].Destroy(), "CA.Destroy of the other CA, which has none")
		kit.Destroy(t, pd, "PD")
		cas[rest] = kit.OpenHCA(t, t.HCAs()[rest])
	}
	for i, l := range kit.Variants(t, "", claimed(t)) {
		if l.kind == "handler" || l.kind == "DMA mapping" {
			continue // objects of the CA
		}
		ca := cas[i%len(cas)]
		other, pd := ca.PD(), ca.PD()
		cq := ca.CQ(other, 4)
		s := &claimStage{t: t, ca: ca, pd: pd, cq: cq}
		o := l.create(t, s)
		kit.WantExactly(t, pd.Destroy(), "PD.Destroy of the PD that the verb was called on: "+l.kind, ci.ResourceBusy)
		kit.OK(t, o.Destroy(), l.kind+".Destroy")
		kit.Destroy(t, pd, "PD without objects")
		kit.Destroy(t, cq, "CQ")
		kit.Destroy(t, other, "an older PD of the same CA, which is not the parent")
	}
}

var _ = principles.Add("rd.domain", "allocate a reliable datagram domain from a PD", func(t *validate.T) {
	pd := kit.Open(t).PD()
	d, err := pd.AllocRDD()
	if !t.Claims().Has(ci.CapRD) {
		kit.WantRefused(t, d, err, "PD.AllocRDD without a claim of RD", ci.Unsupported)
		return
	}
	kit.OK(t, err, "PD.AllocRDD")
	kit.Own(t, d, "RDD")
	kit.WantExactly(t, pd.Destroy(), "PD.Destroy with an RDD", ci.ResourceBusy)
	var eecs []ci.EEC
	for range min(2, t.Attr().MaxEECs) {
		e, err := d.CreateEEC(ci.EECCreate{})
		kit.OK(t, err, "RDD.CreateEEC")
		kit.Own(t, e, "EEC")
		for _, o := range eecs {
			kit.True(t, o.Num() != e.Num(), "EEC.Num", "a number of no other EEC", "%#x, the number of another EEC",
				e.Num())
		}
		eecs = append(eecs, e)
	}
	for _, e := range eecs {
		a, err := e.Query()
		kit.OK(t, err, "EEC.Query")
		kit.Equal(t, "QPAttr.State of a new EEC", a.State, ci.QPReset)
		kit.WantExactly(t, d.Destroy(), "RDD.Destroy with an EEC", ci.ResourceBusy)
		kit.OK(t, e.Destroy(), "EEC.Destroy")
		kit.Want(t, e.Destroy(), "EEC.Destroy again", ci.InvalidHandle)
	}
	kit.OK(t, d.Destroy(), "RDD.Destroy")
	_, err = d.CreateEEC(ci.EECCreate{})
	kit.Want(t, err, "RDD.CreateEEC of a destroyed RDD", ci.InvalidHandle)
	kit.Destroy(t, pd, "PD without an RDD")
}, req.SAS2_1_05)

var _ = principles.Add("rd.needs-domain", "create an RD QP without a domain", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 4)
	c := ci.QPCreate{
		Type:   ci.RD,
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
		SendCQ: cq.CQ,
		RecvCQ: cq.CQ,
	}
	q, err := pd.CreateQP(c)
	if !t.Claims().Has(ci.CapRD) {
		kit.WantRefused(t, q, err, "PD.CreateQP of type RD without a claim of RD", ci.Unsupported)
		return
	}
	kit.WantRefused(t, q, err, "PD.CreateQP of type RD without an RDD", ci.InvalidHandle, ci.InvalidParameter)
	d, err := pd.AllocRDD()
	kit.OK(t, err, "PD.AllocRDD")
	kit.Own(t, d, "RDD")
	c.RDD = d
	q, err = pd.CreateQP(c)
	kit.OK(t, err, "PD.CreateQP of type RD")
	kit.Own(t, q, "QP")
	a, err := q.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "QPAttr.Type", a.Type, ci.RD)
	kit.WantExactly(t, d.Destroy(), "RDD.Destroy with a QP", ci.ResourceBusy)
	kit.OK(t, q.Destroy(), "QP.Destroy")
	kit.OK(t, d.Destroy(), "RDD.Destroy")
	q, err = pd.CreateQP(c)
	kit.WantRefused(t, q, err, "PD.CreateQP of type RD with a destroyed RDD", ci.InvalidHandle, ci.InvalidParameter)
}, req.SAS2_3_08)

var _ = principles.Of(validate.FeatureMR).Add("mr.every-sge",
	"one invalid entry at each position of a list", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		n := min(4, t.Attr().MaxSGEs)
		for _, at := range kit.Variants(t, "position", []int{0, n / 2, n - 1}) {
			for _, last := range kit.Variants(t, "bytes of the last entry", []int{1, 8}) {
				sgl := make([]ci.SGE, n)
				for i := range sgl {
					sgl[i] = p.A.Buf.SGE(uint64(64*i), 8)
				}
				sgl[n-1].Length = uint32(last)
				p.WantStatus("RDMA WRITE from a list of valid entries",
					ci.SendWR{Op: ci.OpWrite, SGL: sgl, Remote: p.B.Buf.Remote(0)}, ci.WCSuccess)
				p.Fence()
				var want []byte
				for _, s := range sgl {
					off := s.Addr - p.A.Buf.Addr
					want = append(want, p.A.Buf.Bytes[off:off+uint64(s.Length)]...)
				}
				kit.SameBytes(t, "bytes written from a list", p.B.Buf.Bytes[:len(want)], want)
				sgl[at].LKey ^= 1 << 30
				p.WantStatus(fmt.Sprintf("RDMA WRITE from a list whose entry %d has an unknown key", at),
					ci.SendWR{Op: ci.OpWrite, SGL: sgl, Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
				kit.Random(t, p.A.Buf.Bytes[:256])
			}
		}
	}, req.SAS2_3_17)

var _ = principles.Of(validate.FeatureMW).Needing(validate.Needs{Caps: ci.CapMW1}).Add("mw.later",
	"bind a window to a region that is younger than the window", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		w := p.B.CA.MW(p.B.PD, ci.MWType1)
		p.A.Exchange(p.B, 100)
		for range 3 {
			b := p.B.CA.Buf(p.B.PD, 64, bindable)
			key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
			p.WantWrite("the window", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
		}
		kit.Destroy(t, w, "MW") // before the region that it is bound to
	}, req.SAS2_3_16)

var _ = principles.Of(validate.FeatureRC).Add("post.queues", "each verb posts to its own queue", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for id := range uint64(4) {
		p.B.Recv(p.B.RecvWR(id, 0, 8))
		p.A.Send(p.A.SendWR(id, 0, 8))
		// A completion on the wrong queue ends the wait, too.
		for _, e := range []struct {
			cq, other *kit.CQ
			what      string
			op        ci.WCOp
		}{{p.A.CQ, p.A.RecvCQ, "send", ci.WCSend}, {p.B.RecvCQ, p.B.CQ, "receive", ci.WCRecv}} {
			var wc [1]ci.WC
			waitFor(t, "completion of a "+e.what, "on the CQ of that queue", func() (bool, string) {
				n, err := e.cq.Poll(wc[:])
				kit.OK(t, err, "CQ.Poll")
				e.other.Empty()
				return n == 1, "no completion"
			})
			kit.Equal(t, "WC.ID", wc[0].ID, id)
			kit.Equal(t, "WC.Op", wc[0].Op, e.op)
		}
	}
}, req.SAS2_3_18)

var _ = principles.Of(validate.FeatureMR).Add("mr.destroy.completed",
	"deregister a region directly after the completion that used it", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		for i := range uint64(64) {
			for _, op := range []ci.SendOp{ci.OpWrite, ci.OpRead, ci.OpSend} {
				b := p.A.CA.Buf(p.A.PD, 256, kit.AllAccess)
				into := p.B.CA.Buf(p.B.PD, 256, kit.AllAccess)
				if op == ci.OpSend {
					p.B.Recv(ci.RecvWR{ID: i, SGL: into.SGL(0, 256)})
				}
				p.A.Send(ci.SendWR{ID: i, Op: op, Flags: ci.SendSignaled, SGL: b.SGL(0, 256), Remote: into.Remote(0)})
				p.A.CQ.WaitOK(i)
				kit.Destroy(t, b.MR, "MR whose request has completed")
				if op == ci.OpSend {
					p.B.RecvCQ.WaitOK(i)
				}
				kit.Destroy(t, into.MR, "MR of the peer whose request has completed")
			}
		}
	}, req.SAS2_3_24)
