package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// qpCreateCases are the cases of the creation of queue pairs. (IBTA 10.2.4, 11.2.4.)
var qpCreateCases = &validate.Area{Feature: validate.FeatureQP}

var _ = qpCreateCases.With(validate.Case{Checks: []string{req.SAS2_3_09.ID, req.SAS2_3_06.ID}}).Add("qp.create.reset",
	"a new QP is in Reset and has the requested attributes", func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		send, recv := ca.CQ(pd, 32), ca.CQ(pd, 32)
		qp := ca.QP(pd, send, recv)
		a, err := qp.Query()
		kit.OK(t, err, "QP.Query")
		kit.Equal(t, "QPAttr.State", a.State, ci.QPReset)
		kit.Equal(t, "QPAttr.Type", a.Type, ci.RC)
		kit.Equal(t, "QPAttr.Num", a.Num, qp.Num())
		t.Charge("SAS-2.3-06", func() { kit.SameObject(t, "QPAttr.PD", a.PD, pd) })
		t.Charge("SAS-2.3-09", func() {
			kit.SameObject(t, "QPAttr.SendCQ", a.SendCQ, send.CQ)
			kit.SameObject(t, "QPAttr.RecvCQ", a.RecvCQ, recv.CQ)
		})
	}, qpCreateCases.Must("CI-CreateQP-01", "IBTA 11.2.4", "ci_create_qp (22), ci_destroy_qp (28)",
		"A new QP is in Reset and has the requested type, PD and CQs."), req.SAS2_3_09, req.SAS2_3_06)

var _ = qpCreateCases.Add("qp.create.granted", "a new QP has at least the requested sizes", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 64)
	for _, depth := range kit.Variants(t, "depth", []int{1, 3, 17}) {
		want := ci.QPCaps{
			SendDepth: depth,
			RecvDepth: depth,
			SendSGE:   1,
			RecvSGE:   1,
			MaxInline: min(ca.Attr.MaxInline, 16),
		}
		qp, err := pd.CreateQP(ci.QPCreate{QPCaps: want, SendCQ: cq.CQ, RecvCQ: cq.CQ})
		kit.OK(t, err, "PD.CreateQP")
		kit.Own(t, qp, "QP")
		a, err := qp.Query()
		kit.OK(t, err, "QP.Query")
		kit.AtLeast(t, "QPCaps.SendDepth", a.SendDepth, want.SendDepth)
		kit.AtLeast(t, "QPCaps.RecvDepth", a.RecvDepth, want.RecvDepth)
		kit.AtLeast(t, "QPCaps.SendSGE", a.SendSGE, want.SendSGE)
		kit.AtLeast(t, "QPCaps.RecvSGE", a.RecvSGE, want.RecvSGE)
		kit.AtLeast(t, "QPCaps.MaxInline", a.MaxInline, want.MaxInline)
	}
}, req.SAS2_3_10)

var _ = qpCreateCases.Add("qp.create.numbers", "QP numbers are unique", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 64)
	seen := map[ci.QPN]bool{}
	for range min(64, ca.Attr.MaxQPs) {
		n := ca.QP(pd, cq, cq, kit.Depth(1), kit.SGEs(1)).Num()
		kit.True(t, n > 1 && n < 0xffffff, "QP.Num", "a number from 2 to 0xfffffe", "%#x", uint32(n))
		kit.True(t, !seen[n], "QP.Num", "a number of no other QP", "%#x, the number of another QP", uint32(n))
		seen[n] = true
	}
}, qpCreateCases.Must("CI-CreateQP-02", "IBTA 11.2.4", "ci_create_qp (22), ci_destroy_qp (28)",
	"QP numbers are unique in the CA, have 24 bits and differ from those of QP0 and QP1."))

var _ = qpCreateCases.Add("qp.create.limits", "sizes above the limits", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	ok := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		change func(*ci.QPCaps)
		want   ci.Status
	}{
		{"a send depth above MaxWRs", func(c *ci.QPCaps) { c.SendDepth = ca.Attr.MaxWRs + 1 }, ci.InvalidMaxWRs},
		{"a receive depth above MaxWRs", func(c *ci.QPCaps) { c.RecvDepth = ca.Attr.MaxWRs + 1 }, ci.InvalidMaxWRs},
		{"more send SGEs than MaxSGEs", func(c *ci.QPCaps) { c.SendSGE = ca.Attr.MaxSGEs + 1 }, ci.InvalidMaxSGE},
		{"more receive SGEs than MaxSGEs", func(c *ci.QPCaps) { c.RecvSGE = ca.Attr.MaxSGEs + 1 }, ci.InvalidMaxSGE},
	}) {
		caps := ok
		x.change(&caps)
		qp, err := pd.CreateQP(ci.QPCreate{QPCaps: caps, SendCQ: cq.CQ, RecvCQ: cq.CQ})
		kit.WantRefused(t, qp, err, "PD.CreateQP with "+x.what, x.want)
	}
	kit.Destroy(t, cq, "CQ after rejected calls of PD.CreateQP")
}, qpCreateCases.Must("CI-CreateQP-03", "IBTA 11.2.4", "ci_create_qp (22), ci_destroy_qp (28)",
	"Depths above the limits of the CA fail with InvalidMaxWRs, scatter/gather counts with InvalidMaxSGE. No QP "+
		"is created."))

var ciDestroyQP01 = qpCreateCases.Must("CI-DestroyQP-01", "IBTA 11.2.4", "ci_create_qp (22), ci_destroy_qp (28)",
	"Each verb on a destroyed QP fails with InvalidQPHandle.")
