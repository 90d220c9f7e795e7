package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// mrModifyCases are the cases of modified regions and of shared regions. (IBTA 11.2.8.)
var mrModifyCases = &validate.Area{Feature: validate.FeatureMROpt, Needs: validate.Needs{Caps: ci.CapModifyMR}}

var ciModifyMR01 = mrModifyCases.Must("CI-ModifyMR-01", "IBTA 11.2.8", "ci_modify_mr (40), ci_modify_pmr (41)",
	"Modify of access rights, PD or memory changes the named fields and nothing else, and Region and Query "+
		"return the new values.")

var _ = mrModifyCases.Add("mr.modify.access", "fewer and more access rights", mrModifyAccess, ciModifyMR01,
	ciModifyMR02)

func mrModifyAccess(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.BufOf(p.B.PD, kit.Pages(64, 64), kit.AllAccess)
	for _, a := range kit.Variants(t, "access",
		[]ci.Access{ci.RemoteRead, ci.LocalWrite, ci.LocalWrite | ci.RemoteWrite, kit.AllAccess}) {
		kit.OK(t, b.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: a}), "MR.Modify to "+rightNames(a))
		r := b.MR.Region()
		kit.Equal(t, "Region.Addr after MR.Modify of the access rights", r.Addr, b.Addr)
		kit.Equal(t, "Region.Length after MR.Modify of the access rights", r.Length, 64)
		wantQuery(t, b.MR, p.B.PD, a)
		probeRights(p, "a region modified to "+rightNames(a), ci.Remote{Addr: r.Addr, RKey: keyFor(r, a)}, a)
	}
	t.Step("the region's PD")
	pd := p.B.CA.PD()
	c := p.B.CA.Buf(pd, 64, kit.AllAccess)
	kit.OK(t, c.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite}), "MR.Modify of the access rights")
	kit.Want(t, pd.Destroy(), "PD.Destroy with a region that was modified", ci.ResourceBusy)
	kit.Destroy(t, c, "MR")
	kit.Destroy(t, pd, "PD")
}

// keyFor returns the region's R_Key, or its L_Key if it has no remote rights and therefore no R_Key.
func keyFor(r ci.Region, a ci.Access) ci.Key {
	if a&(ci.RemoteRead|ci.RemoteWrite|ci.RemoteAtomic) == 0 {
		return r.LKey
	}
	return r.RKey
}

// elsewhere returns another connection of the same adapters. Its ends have their own PDs.
func elsewhere(p *kit.Pair) *kit.Pair {
	a, b := p.A.Config, p.B.Config
	a.OwnPD, b.OwnPD = true, true
	q := &kit.Pair{A: p.A.CA.End(a), B: p.B.CA.End(b)}
	kit.Connect(q.A.QP, q.B.QP)
	return q
}

var _ = mrModifyCases.Add("mr.modify.pd", "another PD", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	q := elsewhere(p)
	b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	q.WantDenied("RDMA WRITE through the other PD before MR.Modify", ci.OpWrite, 8, b.Remote(0))
	kit.OK(t, b.Modify(ci.MRFieldPD, q.B.PD, ci.MRCreate{}), "MR.Modify of the PD")
	r := b.MR.Region()
	wantQuery(t, b.MR, q.B.PD, kit.AllAccess)
	q.WantWrite("the region through its new PD", r.Remote(0), b.Bytes)
	p.WantUntouched("the region through its old PD", r.Remote(0), b.Bytes)
	kit.Destroy(t, b, "MR moved to another PD")
}, ciModifyMR01, ciModifyMR02, req.SAS2_3_07)

var _ = mrModifyCases.Add("mr.modify.memory", "other memory", mrModifyMemory, ciModifyMR01, ciModifyMR02)

func mrModifyMemory(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 100, kit.AllAccess)
	mem := make([]byte, 3000)
	kit.OK(t, b.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(mem), Offset: 3, Length: 2000}),
		"MR.Modify of the memory")
	r := b.MR.Region()
	kit.Equal(t, "Region.Addr", r.Addr, ci.Bytes(mem).Addr()+3)
	kit.Equal(t, "Region.Length", r.Length, 2000)
	wantQuery(t, b.MR, p.B.PD, kit.AllAccess)
	p.WantWrite("the new memory", r.Remote(0), mem[3:2003])
	p.WantDenied("RDMA WRITE of the byte after the new range", ci.OpWrite, 1, r.Remote(2000))
	p.WantUntouched("the old memory with the new key", ci.Remote{Addr: b.Addr, RKey: r.RKey}, b.Bytes)
	msg := kit.Random(t, p.A.Buf.Bytes[:50])
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{r.SGE(7, 50)}})
	p.A.Send(p.A.SendWR(1, 0, 50))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	kit.SameBytes(t, "message received with the new L_Key", mem[10:60], msg)
}

