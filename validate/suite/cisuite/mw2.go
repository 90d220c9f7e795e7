package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// mw2Cases are the cases of memory windows of type 2. (IBTA 10.6.7.2, 11.4.1.)
var mw2Cases = &validate.Area{Feature: validate.FeatureMW, Needs: validate.Needs{Caps: ci.CapMW2}}

// bind2 returns a request that binds w with that key.
func bind2(w ci.MW, key ci.Key, b *kit.Buf, off, n uint64, a ci.Access) ci.SendWR {
	return ci.SendWR{ID: bindID, Op: ci.OpBindMW, Flags: ci.SendSignaled,
		Ext: &ci.SendExt{Bind: ci.MWBind{MW: w, MR: b.MR, Key: key, Addr: b.Addr + off, Length: n, Access: a}}}
}

// nextKey returns the window's key with its low 8 bits incremented.
func nextKey(w ci.MW) ci.Key { k := w.Key(); return k&^0xff | (k+1)&0xff }

// bound2 binds w over all of b through e's QP and returns its address and key.
func bound2(t *validate.T, e *kit.End, w ci.MW, b *kit.Buf, a ci.Access) ci.Remote {
	key := nextKey(w)
	e.Send(bind2(w, key, b, 0, b.Length, a))
	wc := e.CQ.WaitOK(bindID)[0]
	kit.Equal(t, "WC.Op of a bind", wc.Op, ci.WCBindMW)
	kit.Equal(t, "MW.Key after a bind of type 2", w.Key(), key)
	return ci.Remote{Addr: b.Addr, RKey: key}
}

var ciBindMWTwo01 = mw2Cases.Must("CI-BindMWTwo-01", "IBTA 10.6.7", "OpBindMW",
	"A work request binds a window of type 2 with a key whose low 8 bits the consumer chooses. The window has "+
		"the access rights of the bind for its range.")

var _ = mw2Cases.Add("mw2.bind", "keys, access inside and outside the window", mw2Bind, ciBindMWTwo01)

func mw2Bind(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 1000, ci.LocalWrite|ci.BindWindow)
	for _, low := range kit.Variants(t, "key bits", []ci.Key{1, 0x5a, 0xff}) {
		w := p.B.CA.MW(p.B.PD, ci.MWType2)
		key := w.Key()&^0xff | low
		p.B.Send(bind2(w, key, b, 100, 200, ci.RemoteWrite))
		p.B.CQ.WaitOK(bindID)
		a, err := w.Query()
		kit.OK(t, err, "MW.Query")
		kit.Equal(t, "MWAttr.Key", a.Key, key)
		kit.Equal(t, "MWAttr.Type", a.Type, ci.MWType2)
		to := func(off uint64) ci.Remote { return ci.Remote{Addr: b.Addr + off, RKey: key} }
		p.WantWrite("the window", to(100), b.Bytes[100:300])
		unbindByDestroy(t, p, w, to(100), b.Bytes[100:300])
		// A rejected request moves the QP to Error, and with it a window of type 2 may become invalid. Therefore there
		// is one request for each bind.
		for _, x := range []struct {
			what string
			off  uint64
			bits ci.Key
		}{{"RDMA WRITE of the byte after the window", 300, 0}, {"RDMA WRITE with other low bits of the key", 100, 1}} {
			w = p.B.CA.MW(p.B.PD, ci.MWType2)
			key = w.Key()&^0xff | low
			p.B.Send(bind2(w, key, b, 100, 200, ci.RemoteWrite))
			p.B.CQ.WaitOK(bindID)
			key ^= x.bits
			p.WantDenied(x.what, ci.OpWrite, 1, to(x.off))
			kit.Destroy(t, w, "MW")
		}
	}
}

// unbindByDestroy destroys a window and expects that its key grants no access.
func unbindByDestroy(t *validate.T, p *kit.Pair, w ci.MW, to ci.Remote, at []byte) {
	kit.Destroy(t, w, "MW")
	p.WantUntouched("the destroyed window", to, at)
}

