package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Objects of one adapter passed to verbs of another. Each verb with an object argument has a case.
var foreigns = &validate.Area{Feature: validate.FeatureMROpt, Complete: func(c *validate.Case) { c.Needs.HCAs = 2 }}

var ciForeignHandle01 = foreigns.Must("CI-ForeignHandle-01", "CI context", "handle statuses",
	"A verb that gets an object of another CA fails with the invalid handle status of its kind, and no object of "+
		"either CA changes.")

var _ = foreigns.Of(validate.FeatureCore).Add("open.foreign",
	"objects of one adapter passed to the other", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		apd, bpd := a.PD(), b.PD()
		acq, bcq := a.CQ(apd, 16), b.CQ(bpd, 16)
		caps := ci.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1, RecvSGE: 1}
		for _, cqs := range [][2]ci.CQ{{bcq.CQ, acq.CQ}, {acq.CQ, bcq.CQ}} {
			q, err := apd.CreateQP(ci.QPCreate{QPCaps: caps, SendCQ: cqs[0], RecvCQ: cqs[1]})
			kit.WantRefused(t, q, err, "PD.CreateQP with a CQ of another CA", ci.InvalidCQHandle)
		}
		if t.Claims().Has(ci.CapSRQ) {
			in, err := bpd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 2, MaxSGE: 1}})
			kit.OK(t, err, "PD.CreateSRQ")
			srq := kit.Own(t, in, "SRQ")
			c := caps
			c.RecvDepth, c.RecvSGE = 0, 0
			q, err := apd.CreateQP(ci.QPCreate{QPCaps: c, SendCQ: acq.CQ, RecvCQ: acq.CQ, SRQ: srq})
			kit.WantRefused(t, q, err, "PD.CreateQP with an SRQ of another CA", ci.InvalidSRQHandle)
		}
		if t.Claims().Has(ci.CapUD | ci.CapAV) {
			q := a.QP(apd, acq, acq, kit.Type(ci.UD)).Init().RTR(nil).RTS()
			buf := a.Buf(apd, 64, kit.AllAccess)
			in, err := bpd.CreateAV(b.AddressOf(a))
			kit.OK(t, err, "PD.CreateAV")
			av := kit.Own(t, in, "AV")
			n, err := q.PostSend([]ci.SendWR{{
				ID:    1,
				Op:    ci.OpSend,
				Flags: ci.SendSignaled,
				SGL:   buf.SGL(0, 8),
				To:    ci.Dest{AV: av, QPN: 2, QKey: 1},
			}})
			kit.WantTaken(t, "QP.PostSend with an AV of another CA", n, err, 0, ci.InvalidAVHandle)
		}
		bcq.Empty()
		kit.Destroy(t, bcq.CQ, "CQ that the other CA has rejected")
	}, ciForeignHandle01, req.SAS2_1_01, req.SAS2_1_11)

var _ = foreigns.Of(validate.FeatureMW).Needing(validate.Needs{Caps: ci.CapMW1}).Add("foreign.bind",
	"bind a window of another CA, or to a region of another CA", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		own, other := p.B.CA.Buf(p.B.PD, 64, bindable), p.A.CA.Buf(p.A.PD, 64, bindable)
		w, otherW := p.B.CA.MW(p.B.PD, ci.MWType1), p.A.CA.MW(p.A.PD, ci.MWType1)
		otherKey := otherW.Key()
		bind := func(w ci.MW, mr *kit.Buf) error {
			_, err := p.B.BindMW(bindID, ci.SendSignaled,
				ci.MWBind{MW: w, MR: mr.MR, Key: w.Key(), Addr: mr.Addr, Length: 64, Access: ci.RemoteRead})
			return err
		}
		key := w.Key()
		kit.WantExactly(t, bind(otherW, own), "QP.BindMW of a window of another CA", ci.InvalidMWHandle)
		kit.WantExactly(t, bind(w, other), "QP.BindMW to a region of another CA", ci.InvalidMRHandle)
		kit.WantExactly(t, bind(w, &kit.Buf{MR: struct{ ci.MR }{}}), "QP.BindMW to a region of no driver",
			ci.InvalidMRHandle)
		p.B.CQ.Empty()
		kit.Equal(t, "MW.Key after rejected binds", w.Key(), key)
		kit.Equal(t, "MW.Key of the other CA's window after rejected binds", otherW.Key(), otherKey)
		rebind(t, p.A, otherW, ci.MWBind{MR: other.MR, Addr: other.Addr, Length: 64, Access: ci.RemoteRead})
		rebind(t, p.B, w, ci.MWBind{MR: own.MR, Addr: own.Addr, Length: 64, Access: ci.RemoteRead})
	}, ciForeignHandle01)

var _ = foreigns.Of(validate.FeatureMW).Needing(validate.Needs{Caps: ci.CapMW2}).Add("foreign.bind-post",
	"bind a type 2 window of another CA, or to a region of another CA", foreignBindPost, ciForeignHandle01)