var ciModifyMR02 = mrModifyCases.Must("CI-ModifyMR-02", "IBTA 11.2.8", "ci_modify_mr (40), ci_modify_pmr (41)",
	"A key that Modify has replaced grants no access.")

var _ = mrModifyCases.Add("mr.modify.old-key", "the previous key", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	err := b.Modify(ci.MRFieldMemory|ci.MRFieldAccess, nil,
		ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	kit.OK(t, err, "MR.Modify of memory and access rights")
	r := b.MR.Region()
	// Even if the driver keeps the key, it must not grant access to the old bytes.
	p.WantUntouched("the old memory with the old key", b.Remote(0), b.Bytes)
	if r.RKey == b.RKey {
		t.Note("MR.Modify keeps the R_Key")
		return
	}
	p.WantDenied("RDMA WRITE to the new memory with the old key", ci.OpWrite, 8, ci.Remote{Addr: r.Addr, RKey: b.RKey})
	to := p.A.CA.Buf(p.A.PD, 64, kit.AllAccess)
	kit.OK(t, to.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: kit.AllAccess}), "MR.Modify")
	if to.MR.Region().LKey != to.LKey {
		p.WantStatus("RDMA WRITE from an SGE with the old L_Key",
			ci.SendWR{Op: ci.OpWrite, SGL: to.SGL(0, 8), Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
	}
}, ciModifyMR02)

var _ = mrModifyCases.Add("mr.modify.refused", "no field, unknown fields, invalid values", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	old := p.B.CA.PD()
	kit.Destroy(t, old, "PD")
	b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	mem := ci.Bytes(make([]byte, 64))
	for _, x := range kit.Variants(t, "", []struct {
		what string
		set  ci.MRField
		pd   ci.PD
		c    ci.MRCreate
		want ci.Status
	}{
		{"no field", 0, nil, ci.MRCreate{}, ci.InvalidParameter},
		{"an unknown field", ci.MRFieldAccess << 1, nil, ci.MRCreate{Access: ci.LocalWrite}, ci.InvalidParameter},
		{"remote write without local write", ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.RemoteWrite},
			ci.InvalidPermission},
		{"no memory", ci.MRFieldMemory, nil, ci.MRCreate{}, ci.InvalidParameter},
		{"a range outside the memory", ci.MRFieldMemory, nil, ci.MRCreate{Memory: mem, Offset: 60, Length: 5},
			ci.InvalidParameter},
		{"a destroyed PD", ci.MRFieldPD, old, ci.MRCreate{}, ci.InvalidPDHandle},
		{"no PD", ci.MRFieldPD, nil, ci.MRCreate{}, ci.InvalidPDHandle},
		{"valid memory and a destroyed PD", ci.MRFieldMemory | ci.MRFieldPD, old, ci.MRCreate{Memory: mem},
			ci.InvalidPDHandle},
	}) {
		kit.Want(t, b.Modify(x.set, x.pd, x.c), "MR.Modify with "+x.what, x.want)
		kit.Equal(t, "Region after the rejected MR.Modify with "+x.what, b.MR.Region(), b.Region)
		p.WantWrite("the region after the rejected MR.Modify with "+x.what, b.Remote(0), b.Bytes)
	}
	if t.Claims().Has(ci.CapFastReg) {
		s := newFast(t, p, 1)
		to := s.register(t, kit.AllAccess)
		err := s.MR.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite})
		kit.Want(t, err, "MR.Modify of a region for fast registration", ci.InvalidParameter, ci.Unsupported)
		p.WantWrite("the region for fast registration after the rejected MR.Modify", to, s.mem[:64])
	}
}, mrModifyCases.Must("CI-ModifyMR-03", "IBTA 11.2.8", "ci_modify_mr (40), ci_modify_pmr (41)",
	"A rejected Modify changes neither the region nor its keys."))

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapPhysicalMR | ci.CapModifyMR}).Add("mr.modify.physical",
	"virtual memory is replaced by DMA addresses", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		page := smallPage(t.Attr())
		mem := kit.Pages(int(2*page), int(page))
		d := p.B.CA.DMA(mem)
		b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
		kit.OK(t, b.ModifyPMR(ci.MRFieldMemory, nil,
			ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Offset: 5, Length: page, IOVA: 0x10000}),
			"MR.ModifyPMR of the memory")
		r := b.MR.Region()
		kit.Equal(t, "Region.Length", r.Length, page)
		p.WantWrite("the pages of the DMA mapping", r.Remote(0), mem[5:5+page])
		p.WantUntouched("the previous virtual memory", b.Remote(0), b.Bytes)
		kit.WantExactly(t, d.Destroy(), "DMA.Destroy while a region uses it", ci.ResourceBusy)
		kit.OK(t, b.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite}), "MR.Modify of the access rights")
		p.WantUntouched("the pages of the DMA mapping without the right", b.MR.Region().Remote(0), mem[5:5+page])
		kit.OK(t, b.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: kit.AllAccess}), "MR.Modify of the access rights")
		p.WantWrite("the pages of the DMA mapping after MR.Modify of the access rights", b.MR.Region().Remote(0),
			mem[5:5+page])
		kit.WantExactly(t, d.Destroy(), "DMA.Destroy while a region that was modified uses it", ci.ResourceBusy)
		kit.OK(t, b.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(b.Bytes)}),
			"MR.Modify back to virtual memory")
		p.WantWrite("the virtual memory", b.MR.Region().Remote(0), b.Bytes)
		kit.Destroy(t, d, "DMA that no region uses")
	}, ciModifyMR01, ciModifyMR02)

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapMW1 | ci.CapModifyMR}).Add("mr.modify.bound",
	"a region with a bound window", mrModifyBound,
	mrModifyCases.Must("CI-ModifyMR-04", "IBTA 10.6.7", "ci_modify_mr (40), ci_modify_pmr (41)",
		"Modify of a region with a bound window fails with ResourceBusy."))