var _ = mw2Cases.Add("mw2.rights", "access rights of the bind, and operations", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	regions := []*kit.Buf{p.B.CA.BufOf(p.B.PD, kit.Pages(64, 64), ci.LocalWrite|ci.BindWindow),
		p.B.CA.BufOf(p.B.PD, kit.Pages(64, 64), allRights(t))}
	for _, x := range kit.Variants(t, "", []struct {
		op    ci.SendOp
		needs ci.Access
	}{{ci.OpRead, ci.RemoteRead}, {ci.OpWrite, ci.RemoteWrite}, {ci.OpFetchAdd, ci.RemoteAtomic}}) {
		if x.op == ci.OpFetchAdd && t.Attr().Atomicity == ci.AtomicNone {
			continue
		}
		for i, a := range kit.Variants(t, "access", []ci.Access{ci.RemoteRead, ci.RemoteWrite, ci.RemoteRead,
			ci.RemoteWrite}) {
			w := p.B.CA.MW(p.B.PD, ci.MWType2)
			to := bound2(t, p.B, w, regions[i/2], a)
			if what := "request through a window with " + rightNames(a); a&x.needs != 0 {
				p.WantReach(what, x.op, 8, to)
			} else {
				p.WantDenied(what, x.op, 8, to)
			}
			kit.Destroy(t, w, "MW")
		}
	}
}, ciBindMWTwo01)

var _ = mw2Cases.Add("mw2.other-qp", "through another QP of the PD", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	q := p.More(false) // with the same PDs
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType2)
	to := bound2(t, p.B, w, b, ci.RemoteRead|ci.RemoteWrite)
	q.WantUntouched("the window through another QP of its PD", to, b.Bytes)
	q.WantDenied("RDMA READ through another QP of the window's PD", ci.OpRead, 8, to)
	p.WantWrite("the window through its QP", to, b.Bytes)
}, mw2Cases.Must("CI-BindMWTwo-02", "IBTA 10.6.7", "OpBindMW",
	"Only the peer of the QP through which a window of type 2 was bound has access to it."))

var ciBindMWTwo04 = mw2Cases.Must("CI-BindMWTwo-04", "IBTA 10.6.7", "OpBindMW",
	"A bind of type 2 of a bound window, of length 0, or to a region that does not permit it fails and changes "+
		"nothing.")

var _ = mw2Cases.Add("mw2.refused", "no bytes, regions that do not permit the bind", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	good, plain := p.B.CA.Buf(p.B.PD, 64, bindable), p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	readOnly := p.B.CA.Buf(p.B.PD, 64, ci.BindWindow)
	foreign := p.B.CA.Buf(p.B.CA.PD(), 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType2)
	before := w.Key()
	type bind struct {
		what string
		wr   ci.SendWR
	}
	list := []bind{
		{"to a nil region", bind2(w, nextKey(w), new(kit.Buf), 0, 64, ci.RemoteRead)},
		{"of length 0", bind2(w, nextKey(w), good, 0, 0, ci.RemoteRead)},
		{"to a region without bind window", bind2(w, nextKey(w), plain, 0, 64, ci.RemoteRead)},
		{"with remote write to a region without local write", bind2(w, nextKey(w), readOnly, 0, 64, ci.RemoteWrite)},
		{"to a region of another PD", bind2(w, nextKey(w), foreign, 0, 64, ci.RemoteRead)},
		{"beyond the end of the region", bind2(w, nextKey(w), good, 1, 64, ci.RemoteRead)},
	}
	if t.Claims().Has(ci.CapFastReg) {
		empty := &kit.Buf{MR: newFast(t, p, 1).MR}
		list = append(list, bind{"to a region for fast registration that has no pages",
			bind2(w, nextKey(w), empty, 0x40000, 64, ci.RemoteRead)})
	}
	for _, x := range kit.Variants(t, "", list) {
		n, err := p.B.PostSend([]ci.SendWR{x.wr})
		if err != nil {
			kit.WantTaken(t, "QP.PostSend of a bind "+x.what, n, err, 0, ci.InvalidParameter, ci.InvalidPermission,
				ci.InvalidRKey, ci.InvalidMRHandle)
		} else {
			p.B.CQ.WaitStatus(bindID, ci.WCBindErr)
			p.Reconnect()
		}
		kit.Equal(t, "MW.Key after the failed bind "+x.what, w.Key(), before)
	}
	for _, b := range []*kit.Buf{good, plain, readOnly, foreign} {
		kit.Destroy(t, b, "MR after failed binds")
	}
}, ciBindMWTwo04)

