package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// pdCases are the cases of protection domains. (IBTA 10.2.3, 11.2.1.5.)
var pdCases = &validate.Area{Feature: validate.FeatureCore}

var _ = pdCases.Add("pd.types", "allocate PDs of each type", func(t *validate.T) {
	ca := kit.Open(t)
	for _, typ := range kit.Variants(t, "type", []ci.PDType{ci.PDNormal, ci.PDSpecial, ci.PDDatagram}) {
		pd, err := ca.AllocatePD(typ)
		kit.OK(t, err, "CA.AllocatePD")
		kit.Own(t, pd, "PD")
		kit.Destroy(t, pd, "PD")
	}
}, pdCases.Must("CI-AllocatePD-01", "IBTA 11.2.1", "ci_allocate_pd (10), ci_deallocate_pd (11)",
	"A PD of each type can be allocated."))

var _ = pdCases.Add("pd.busy", "destroy a PD that has a CQ, an MR or a QP", func(t *validate.T) {
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
}, pdCases.Must("CI-DeallocatePD-01", "IBTA 11.2.1", "ci_allocate_pd (10), ci_deallocate_pd (11)",
	"Destroy of a PD that has a child fails with ResourceBusy. PD and child still work."), req.SAS2_3_26)

var ciDeallocatePD02 = pdCases.Must("CI-DeallocatePD-02", "IBTA 11.2.1",
	"ci_allocate_pd (10), ci_deallocate_pd (11)", "Each verb on a destroyed PD fails with InvalidPDHandle.")

var _ = pdCases.With(validate.Case{Checks: []string{req.SAS2_1_06.ID}}).Add("pd.stale",
	"use a destroyed PD", func(t *validate.T) {
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
		for _, x := range pdVerbs(t, ca, ca.Buf(alive, 64, kit.AllAccess).MR) {
			if t.Claims().Has(x.needs) {
				o, err := x.call(pd)
				kit.WantRefused(t, o, err, "PD."+x.verb+" after PD.Destroy", ci.InvalidPDHandle)
			}
		}
		t.Charge("SAS-2.1-06", func() {
			ca.PD() // may have the place of the destroyed one in the driver's table
			q, err := pd.CreateCQ(ci.CQCreate{Size: 4})
			kit.WantRefused(t, q, err, "PD.CreateCQ after PD.Destroy, when there is a younger PD", ci.InvalidPDHandle)
		})
	}, ciDeallocatePD02, req.SAS2_1_06)

var _ = pdCases.Add("pd.cq-from-stale", "create a CQ from a destroyed PD", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	kit.Destroy(t, pd, "PD")
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 16})
	kit.WantRefused(t, cq, err, "PD.CreateCQ after PD.Destroy", ci.InvalidPDHandle)
}, req.SAS2_1_04)

// pdVerb is an optional verb of a PD.
type pdVerb struct {
	verb  string
	needs ci.Caps
	call  func(ci.PD) (ci.Object, error)
}

// pdVerbs returns the optional verbs of PDs, with arguments that are valid except for the PD.
func pdVerbs(t *validate.T, ca *kit.CA, mr ci.MR) []pdVerb {
	list := []pdVerb{
		{"CreateAV", ci.CapAV, func(p ci.PD) (ci.Object, error) { return p.CreateAV(ca.AddressOf(ca)) }},
		{"CreateSRQ", ci.CapSRQ, func(p ci.PD) (ci.Object, error) {
			return p.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}})
		}},
		{"AllocFastRegMR", ci.CapFastReg, func(p ci.PD) (ci.Object, error) { return p.AllocFastRegMR(1) }},
		{"AllocFMR", ci.CapFMR, func(p ci.PD) (ci.Object, error) {
			return p.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: pageShift(ca.Attr)})
		}},
		{"UnmapFMRs", ci.CapFMR, func(p ci.PD) (ci.Object, error) { return nil, p.UnmapFMRs(nil) }},
		{"RegisterSMR", ci.CapSharedMR, func(p ci.PD) (ci.Object, error) {
			return p.RegisterSMR(mr, 0, ci.LocalWrite)
		}},
	}
	for _, typ := range windowTypes(t) {
		list = append(list, pdVerb{fmt.Sprintf("CreateMW of type %d", typ), 0,
			func(p ci.PD) (ci.Object, error) { return p.CreateMW(ci.MWCreate{Type: typ}) }})
	}
	return list
}