func mrModifyBound(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess|ci.BindWindow)
	w := bound(p.B, b, ci.RemoteRead|ci.RemoteWrite)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		set  ci.MRField
	}{{"rights", ci.MRFieldAccess}, {"the PD", ci.MRFieldPD}, {"the memory", ci.MRFieldMemory}}) {
		err := b.Modify(x.set, p.B.PD,
			ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: ci.LocalWrite | ci.BindWindow})
		kit.WantExactly(t, err, "MR.Modify of "+x.what+" with a bound window", ci.ResourceBusy)
		kit.Equal(t, "Region after the rejected MR.Modify", b.MR.Region(), b.Region)
		p.WantWrite("the region after the rejected MR.Modify, with its own key", b.Remote(0), b.Bytes)
		p.WantWrite("the region after the rejected MR.Modify, with the window's key",
			ci.Remote{Addr: b.Addr, RKey: w.Key()}, b.Bytes)
	}
	kit.Destroy(t, w, "MW")
	kit.OK(t, b.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite}), "MR.Modify without a bound window")
}

// shared registers a shared region of b.
func shared(t *validate.T, pd ci.PD, b *kit.Buf, iova uint64, a ci.Access) ci.MR {
	mr, err := pd.RegisterSMR(b.MR, iova, a)
	kit.OK(t, err, "PD.RegisterSMR with "+rightNames(a))
	return kit.Own(t, mr, "shared MR")
}

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR}).Add("mr.shared.bytes",
	"both keys refer to the same bytes", mrSharedBytes, req.SAS2_3_15)

