package cisuite

import (
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// avCases are the cases of address vectors as objects. Their use in sends belongs to udCases. (IBTA 11.2.2, 10.2.2.)
var avCases = &validate.Area{Feature: validate.FeatureUD, Needs: validate.Needs{Caps: ci.CapAV}}

// variants returns vectors with the same destination as good and different other fields.
func variants(good ci.AVAttr) []ci.AVAttr {
	x := good
	x.SL = 3
	x.GRH.FlowLabel, x.GRH.HopLimit, x.GRH.TrafficClass = 0xabcde, 7, 0x2e
	y := good
	y.StaticRate, y.GRH.HopLimit = 2, 255
	z := good
	if !z.Global {
		z.DLID ^= 0x1234
	}
	return []ci.AVAttr{good, x, y, z}
}

func wantAV(t *validate.T, av ci.AV, pd ci.PD, want ci.AVAttr, when string) {
	a, p, err := av.Query()
	kit.OK(t, err, "AV.Query "+when)
	kit.Equal(t, "AVAttr "+when, a, want)
	kit.SameObject(t, "PD of AV.Query "+when, p, pd)
}

var ciQueryAV01 = avCases.Must("CI-QueryAV-01", "IBTA 11.2.2", "ci_query_av (15)",
	"Query returns the whole vector as it was set, and its PD, whatever happens to other vectors.")

var _ = avCases.Add("av.query", "attributes and PD", func(t *validate.T) {
	ca := kit.Open(t)
	for _, want := range kit.Variants(t, "address", variants(ca.AddressOf(ca))) {
		pd := ca.PD()
		av, err := pd.CreateAV(want)
		kit.OK(t, err, "PD.CreateAV")
		kit.Own(t, av, "AV")
		wantAV(t, av, pd, want, "after PD.CreateAV")
	}
}, ciQueryAV01, req.SAS2_1_02)

var ciModifyAV02 = avCases.Must("CI-ModifyAV-02", "IBTA 11.2.2", "ci_modify_av (16)",
	"Modify replaces the whole vector, and can turn a vector that leads nowhere into a valid one.")

var _ = avCases.Add("av.modify.whole", "all fields", avModify, ciModifyAV02, ciQueryAV01)

func avModify(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	av := ca.AV(pd, ca)
	for _, want := range kit.Variants(t, "address", variants(ca.AddressOf(ca))) {
		kit.OK(t, av.Modify(want), "AV.Modify")
		wantAV(t, av, pd, want, "after AV.Modify")
	}
}

var _ = avCases.Add("av.callback", "create and destroy in a completion callback", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	attr := p.B.CA.AddressOf(p.B.CA)
	done := make(chan error, 1)
	cq := p.B.CA.CQWith(p.B.PD, ci.CQCreate{Size: 16, OnCompletion: func(any) {
		av, err := p.B.PD.CreateAV(attr)
		if err == nil {
			err = av.Destroy()
		}
		done <- err
	}})
	c := p.B.Config
	a := p.A.CA.End(c)
	b := p.B.CA.QP(p.B.PD, p.B.CQ, cq, kit.With(func(o *kit.Config) { *o = c }))
	kit.Connect(a.QP, b)
	kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
	b.Recv(p.B.RecvWR(1, 0, 64))
	a.Send(a.SendWR(1, 0, 8))
	a.CQ.WaitOK(1)
	deadline := time.NewTimer(t.Remaining())
	defer deadline.Stop()
	select {
	case err := <-done:
		kit.OK(t, err, "PD.CreateAV and AV.Destroy in a completion callback")
	case <-deadline.C:
		t.Failf("PD.CreateAV and AV.Destroy in a completion callback", "an end of the callback", "none by the deadline")
	}
}, avCases.Must("CI-CreateAV-03", "IBTA 11.2.2", "ci_create_av (14), ci_destroy_av (17)",
	"Address vectors can be created and destroyed in callbacks."))

var _ = avCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV}).Add("av.modify.mend",
	"a vector that leads nowhere becomes valid", func(t *validate.T) {
		p := kit.UD(t, kit.Size(4096))
		good := p.A.CA.AddressOf(p.B.CA)
		bad := good
		bad.Global, bad.GRH.SGIDIndex = true, uint16(len(p.A.CA.Port.GIDs))
		av, err := p.A.PD.CreateAV(bad)
		kit.OK(t, err, "PD.CreateAV with a source GID index beyond the table")
		kit.Own(t, av, "AV")
		wantAV(t, av, p.A.PD, bad, "of a vector that leads nowhere")
		kit.OK(t, av.Modify(good), "AV.Modify to a valid address")
		p.A.Dest.AV = av
		p.A.Exchange(p.B, 50)
	}, ciModifyAV02)

var _ = avCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV}).Add("av.many",
	"one QP and many vectors", func(t *validate.T) {
		p := kit.UD(t, kit.Size(4096))
		attr := p.A.CA.AddressOf(p.B.CA)
		var avs []ci.AV
		for i := range min(32, t.Attr().MaxAVs-2) {
			attr.GRH.FlowLabel = uint32(i)
			av, err := p.A.PD.CreateAV(attr)
			kit.OK(t, err, "PD.CreateAV")
			avs = append(avs, kit.Own(t, av, "AV"))
			p.A.Dest.AV = av
			p.A.Exchange(p.B, i)
		}
		for i, av := range avs {
			attr.GRH.FlowLabel = uint32(i)
			wantAV(t, av, p.A.PD, attr, "with other vectors")
		}
	}, ciQueryAV01)
