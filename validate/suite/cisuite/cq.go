package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// cqCases are the cases of creation, emptiness and destruction of completion queues. (IBTA 10.2.6, 11.2.6, 11.4.2.)
var cqCases = &validate.Area{Feature: validate.FeatureCQ}

var _ = cqCases.Add("cq.create.sizes", "create CQs with 1 to MaxCQEs entries", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	for _, size := range kit.Variants(t, "size", []int{1, 2, 3, 100, min(ca.Attr.MaxCQEs, 1<<16)}) {
		cq, err := pd.CreateCQ(ci.CQCreate{Size: size})
		where := fmt.Sprintf("PD.CreateCQ with %d entries", size)
		kit.OK(t, err, where)
		kit.Own(t, cq, "CQ")
		attr, err := cq.Query()
		kit.OK(t, err, "CQ.Query")
		kit.AtLeast(t, "CQAttr.Size after "+where, attr.Size, size)
		kit.Destroy(t, cq, "CQ")
	}
}, cqCases.Must("CI-CreateCQ-01", "IBTA 11.2.6", "ci_create_cq (29)",
	"A created CQ has at least the requested number of entries, for requests from 1 to MaxCQEs."))

var _ = cqCases.Add("cq.create.bad-size", "create CQs with 0 and MaxCQEs+1 entries", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	for _, size := range kit.Variants(t, "size", []int{0, -1, ca.Attr.MaxCQEs + 1}) {
		cq, err := pd.CreateCQ(ci.CQCreate{Size: size})
		kit.WantRefused(t, cq, err, fmt.Sprintf("PD.CreateCQ with %d entries", size), ci.InvalidCQSize)
	}
	kit.Destroy(t, pd, "PD after the rejected PD.CreateCQ")
}, cqCases.Must("CI-CreateCQ-02", "IBTA 11.2.6", "ci_create_cq (29)",
	"CreateCQ with a size of 0 or above MaxCQEs fails with InvalidCQSize and creates no CQ."))

var _ = cqCases.Add("cq.poll.empty", "poll an empty CQ", func(t *validate.T) {
	ca := kit.Open(t)
	cq := ca.CQ(ca.PD(), 8)
	mark := ci.WC{ID: 0x5a5a, Length: 77, Status: ci.WCGeneralErr}
	wc := []ci.WC{mark, mark}
	for _, room := range kit.Variants(t, "room for", []int{2, 1, 0}) {
		n, err := cq.Poll(wc[:room])
		where := fmt.Sprintf("CQ.Poll of an empty CQ with room for %d entries", room)
		kit.OK(t, err, where)
		kit.Equal(t, where, n, 0)
	}
	kit.True(t, wc[0] == mark && wc[1] == mark, "entries after CQ.Poll of an empty CQ", "unchanged", "%+v", wc)
}, cqCases.Must("CI-PollCQ-01", "IBTA 11.4.2", "ci_poll_cq (59)",
	"Poll of an empty CQ returns no entry and no error, and writes nothing."))

var _ = cqCases.Add("cq.destroy.busy", "destroy a CQ that a QP uses for sends or receives", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	send, recv := ca.CQ(pd, 16), ca.CQ(pd, 16)
	qp := ca.QP(pd, send, recv)
	kit.WantExactly(t, send.Destroy(), "CQ.Destroy while a QP uses it as its send CQ", ci.ResourceBusy)
	kit.WantExactly(t, recv.Destroy(), "CQ.Destroy while a QP uses it as its receive CQ", ci.ResourceBusy)
	send.Empty()
	recv.Empty()
	kit.Destroy(t, qp, "QP")
	kit.Destroy(t, send, "send CQ after its QP was destroyed")
	kit.Destroy(t, recv, "receive CQ after its QP was destroyed")
}, cqCases.Must("CI-DestroyCQ-01", "IBTA 11.2.6", "ci_destroy_cq (34)",
	"Destroy of a CQ that a QP uses on either queue fails with ResourceBusy."), req.SAS2_3_26)

var ciDestroyCQ02 = cqCases.Must("CI-DestroyCQ-02", "IBTA 11.2.6", "ci_destroy_cq (34)",
	"Each verb on a destroyed CQ fails with InvalidCQHandle.")

var _ = cqCases.Add("cq.stale", "create a QP with a destroyed CQ", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	kit.Destroy(t, cq, "CQ")
	caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	alive := ca.CQ(pd, 8)
	for _, c := range []ci.QPCreate{{QPCaps: caps, SendCQ: cq.CQ, RecvCQ: alive.CQ},
		{QPCaps: caps, SendCQ: alive.CQ, RecvCQ: cq.CQ}} {
		qp, err := pd.CreateQP(c)
		kit.WantRefused(t, qp, err, "PD.CreateQP with a destroyed CQ", ci.InvalidCQHandle)
	}
}, ciDestroyCQ02)

var _ = cqCases.Add("cq.other-pd", "use a CQ with QPs of another PD", func(t *validate.T) {
	ca := kit.Open(t)
	owner, other := ca.PD(), ca.PD()
	cq := ca.CQ(owner, 64)
	c := ci.QPCreate{
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1},
		SendCQ: cq.CQ,
		RecvCQ: cq.CQ,
	}
	for _, pd := range []ci.PD{owner, other} {
		qp, err := pd.CreateQP(c)
		kit.OK(t, err, "PD.CreateQP with a CQ of another PD")
		kit.Own(t, qp, "QP")
		attr, err := qp.Query()
		kit.OK(t, err, "QP.Query")
		kit.SameObject(t, "QPAttr.PD", attr.PD, pd)
		kit.SameObject(t, "QPAttr.SendCQ", attr.SendCQ, cq.CQ)
	}
}, req.SAS2_1_08, req.SAS2_1_07)