func mrSharedBytes(t *validate.T) {
	p := kit.RC(t, kit.Size(8192))
	b := p.B.CA.Buf(p.B.PD, 5000, kit.AllAccess)
	mr := shared(t, p.B.PD, b, 0, kit.AllAccess)
	r := mr.Region()
	kit.Equal(t, "Region.Length of the shared region", r.Length, 5000)
	kit.Equal(t, "Region.Addr of the shared region without an IOVA", r.Addr, b.Addr)
	kit.True(t, r.LKey != b.LKey && r.RKey != b.RKey, "keys of the shared region", "different from those of the source",
		"a key of the source")
	wantQuery(t, mr, p.B.PD, kit.AllAccess)
	p.WantWrite("the bytes with the shared region's key", r.Remote(0), b.Bytes)
	p.WantWrite("the bytes with the source's key", b.Remote(0), b.Bytes)
	clear(p.A.Buf.Bytes)
	p.WantReach("RDMA READ with the shared region's key", ci.OpRead, 5000, r.Remote(0))
	kit.SameBytes(t, "bytes read with the shared region's key", p.A.Buf.Bytes[:5000], b.Bytes)
	p.WantDenied("RDMA WRITE of the byte after the shared region", ci.OpWrite, 1, r.Remote(5000))
	msg := kit.Random(t, p.A.Buf.Bytes[:100])
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{r.SGE(0, 100)}})
	p.A.Send(p.A.SendWR(1, 0, 100))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	kit.SameBytes(t, "message received with the shared region's L_Key", b.Bytes[:100], msg)
}

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR}).Add("mr.shared.address",
	"with an IOVA", func(t *validate.T) {
		p := kit.RC(t, kit.Size(8192))
		page := smallPage(t.Attr())
		b := p.B.CA.Buf(p.B.PD, 5000, kit.AllAccess)
		want := 0x6000_0000_0000 | b.Addr&(page-1)
		r := shared(t, p.B.PD, b, want, kit.AllAccess).Region()
		kit.Equal(t, "page offset of the shared region's address", r.Addr&(page-1), b.Addr&(page-1))
		if r.Addr != want {
			t.Note("the shared region's address is not the requested IOVA")
		}
		p.WantWrite("the bytes at the shared region's address", r.Remote(0), b.Bytes)
	}, req.SAS2_3_15)

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR}).Add("mr.shared.rights",
	"PD and access rights of the shared region", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		q := elsewhere(p)
		b := p.B.CA.BufOf(p.B.PD, kit.Pages(64, 64), kit.AllAccess)
		for _, a := range kit.Variants(t, "access",
			[]ci.Access{ci.RemoteRead, ci.LocalWrite | ci.RemoteWrite, ci.LocalWrite}) {
			mr := shared(t, q.B.PD, b, 0, a)
			r := mr.Region()
			wantQuery(t, mr, q.B.PD, a)
			to := ci.Remote{Addr: r.Addr, RKey: keyFor(r, a)}
			probeRights(q, "a shared region with "+rightNames(a), to, a)
			p.WantUntouched("a shared region through the PD of its source", to, b.Bytes)
			q.WantUntouched("the source through the PD of its shared region", b.Remote(0), b.Bytes)
			kit.Destroy(t, mr, "shared MR")
			q.WantUntouched("a destroyed shared region", to, b.Bytes)
		}
		p.WantWrite("the source, whose access rights have not changed", b.Remote(0), b.Bytes)
	}, mrModifyCases.Must("CI-RegisterSMR-01", "IBTA 11.2.8", "ci_register_smr (42)",
		"A shared region has its own PD and access rights, independent of those of its source."), req.SAS2_3_07)

