package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// pdArea returns the cases of protection domains. (IBTA 10.2.3, 11.2.1.5.)
func pdArea() validate.Suite {
	must := func(id, text string) req.Requirement {
		return req.Driver.Must(id, "IBTA 11.2.1", "ci_allocate_pd (10), ci_deallocate_pd (11)", text)
	}
	return validate.Suite{
		Requirements: []req.Requirement{
			must("CI-DeallocatePD-01",
				"Destroy of a PD that has a child fails with ResourceBusy. PD and child still work."),
			must("CI-DeallocatePD-02", "Each verb on a destroyed PD fails with InvalidPDHandle."),
			must("CI-AllocatePD-01", "A PD of each type can be allocated."),
		},
		Cases: []validate.Case{
			{ID: "pd.types", Title: "allocate PDs of each type", Feature: validate.FeatureCore,
				Requirements: []string{"CI-AllocatePD-01"}, Run: pdTypes},
			{ID: "pd.busy", Title: "destroy a PD that has a CQ, an MR or a QP", Feature: validate.FeatureCore,
				Requirements: []string{"CI-DeallocatePD-01", "SAS-2.3-26"}, Run: pdBusy},
			{ID: "pd.stale", Title: "use a destroyed PD", Feature: validate.FeatureCore,
				Requirements: []string{"CI-DeallocatePD-02",
					"SAS-2.1-06"}, Checks: []string{"SAS-2.1-06"}, Run: pdStale},
			{ID: "pd.cq-from-stale", Title: "create a CQ from a destroyed PD", Feature: validate.FeatureCore,
				Requirements: []string{"SAS-2.1-04"}, Run: pdCQFromStale},
		},
	}
}

func pdTypes(t *validate.T) {
	ca := kit.Open(t)
	for _, typ := range kit.Variants(t, "type", []ci.PDType{ci.PDNormal, ci.PDSpecial, ci.PDDatagram}) {
		pd, err := ca.AllocatePD(typ)
		kit.OK(t, err, "CA.AllocatePD")
		kit.Own(t, pd, "PD")
		kit.Destroy(t, pd, "PD")
	}
}

func pdBusy(t *validate.T) {
	ca := kit.Open(t)
	for _, kind := range kit.Variants(t, "", []string{"CQ", "MR", "QP"}) {
		pd, other := ca.PD(), ca.PD()
		cq := ca.CQ(other, 16)
		var child ci.Object
		switch kind {
		case "CQ":
			child = ca.CQ(pd, 16)
		case "MR":
			child = ca.Buf(pd, 64, kit.AllAccess)
		case "QP":
			child = ca.QP(pd, cq, cq)
		}
		kit.WantExactly(t, pd.Destroy(), "PD.Destroy with a child: "+kind, ci.ResourceBusy)
		kit.Destroy(t, ca.Buf(pd, 64, kit.AllAccess), "MR created after the rejected PD.Destroy")
		kit.Destroy(t, child, kind+" after the rejected PD.Destroy")
		kit.Destroy(t, pd, "PD without children")
	}
}

func pdStale(t *validate.T) {
	ca := kit.Open(t)
	pd, alive := ca.PD(), ca.PD()
	cq := ca.CQ(alive, 16)
	kit.DestroyTwice(t, pd, "PD", ci.InvalidPDHandle)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	kit.WantRefused(t, mr, err, "PD.RegisterMR after PD.Destroy", ci.InvalidPDHandle)
	qp, err := pd.CreateQP(ci.QPCreate{
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
		SendCQ: cq.CQ,
		RecvCQ: cq.CQ,
	})
	kit.WantRefused(t, qp, err, "PD.CreateQP after PD.Destroy", ci.InvalidPDHandle)
	t.Charge("SAS-2.1-06", func() {
		ca.PD() // may have the place of the destroyed one in the driver's table
		q, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.WantRefused(t, q, err, "PD.CreateCQ after PD.Destroy, when there is a younger PD", ci.InvalidPDHandle)
	})
}

func pdCQFromStale(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	kit.Destroy(t, pd, "PD")
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 16})
	kit.WantRefused(t, cq, err, "PD.CreateCQ after PD.Destroy", ci.InvalidPDHandle)
}