func foreignBindPost(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	own, other := p.B.CA.Buf(p.B.PD, 64, bindable), p.A.CA.Buf(p.A.PD, 64, bindable)
	w, otherW := p.B.CA.MW(p.B.PD, ci.MWType2), p.A.CA.MW(p.A.PD, ci.MWType2)
	key, otherKey := w.Key(), otherW.Key()
	wantForeign(t, p, "OpBindMW of a window of another CA", bind2(otherW, nextKey(otherW), own, 0, 64, ci.RemoteRead),
		ci.InvalidMWHandle, ci.WCBindErr)
	wantForeign(t, p, "OpBindMW to a region of another CA", bind2(w, nextKey(w), other, 0, 64, ci.RemoteRead),
		ci.InvalidMRHandle, ci.WCBindErr)
	kit.Equal(t, "MW.Key after failed binds", w.Key(), key)
	kit.Equal(t, "MW.Key of the other CA's window after failed binds", otherW.Key(), otherKey)
	bound2(t, p.A, otherW, other, ci.RemoteRead)
	bound2(t, p.B, w, own, ci.RemoteRead)
}

// wantForeign posts a request to B's queue with an object of another CA. It expects PostSend to fail with at or
// InvalidParameter, or a completion with an error, after which it connects the pair again.
func wantForeign(t *validate.T, p *kit.Pair, what string, wr ci.SendWR, at ci.Status, late ...ci.WCStatus) {
	if n, err := p.B.PostSend([]ci.SendWR{wr}); err != nil {
		kit.WantTaken(t, "QP.PostSend of "+what, n, err, 0, at, ci.InvalidParameter)
		return
	}
	p.B.CQ.WaitStatus(wr.ID, late...)
	p.Reconnect()
}

var _ = foreigns.Needing(validate.Needs{Caps: ci.CapFastReg}).Add("foreign.fast",
	"fast registration of a region of another CA", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		s := newFast(t, p, 1)
		mr, err := p.A.PD.AllocFastRegMR(1)
		kit.OK(t, err, "PD.AllocFastRegMR")
		other := kit.Own(t, mr, "fast registration MR")
		before := other.Region()
		wr := s.wr(1, ci.LocalWrite)
		s.ext.FastReg.MR, s.ext.FastReg.Key = other, before.RKey
		wantForeign(t, p, "OpFastReg of a region of another CA", wr, ci.InvalidMRHandle, fastFailed...)
		kit.Equal(t, "MR.Region of the other CA's region after the failed registration", other.Region(), before)
		s.register(t, ci.LocalWrite|ci.RemoteRead)
	}, ciForeignHandle01)

var _ = foreigns.Needing(validate.Needs{Caps: ci.CapSharedMR}).Add("foreign.shared",
	"share a region of another CA", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		other := b.Buf(b.PD(), 64, ci.LocalWrite)
		mr, err := a.PD().RegisterSMR(other.MR, 0, ci.LocalWrite)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR of a region of another CA", ci.InvalidMRHandle)
		kit.Destroy(t, other.MR, "MR that the other CA has rejected") // not busy, since it has no shared region
	}, ciForeignHandle01)

var _ = foreigns.Needing(validate.Needs{Caps: ci.CapModifyMR}).Add("foreign.modify",
	"move regions to a PD of another CA", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
		err := b.Modify(ci.MRFieldPD, p.A.PD, ci.MRCreate{})
		kit.WantExactly(t, err, "MR.Modify to a PD of another CA", ci.InvalidPDHandle)
		if t.Claims().Has(ci.CapPhysicalMR) {
			err := b.ModifyPMR(ci.MRFieldPD, p.A.PD, ci.PMRCreate{})
			kit.WantExactly(t, err, "MR.ModifyPMR to a PD of another CA", ci.InvalidPDHandle)
		}
		p.WantWrite("the region after rejected calls of Modify", b.Remote(0), b.Bytes)
	}, ciForeignHandle01)

var _ = foreigns.Needing(validate.Needs{Caps: ci.CapFMR}).Add("foreign.fmr",
	"unmap a list with an FMR of another CA", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		apd, bpd := a.PD(), b.PD()
		own, other := newFMR(t, a, apd, 1, 1, ci.LocalWrite), newFMR(t, b, bpd, 1, 1, ci.LocalWrite)
		own.mapped(t, own.pages, 0x40000)
		other.mapped(t, other.pages, 0x40000)
		for _, list := range kit.Variants(t, "", []struct {
			name string
			fmrs []ci.FMR
		}{{"alone", []ci.FMR{other.FMR}}, {"after an own one", []ci.FMR{own.FMR, other.FMR}},
			{"before an own one", []ci.FMR{other.FMR, own.FMR}}}) {
			kit.WantExactly(t, apd.UnmapFMRs(list.fmrs), "PD.UnmapFMRs of an FMR of another CA, "+list.name,
				ci.InvalidFMRHandle)
		}
		kit.WantExactly(t, own.Destroy(), "FMR.Destroy after rejected calls of UnmapFMRs, which must leave it mapped",
			ci.ResourceBusy)
		kit.WantExactly(t, other.Destroy(),
			"FMR.Destroy of the other CA's FMR after rejected calls of UnmapFMRs, which must leave it mapped",
			ci.ResourceBusy)
		kit.OK(t, apd.UnmapFMRs([]ci.FMR{own.FMR}), "PD.UnmapFMRs")
		kit.OK(t, bpd.UnmapFMRs([]ci.FMR{other.FMR}), "PD.UnmapFMRs of the other CA")
	}, ciForeignHandle01)