var ciRegisterSMR02 = mrModifyCases.Must("CI-RegisterSMR-02", "IBTA 11.2.8", "ci_register_smr (42)",
	"Destroy of a region that has shared regions fails with ResourceBusy, and the region still works.")

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR}).Add("mr.shared.busy",
	"destroy the source first", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
		one, two := shared(t, p.B.PD, b, 0, kit.AllAccess), shared(t, p.B.CA.PD(), b, 0, ci.LocalWrite)
		for i, mr := range []ci.MR{one, two} {
			kit.WantExactly(t, b.Destroy(), fmt.Sprintf("MR.Destroy with %d shared regions", 2-i), ci.ResourceBusy)
			p.WantWrite("the source after the rejected MR.Destroy", b.Remote(0), b.Bytes)
			kit.DestroyTwice(t, mr, "shared MR", ci.InvalidMRHandle)
		}
		kit.Destroy(t, b, "MR without shared regions")
	}, ciRegisterSMR02, req.SAS2_3_26)

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR | ci.CapPhysicalMR}).Add("mr.shared.physical",
	"a shared region over DMA addresses", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		page := smallPage(t.Attr())
		mem := kit.Pages(int(page), int(page))
		for _, first := range kit.Variants(t, "", []string{"the shared region", "the source, after another attempt"}) {
			d := p.B.CA.DMA(mem)
			mr, err := p.B.PD.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Length: page, IOVA: 0x40000,
				Access: kit.AllAccess})
			kit.OK(t, err, "PD.RegisterPMR")
			kit.Own(t, mr, "PMR")
			smr, err := p.B.PD.RegisterSMR(mr, 0, kit.AllAccess)
			kit.OK(t, err, "PD.RegisterSMR of a physical region")
			kit.Own(t, smr, "shared MR")
			p.WantWrite("a shared region over DMA addresses", smr.Region().Remote(0), mem)
			kit.WantExactly(t, d.Destroy(), "DMA.Destroy with a region and a shared one", ci.ResourceBusy)
			if first != "the shared region" {
				kit.WantExactly(t, mr.Destroy(), "MR.Destroy of the source", ci.ResourceBusy)
			}
			kit.Destroy(t, smr, "shared MR")
			kit.WantExactly(t, d.Destroy(), "DMA.Destroy with a region, after a shared one", ci.ResourceBusy)
			p.WantWrite("the source", mr.Region().Remote(0), mem)
			kit.Destroy(t, mr, "PMR")
			kit.Destroy(t, d, "DMA without regions")
		}
	}, ciRegisterSMR02, req.SAS2_3_26)

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR}).Add("mr.shared.refused",
	"a destroyed source, invalid access rights", func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		b, old := ca.Buf(pd, 64, kit.AllAccess), ca.Buf(pd, 64, kit.AllAccess)
		kit.Destroy(t, old, "MR")
		mr, err := pd.RegisterSMR(old.MR, 0, ci.LocalWrite)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR of a destroyed region", ci.InvalidMRHandle)
		mr, err = pd.RegisterSMR(nil, 0, ci.LocalWrite)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR of nil", ci.InvalidMRHandle, ci.InvalidParameter)
		mr, err = pd.RegisterSMR(b.MR, 0, ci.RemoteWrite)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR with remote write and without local write", ci.InvalidPermission)
		mr, err = pd.RegisterSMR(b.MR, 0, ci.LocalWrite|1<<20)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR with an unknown right", ci.InvalidParameter)
		page := smallPage(ca.Attr)
		long := ca.Buf(pd, int(2*page), kit.AllAccess)
		mr, err = pd.RegisterSMR(long.MR, -page, ci.LocalWrite)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR at addresses that wrap around", ci.InvalidParameter)
		if t.Claims().Has(ci.CapFastReg) {
			fast, err := pd.AllocFastRegMR(1)
			kit.OK(t, err, "PD.AllocFastRegMR")
			mr, err = pd.RegisterSMR(fast, 0, ci.LocalWrite)
			kit.WantRefused(t, mr, err, "PD.RegisterSMR of a region for fast registration", ci.InvalidMRHandle,
				ci.InvalidParameter)
			kit.Destroy(t, fast, "fast registration MR")
		}
		kit.Destroy(t, b, "MR after rejected calls of PD.RegisterSMR")
	}, mrModifyCases.Must("CI-RegisterSMR-03", "IBTA 11.2.8", "ci_register_smr (42)",
		"RegisterSMR of a destroyed region fails with InvalidMRHandle, and with invalid access rights with "+
			"InvalidPermission."))

var _ = mrModifyCases.Needing(validate.Needs{Caps: ci.CapSharedMR | ci.CapModifyMR}).Add("mr.shared.modified",
	"other memory for the source", func(t *validate.T) {
		p := kit.RC(t, kit.Size(8192))
		b := p.B.CA.Buf(p.B.PD, 5000, kit.AllAccess)
		mr := shared(t, p.B.PD, b, 0, kit.AllAccess)
		r := mr.Region()
		other := make([]byte, 5000)
		err := b.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(other)})
		if ci.StatusOf(err) == ci.ResourceBusy { // a driver may reject it, as with a bound window
			p.WantWrite("the source after the rejected MR.Modify", b.Remote(0), b.Bytes)
			p.WantWrite("the shared region after the rejected MR.Modify", r.Remote(0), b.Bytes)
			return
		}
		kit.OK(t, err, "MR.Modify of the memory of a region that has a shared region")
		// A driver that has released the memory uses its addresses for the next one.
		next := p.B.CA.Buf(p.B.PD, 5000, kit.AllAccess)
		kit.Equal(t, "Region of the shared region after MR.Modify of its source", mr.Region(), r)
		p.WantWrite("the memory of the shared region, after its source has other memory", r.Remote(0), b.Bytes)
		p.WantWrite("the new memory of the source", b.MR.Region().Remote(0), other)
		p.WantWrite("a region that was registered afterwards", next.Remote(0), next.Bytes)
		p.WantWrite("the memory of the shared region, after writes to the others", r.Remote(0), b.Bytes)
	}, mrModifyCases.Must("CI-RegisterSMR-04", "IBTA 11.2.8", "ci_register_smr (42), ci_modify_mr (40)",
		"A shared region keeps its memory and its keys when its source gets other memory."))