var _ = mw2Cases.Add("mw2.index", "a key with the index of no window, and of another one", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	other := p.B.CA.MW(p.B.PD, ci.MWType2)
	for i, key := range kit.Variants(t, "key", []ci.Key{0x5a, other.Key(), other.Key() ^ 0x1000_0033}) {
		w := p.B.CA.MW(p.B.PD, ci.MWType2)
		before, want := w.Key(), w.Key()&^0xff|key&0xff
		what := fmt.Sprintf("bind %d, with a key that has another index than the window's", i+1)
		n, err := p.B.PostSend([]ci.SendWR{bind2(w, key, b, 0, 64, ci.RemoteWrite)})
		if err != nil {
			kit.WantTaken(t, "QP.PostSend of "+what, n, err, 0, ci.InvalidParameter, ci.InvalidRKey)
			want = before
		} else if p.B.CQ.WaitStatus(bindID, ci.WCSuccess, ci.WCBindErr).Status == ci.WCBindErr {
			p.Reconnect()
			want = before
		} else {
			p.WantWrite("the window", ci.Remote{Addr: b.Addr, RKey: want}, b.Bytes)
			p.WantDenied("RDMA WRITE with the key of "+what, ci.OpWrite, 8, ci.Remote{Addr: b.Addr, RKey: key})
		}
		kit.Equal(t, "MW.Key after "+what, w.Key(), want)
		kit.Destroy(t, w, "MW")
	}
}, mw2Cases.Must("CI-BindMWTwo-05", "IBTA 10.6.7", "OpBindMW",
	"The upper 24 bits of a window's key never change. A bind of type 2 with other ones ignores them or fails."))

var _ = mw2Cases.Needing(validate.Needs{Caps: ci.CapMW2 | ci.CapZeroBased}).Add("mw2.zero-based",
	"a zero-based window", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 300, bindable)
		for _, x := range kit.Variants(t, "", []struct {
			what string
			addr uint64
		}{{"the byte after the window", 200}, {"the window by its address in the region", b.Addr + 77}}) {
			w := p.B.CA.MW(p.B.PD, ci.MWType2)
			key := nextKey(w)
			p.B.Send(bind2(w, key, b, 77, 200, ci.RemoteRead|ci.RemoteWrite|ci.ZeroBased))
			p.B.CQ.WaitOK(bindID)
			p.WantWrite("the window from address 0", ci.Remote{RKey: key}, b.Bytes[77:277])
			p.WantWrite("the last byte of the window", ci.Remote{Addr: 199, RKey: key}, b.Bytes[276:277])
			p.WantDenied("RDMA READ of "+x.what, ci.OpRead, 1, ci.Remote{Addr: x.addr, RKey: key})
			kit.Destroy(t, w, "MW")
		}
		if t.Claims().Has(ci.CapMW1) {
			bindFails(t, p, "with ZeroBased", ci.MWBind{MW: p.B.CA.MW(p.B.PD, ci.MWType1), MR: b.MR, Addr: b.Addr,
				Length: 64,
				Access: ci.RemoteRead | ci.ZeroBased}, ci.InvalidParameter, ci.InvalidPermission)
		}
	}, mw2Cases.Must("CI-BindMWTwo-06", "IBTA 10.6.7", "OpBindMW; ZeroBased; CapZeroBased",
		"The first byte of a zero-based window has address 0, wherever it begins in its region."))

var _ = mw2Cases.Add("mw2.twice", "bind a bound window", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b, other := p.B.CA.Buf(p.B.PD, 64, bindable), p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType2)
	bound2(t, p.B, w, b, ci.RemoteRead|ci.RemoteWrite)
	p.B.Send(bind2(w, nextKey(w), other, 0, 64, ci.RemoteRead|ci.RemoteWrite))
	p.B.CQ.WaitStatus(bindID, ci.WCBindErr)
	kit.Destroy(t, other, "MR of the failed bind")
}, ciBindMWTwo04)

var _ = mw2Cases.With(validate.Case{Checks: []string{ciDestroyMW02.ID}}).Add("mw2.destroy",
	"destroy a bound window and its region", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 64, bindable)
		w := p.B.CA.MW(p.B.PD, ci.MWType2)
		to := bound2(t, p.B, w, b, ci.RemoteRead|ci.RemoteWrite)
		t.Cleanup(func() { _ = w.Destroy() }) // before the region in any case
		if err := b.Destroy(); ci.StatusOf(err) != ci.ResourceBusy {
			t.Report(validate.Failure{Rule: "CI-DestroyMW-02", Where: "MR.Destroy with a bound window of type 2",
				Expected: ci.ResourceBusy.String(), Got: kit.Describe(err)})
			return
		}
		p.WantWrite("the window after the rejected MR.Destroy", to, b.Bytes)
		unbindByDestroy(t, p, w, to, b.Bytes)
		kit.Destroy(t, b, "MR whose window was destroyed")
	}, ciDestroyMW01, ciDestroyMW02)

var ciBindMWTwo03 = mw2Cases.Must("CI-BindMWTwo-03", "IBTA 10.6.7", "OpBindMW, OpLocalInv",
	"A local invalidate unbinds a window of type 2: its key grants no access, the region can be destroyed, and "+
		"the window can be bound again.")

var _ = mw2Cases.Add("mw2.local-inv", "invalidate, bind again", mw2LocalInv, ciBindMWTwo03)

func mw2LocalInv(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType2)
	for range 3 {
		to := bound2(t, p.B, w, b, ci.RemoteRead|ci.RemoteWrite)
		p.WantWrite("the window", to, b.Bytes)
		p.B.Send(ci.SendWR{ID: 8, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: to.RKey})
		p.B.CQ.WaitOK(8)
		p.WantUntouched("the invalidated window", to, b.Bytes)
	}
	kit.Destroy(t, b, "MR whose window was invalidated")
}

var _ = mw2Cases.Needing(validate.Needs{Caps: ci.CapMW2 | ci.CapSendInvalidate}).Add("mw2.send-inv",
	"the peer invalidates", mw2SendInv, ciSendInv01, ciBindMWTwo03)

func mw2SendInv(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType2)
	to := bound2(t, p.B, w, b, ci.RemoteRead|ci.RemoteWrite)
	p.WantWrite("the window", to, b.Bytes)
	p.B.Recv(p.B.RecvWR(3, 0, 64))
	wr := p.A.SendWR(4, 0, 0)
	wr.Flags |= ci.SendInvalidate
	wr.Inv = to.RKey
	p.A.Send(wr)
	p.A.CQ.WaitOK(4)
	wc := p.B.RecvCQ.WaitOK(3)[0]
	kit.WantRecv(t, "receive of a SEND with invalidate", wc,
		ci.WC{ID: 3, Op: ci.WCRecv, QPN: p.B.Num(), Flags: ci.WCInvalidated, Imm: uint32(to.RKey), Context: p.B.Events})
	p.WantUntouched("the window after the peer has invalidated its key", to, b.Bytes)
	kit.Destroy(t, b, "MR whose window was invalidated")
}

var _ = mw2Cases.Needing(validate.Needs{Caps: ci.CapMW1 | ci.CapMW2}).Add("mw2.by-verb",
	"QP.BindMW of a type 2 window", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 64, bindable)
		w := p.B.CA.MW(p.B.PD, ci.MWType2)
		key := w.Key()
		_, err := p.B.BindMW(1, ci.SendSignaled,
			ci.MWBind{MW: w, MR: b.MR, Key: key, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
		kit.Want(t, err, "QP.BindMW of a type 2 window", ci.InvalidParameter, ci.InvalidMWHandle, ci.InvalidRKey)
		kit.Equal(t, "MW.Key after the rejected bind", w.Key(), key)
		p.B.CQ.Empty()
		kit.Destroy(t, b, "MR after the rejected bind")
	}, ciBindMW10)
