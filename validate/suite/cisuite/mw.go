package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// mwCases are the cases of memory windows of type 1. (IBTA 10.6.7, 11.2.9, 11.4.1.)
var mwCases = &validate.Area{Feature: validate.FeatureMW, Needs: validate.Needs{Caps: ci.CapMW1}}

// bindID is the id of the binds that rebind makes.
const bindID = 0x62696e64

// bindable are all access rights of a region, including the bind right.
const bindable = kit.AllAccess | ci.BindWindow

// allRights returns bindable, with atomics if the adapter has them.
func allRights(t *validate.T) ci.Access {
	if t.Attr().Atomicity == ci.AtomicNone {
		return bindable
	}
	return bindable | ci.RemoteAtomic
}

// bound returns a type 1 window over all of b, bound through e's QP.
func bound(e *kit.End, b *kit.Buf, a ci.Access) ci.MW {
	t := e.QP.CA.T
	w := e.QP.CA.MW(e.PD, ci.MWType1)
	rebind(t, e, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: b.Length, Access: a})
	return w
}

// rebind binds a type 1 window with its current key, waits for the completion and returns the new key.
func rebind(t *validate.T, e *kit.End, w ci.MW, b ci.MWBind) ci.Key {
	b.MW, b.Key = w, w.Key()
	key, err := e.BindMW(bindID, ci.SendSignaled, b)
	kit.OK(t, err, "QP.BindMW")
	wc := e.CQ.WaitOK(bindID)[0]
	kit.Equal(t, "WC.Op of a bind", wc.Op, ci.WCBindMW)
	return key
}

// bindFails expects a bind on B's queue to fail, either in BindMW with one of the statuses or with WCBindErr. The
// window must keep its key.
func bindFails(t *validate.T, p *kit.Pair, what string, b ci.MWBind, at ...ci.Status) {
	before := b.MW.Key()
	b.Key = before
	_, err := p.B.BindMW(bindID, ci.SendSignaled, b)
	if err != nil {
		kit.Want(t, err, "QP.BindMW "+what, at...)
	} else {
		p.B.CQ.WaitStatus(bindID, ci.WCBindErr)
		p.Reconnect()
	}
	kit.Equal(t, "MW.Key after the failed bind "+what, b.MW.Key(), before)
}

// windowTypes returns the window types that the driver claims.
func windowTypes(t *validate.T) []ci.MWType {
	var out []ci.MWType
	if t.Claims().Has(ci.CapMW1) {
		out = append(out, ci.MWType1)
	}
	if t.Claims().Has(ci.CapMW2) {
		out = append(out, ci.MWType2)
	}
	return out
}

var _ = mwCases.Needing(validate.Needs{AnyCaps: ci.CapMW1 | ci.CapMW2}).Add("mw.create",
	"windows of each type, before any bind", mwCreate,
	mwCases.Must("CI-CreateMW-01", "IBTA 11.2.9", "ci_create_mw (51)",
		"The key of a new window grants no access."), ciQueryMW01)

func mwCreate(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for _, typ := range kit.Variants(t, "type", windowTypes(t)) {
		w := p.B.CA.MW(p.B.PD, typ)
		for _, addr := range kit.Variants(t, "address", []uint64{0, p.B.Buf.Addr}) {
			for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpRead, ci.OpWrite}) {
				p.WantDenied(fmt.Sprintf("request with opcode %d and the key of a new window of type %d", op, typ), op,
					8, ci.Remote{Addr: addr, RKey: w.Key()})
			}
		}
	}
}

var _ = mwCases.Needing(validate.Needs{AnyCaps: ci.CapMW1 | ci.CapMW2}).Add("mw.create.type",
	"unknown window types", func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		for _, typ := range kit.Variants(t, "type", []ci.MWType{0, 3, 255}) {
			w, err := pd.CreateMW(ci.MWCreate{Type: typ})
			kit.WantRefused(t, w, err, fmt.Sprintf("PD.CreateMW of type %d", typ), ci.InvalidParameter)
		}
	}, mwCases.Must("CI-CreateMW-02", "IBTA 11.2.9", "ci_create_mw (51)",
		"CreateMW with an unknown window type fails with InvalidParameter."))

var ciDestroyMW01 = mwCases.Must("CI-DestroyMW-01", "IBTA 11.2.9", "ci_destroy_mw (54)",
	"Destroy unbinds a window. Verbs on it fail with InvalidMWHandle from then on.")

var ciQueryMW01 = mwCases.Must("CI-QueryMW-01", "IBTA 11.2.9", "ci_query_mw (52)",
	"Query returns the PD, type and current key of a window.")

var _ = mwCases.Add("mw.query", "key, type and PD of bound and unbound windows", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	want := func(when string) {
		a, err := w.Query()
		kit.OK(t, err, "MW.Query "+when)
		kit.SameObject(t, "MWAttr.PD "+when, a.PD, p.B.PD)
		kit.Equal(t, "MWAttr.Type "+when, a.Type, ci.MWType1)
		kit.Equal(t, "MWAttr.Key "+when, a.Key, w.Key())
	}
	want("unbound")
	key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
	kit.Equal(t, "MW.Key of the bound window", w.Key(), key)
	want("bound")
}, ciQueryMW01, req.SAS2_1_02)

var ciBindMW01 = mwCases.Must("CI-BindMW-01", "IBTA 10.6.7", "ci_bind_mw (53)",
	"Through a bound window a peer has the access rights of the bind for the range of the bind, and no others.")

var _ = mwCases.Add("mw.bind", "access inside and outside a window", mwBind, ciBindMW01, req.SAS2_3_16)

func mwBind(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10))
	b := p.B.CA.Buf(p.B.PD, 10000, ci.LocalWrite|ci.BindWindow) // without remote access rights
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	for _, x := range kit.Variants(t, "",
		[]struct{ off, n uint64 }{{0, 1}, {1, 99}, {4000, 5000}, {9999, 1}, {0, 10000}}) {
		what := fmt.Sprintf("a window of %d bytes at offset %d", x.n, x.off)
		key := rebind(t, p.B, w,
			ci.MWBind{MR: b.MR, Addr: b.Addr + x.off, Length: x.n, Access: ci.RemoteRead | ci.RemoteWrite})
		to := func(off uint64) ci.Remote { return ci.Remote{Addr: b.Addr + off, RKey: key} }
		p.WantWrite(what, to(x.off), b.Bytes[x.off:x.off+x.n])
		clear(p.A.Buf.Bytes)
		p.WantReach("RDMA READ from "+what, ci.OpRead, int(x.n), to(x.off))
		kit.SameBytes(t, "bytes read from "+what, p.A.Buf.Bytes[:x.n], b.Bytes[x.off:x.off+x.n])
		p.WantDenied("RDMA WRITE from the byte before "+what, ci.OpWrite, 1, to(x.off-1))
		p.WantDenied("RDMA WRITE of the byte after "+what, ci.OpWrite, 1, to(x.off+x.n))
		p.WantDenied("RDMA READ of one byte more than "+what, ci.OpRead, int(x.n)+1, to(x.off))
		p.WantDenied("RDMA WRITE to "+what+" with the region's key", ci.OpWrite, 1,
			ci.Remote{Addr: b.Addr + x.off, RKey: b.LKey})
	}
	// The key of a window is not valid in an SGE.
	p.B.Send(ci.SendWR{
		ID:     1,
		Op:     ci.OpWrite,
		Flags:  ci.SendSignaled,
		SGL:    []ci.SGE{{Addr: b.Addr, Length: 8, LKey: w.Key()}},
		Remote: p.A.Buf.Remote(0),
	})
	p.B.CQ.WaitStatus(1, ci.WCLocalProtErr)
}

var _ = mwCases.Add("mw.rights", "access rights of the bind, and operations", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for _, has := range []ci.Access{ci.LocalWrite | ci.BindWindow, allRights(t)} {
		b := p.B.CA.BufOf(p.B.PD, kit.Pages(64, 64), has)
		w := p.B.CA.MW(p.B.PD, ci.MWType1)
		for _, a := range kit.Variants(t, "access", rightsOf(t.Attr())) {
			if a == 0 || a&ci.LocalWrite != 0 {
				continue // windows have only remote access rights
			}
			key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: a})
			probeRights(p, "a window with "+rightNames(a)+" of a region with "+rightNames(has),
				ci.Remote{Addr: b.Addr, RKey: key}, a)
		}
	}
}, ciBindMW01)

var ciBindMW02 = mwCases.Must("CI-BindMW-02", "IBTA 10.6.7", "ci_bind_mw (53)",
	"A bind of type 1 changes the key of the window and returns the new key. The previous key grants no access.")

var _ = mwCases.Add("mw.rebind", "rebind to another range and to another region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	one, two := p.B.CA.Buf(p.B.PD, 64, bindable), p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	old, last := w.Key(), one
	for i, b := range []*kit.Buf{one, two, two, one} {
		key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
		kit.True(t, key != old, fmt.Sprintf("key of bind %d", i+1), "a new key", "%#x, the previous key", uint32(key))
		p.WantWrite("the currently bound region", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
		p.WantUntouched("the currently bound region with the previous key", ci.Remote{Addr: b.Addr, RKey: old}, b.Bytes)
		p.WantUntouched("the previously bound region with the previous key", ci.Remote{Addr: last.Addr, RKey: old},
			last.Bytes)
		if last != b {
			p.WantUntouched("the previously bound region with the new key", ci.Remote{Addr: last.Addr, RKey: key},
				last.Bytes)
		}
		old, last = key, b
	}
	kit.Destroy(t, two, "MR to which the window is no longer bound")
}, ciBindMW02, ciBindMW01)

var _ = mwCases.Add("mw.flushed-key", "binds that are flushed, and one with the same key afterwards", mwFlushedKey,
	ciBindMW02)

func mwFlushedKey(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
	bind := ci.MWBind{MW: w, MR: b.MR, Key: key, Addr: b.Addr, Length: 64, Access: ci.RemoteRead | ci.RemoteWrite}
	for _, n := range kit.Variants(t, "flushed binds", []int{1, 300}) { // a key has 256 variants
		kit.OK(t, p.B.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}), "QP.Modify to Error")
		for range n {
			got, err := p.B.BindMW(bindID, ci.SendSignaled, bind)
			kit.OK(t, err, "QP.BindMW in Error with the key of the last bind that was executed")
			kit.True(t, got != key, "key of a bind that is flushed", "another one", "the key before, %#x", uint32(key))
			p.B.CQ.WaitFlushed(bindID)
		}
		p.Reconnect()
		got, err := p.B.BindMW(bindID, ci.SendSignaled, bind)
		kit.OK(t, err, "QP.BindMW with the key of the last bind that was executed")
		kit.True(t, got != key, "key of the bind", "another one", "the key before, %#x", uint32(key))
		p.B.CQ.WaitOK(bindID)
		p.WantWrite("the window", ci.Remote{Addr: b.Addr, RKey: got}, b.Bytes)
		key, bind.Key = got, got
	}
	for _, what := range kit.Variants(t, "the QP", []string{"remains in Error", "was destroyed"}) {
		q := p.More(false)
		kit.OK(t, q.B.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}), "QP.Modify to Error")
		_, err := q.B.BindMW(bindID, ci.SendSignaled, bind)
		kit.OK(t, err, "QP.BindMW of a QP in Error")
		q.B.CQ.WaitFlushed(bindID)
		if what == "was destroyed" {
			kit.Destroy(t, q.B.QP.QP, "QP in Error")
		}
		got, err := p.B.BindMW(bindID, ci.SendSignaled, bind)
		kit.OK(t, err, "QP.BindMW with the key of the last bind that was executed, after one of another QP was flushed")
		p.B.CQ.WaitOK(bindID)
		p.WantWrite("the window", ci.Remote{Addr: b.Addr, RKey: got}, b.Bytes)
		bind.Key = got
	}
}

var _ = mwCases.Add("mw.unbind", "a bind of length 0", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := bound(p.B, b, ci.RemoteRead|ci.RemoteWrite)
	key := w.Key()
	p.WantWrite("the window", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
	unbound := rebind(t, p.B, w, ci.MWBind{})
	kit.Equal(t, "MW.Key after the unbind", w.Key(), unbound)
	p.WantUntouched("the unbound window", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
	p.WantUntouched("the unbound window with the new key", ci.Remote{Addr: b.Addr, RKey: unbound}, b.Bytes)
	kit.Destroy(t, b, "MR whose window was unbound")
	rebind(t, p.B, w, ci.MWBind{}) // an unbind of an unbound window changes nothing
}, mwCases.Must("CI-BindMW-03", "IBTA 10.6.7", "ci_bind_mw (53)",
	"A bind of length 0 unbinds the window: its keys grant no access, and the region can be destroyed."))

var _ = mwCases.Add("mw.wrong-key", "a bind with a key that is not current", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	first := w.Key()
	key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
	for _, x := range kit.Variants(t, "", []struct {
		what string
		key  ci.Key
	}{{"the previous key", first}, {"an unknown key", key ^ 1<<16}, {"the region's key", b.RKey}}) {
		_, err := p.B.BindMW(bindID, ci.SendSignaled,
			ci.MWBind{MW: w, MR: b.MR, Key: x.key, Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
		kit.WantExactly(t, err, "QP.BindMW with "+x.what, ci.InvalidRKey)
		kit.Equal(t, "MW.Key after the rejected bind", w.Key(), key)
		p.WantWrite("the window after the rejected bind", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
	}
	p.B.CQ.Empty()
}, mwCases.Must("CI-BindMW-04", "IBTA 11.4.1", "ci_bind_mw (53)",
	"A bind with a key other than the current one fails with InvalidRKey."))

var ciBindMW05 = mwCases.Must("CI-BindMW-05", "IBTA 10.6.7", "ci_bind_mw (53)",
	"A bind to a region without the bind right, with more access rights than the region, or beyond its range "+
		"fails, either in BindMW or with WCBindErr.")

var _ = mwCases.Add("mw.region-rights", "binds to regions that do not permit them", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	for _, x := range kit.Variants(t, "", []struct {
		region, window ci.Access
	}{
		{kit.AllAccess, ci.RemoteRead},
		{ci.LocalWrite, ci.RemoteWrite},
		{ci.BindWindow, ci.RemoteWrite},
		{ci.BindWindow | ci.RemoteRead, ci.RemoteRead | ci.RemoteWrite},
		{ci.BindWindow, ci.RemoteAtomic},
	}) {
		if x.window&ci.RemoteAtomic != 0 && t.Attr().Atomicity == ci.AtomicNone {
			continue
		}
		b := p.B.CA.Buf(p.B.PD, 64, x.region)
		what := fmt.Sprintf("with %s to a region with %s", rightNames(x.window), rightNames(x.region))
		bindFails(t, p, what, ci.MWBind{MW: w, MR: b.MR, Addr: b.Addr, Length: 64, Access: x.window},
			ci.InvalidPermission)
		kit.Destroy(t, b, "MR after the failed bind "+what)
	}
	// These binds are permitted: any remote right with local write, and remote read without it.
	b := p.B.CA.Buf(p.B.PD, 64, ci.BindWindow)
	key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
	p.WantReach("RDMA READ through a window over a region with only the bind right", ci.OpRead, 64,
		ci.Remote{Addr: b.Addr, RKey: key})
	kit.Destroy(t, w, "MW")
}, ciBindMW05)

var _ = mwCases.Add("mw.range", "a bind beyond the region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	for _, x := range kit.Variants(t, "", []struct {
		what    string
		addr, n uint64
	}{
		{"of one byte more than the region", b.Addr, 65},
		{"from the byte before the region", b.Addr - 1, 64},
		{"after the region", b.Addr + 64, 1},
		{"with a length that wraps around", b.Addr + 1, ^uint64(0)},
	}) {
		bindFails(t, p, x.what, ci.MWBind{MW: w, MR: b.MR, Addr: x.addr, Length: x.n, Access: ci.RemoteRead},
			ci.InvalidParameter, ci.InvalidPermission)
	}
	kit.Destroy(t, b, "MR after failed binds")
}, ciBindMW05)

var _ = mwCases.Add("mw.pd", "a window or region of another PD", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	pd := p.B.CA.PD()
	own, foreign := p.B.CA.Buf(p.B.PD, 64, bindable), p.B.CA.Buf(pd, 64, bindable)
	w, foreignW := p.B.CA.MW(p.B.PD, ci.MWType1), p.B.CA.MW(pd, ci.MWType1)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		w    ci.MW
		b    *kit.Buf
	}{{"of a window of another PD", foreignW, own}, {"to a region of another PD", w, foreign},
		{"of a window and to a region of another PD", foreignW, foreign}}) {
		bindFails(t, p, x.what, ci.MWBind{MW: x.w, MR: x.b.MR, Addr: x.b.Addr, Length: 64, Access: ci.RemoteRead},
			ci.InvalidPermission, ci.InvalidParameter)
	}
	// A peer that uses a QP of another PD has no access, either.
	q := elsewhere(p)
	key := rebind(t, p.B, w, ci.MWBind{MR: own.MR, Addr: own.Addr, Length: 64, Access: ci.RemoteWrite})
	p.WantWrite("the window through its own PD", ci.Remote{Addr: own.Addr, RKey: key}, own.Bytes)
	q.WantUntouched("the window through another PD", ci.Remote{Addr: own.Addr, RKey: key}, own.Bytes)
}, mwCases.Must("CI-BindMW-07", "IBTA 10.6.7", "ci_bind_mw (53)",
	"A bind of a window of a PD other than the QP's, or to a region of one, fails, either in BindMW or with "+
		"WCBindErr."), req.SAS2_3_07)

var ciBindMW08 = mwCases.Must("CI-BindMW-08", "IBTA 11.4.1", "ci_bind_mw (53)",
	"A bind uses an entry of the send queue. It is signaled as requested and completes in order, and on a full "+
		"queue it fails with InsufficientResources.")

var _ = mwCases.Add("mw.order", "a message directly after a bind", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	for range 20 {
		// A message after the bind informs the peer. When it has arrived, the bind has been executed.
		p.A.Recv(p.A.RecvWR(1, 1024, 64))
		key, err := p.B.BindMW(1, ci.SendSignaled,
			ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
		kit.OK(t, err, "QP.BindMW")
		p.B.Send(p.B.SendWR(2, 0, 8))
		p.A.RecvCQ.WaitOK(1)
		p.WantWrite("the window after the arrival of a message sent after its bind", ci.Remote{Addr: b.Addr, RKey: key},
			b.Bytes)
		p.B.CQ.WaitOK(1, 2)
	}
}, ciBindMW08)

var _ = mwCases.Add("mw.signal", "unsignaled binds", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	for i := range uint64(3) {
		_, err := p.B.BindMW(10+i, 0,
			ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
		kit.OK(t, err, "unsignaled QP.BindMW")
	}
	p.A.Recv(p.A.RecvWR(1, 0, 8))
	p.B.Send(p.B.SendWR(2, 0, 8))
	p.B.CQ.WaitOK(2)
	p.A.RecvCQ.WaitOK(1)
	p.WantWrite("the window after three consecutive binds", ci.Remote{Addr: b.Addr, RKey: w.Key()}, b.Bytes)
	p.B.CQ.Empty()
}, ciBindMW08)

var _ = mwCases.Add("mw.full", "a bind on a full queue", func(t *validate.T) {
	p := unanswering(t, kit.Depth(2))
	a, err := p.A.Query()
	kit.OK(t, err, "QP.Query")
	b := p.A.CA.Buf(p.A.PD, 64, bindable)
	w := p.A.CA.MW(p.A.PD, ci.MWType1)
	p.A.Send(p.A.SendWRs(a.SendDepth)...) // the peer does not answer
	before := w.Key()
	_, err = p.A.BindMW(1, ci.SendSignaled,
		ci.MWBind{MW: w, MR: b.MR, Key: before, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
	kit.WantExactly(t, err, "QP.BindMW on a full queue", ci.InsufficientResources)
	kit.Equal(t, "MW.Key after the rejected bind", w.Key(), before)
	kit.Destroy(t, b, "MR after the rejected bind")
}, ciBindMW08)

var _ = mwCases.Add("mw.gone", "a bind with destroyed objects", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b, oldB := p.B.CA.Buf(p.B.PD, 64, bindable), p.B.CA.Buf(p.B.PD, 64, bindable)
	w, oldW := p.B.CA.MW(p.B.PD, ci.MWType1), p.B.CA.MW(p.B.PD, ci.MWType1)
	kit.Destroy(t, oldB, "MR")
	kit.Destroy(t, oldW, "MW")
	for _, x := range kit.Variants(t, "", []struct {
		what string
		w    ci.MW
		mr   ci.MR
		want ci.Status
	}{
		{"of a destroyed window", oldW, b.MR, ci.InvalidMWHandle},
		{"of a nil window", nil, b.MR, ci.InvalidMWHandle},
		{"to a destroyed region", w, oldB.MR, ci.InvalidMRHandle},
		{"to a nil region", w, nil, ci.InvalidMRHandle},
	}) {
		bind := ci.MWBind{MW: x.w, MR: x.mr, Addr: b.Addr, Length: 64, Access: ci.RemoteRead}
		if x.w != nil {
			bind.Key = x.w.Key()
		}
		_, err := p.B.BindMW(bindID, ci.SendSignaled, bind)
		kit.WantExactly(t, err, "QP.BindMW "+x.what, x.want)
	}
	p.B.CQ.Empty()
}, mwCases.Must("CI-BindMW-09", "IBTA 11.4.1", "ci_bind_mw (53)",
	"A bind of a destroyed window fails with InvalidMWHandle, and to a destroyed region with InvalidMRHandle."))

var ciBindMW10 = mwCases.Must("CI-BindMW-10", "IBTA 11.4.1", "ci_bind_mw (53); OpBindMW",
	"Each type of window has its own way to bind: OpBindMW rejects windows of type 1, and QP.BindMW rejects "+
		"those of type 2.")

var _ = mwCases.Add("mw.type1-by-post", "OpBindMW of a type 1 window", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := bound(p.B, b, ci.RemoteRead|ci.RemoteWrite)
	key := w.Key()
	for _, k := range kit.Variants(t, "key", []ci.Key{key, key&^0xff | (key+1)&0xff}) {
		ext := ci.SendExt{Bind: ci.MWBind{
			MW:     w,
			MR:     b.MR,
			Key:    k,
			Addr:   b.Addr,
			Length: 32,
			Access: ci.RemoteRead | ci.RemoteWrite,
		}}
		n, err := p.B.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpBindMW, Flags: ci.SendSignaled, Ext: &ext}})
		kit.Equal(t, "requests accepted by QP.PostSend of OpBindMW with a type 1 window", n, 0)
		kit.Want(t, err, "QP.PostSend of OpBindMW with a type 1 window", ci.InvalidParameter, ci.InvalidWRType,
			ci.Unsupported)
		kit.Equal(t, "MW.Key after the rejected request", w.Key(), key)
		p.WantWrite("the window after the rejected request", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
	}
	p.B.CQ.Empty()
}, ciBindMW10)

var _ = mwCases.Add("mw.destroy", "destroy a bound window", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := bound(p.B, b, ci.RemoteRead|ci.RemoteWrite)
	to := ci.Remote{Addr: b.Addr, RKey: w.Key()}
	p.WantWrite("the window", to, b.Bytes)
	kit.DestroyTwice(t, w, "MW", ci.InvalidMWHandle)
	p.WantUntouched("the destroyed window", to, b.Bytes)
	p.WantDenied("RDMA READ through the destroyed window", ci.OpRead, 8, to)
	kit.Destroy(t, b, "MR whose window was destroyed")
}, ciDestroyMW01)

var ciDestroyMW02 = mwCases.Must("CI-DestroyMW-02", "IBTA 10.6.7", "ci_destroy_mw (54)",
	"Destroy of a region with a bound window fails with ResourceBusy, and the region still works.")

var _ = mwCases.Add("mw.region-busy", "destroy a region with a bound window", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	one, two := bound(p.B, b, ci.RemoteWrite), bound(p.B, b, ci.RemoteRead|ci.RemoteWrite)
	for i, w := range []ci.MW{one, two} {
		kit.WantExactly(t, b.Destroy(), fmt.Sprintf("MR.Destroy with %d bound windows", 2-i), ci.ResourceBusy)
		p.WantWrite("the region after the rejected MR.Destroy", b.Remote(0), b.Bytes)
		p.WantWrite("a window after the rejected MR.Destroy", ci.Remote{Addr: b.Addr, RKey: w.Key()}, b.Bytes)
		if i == 0 {
			kit.Destroy(t, w, "MW")
		} else {
			rebind(t, p.B, w, ci.MWBind{})
		}
	}
	kit.Destroy(t, b, "MR without a bound window")
}, ciDestroyMW02, req.SAS2_3_26)

var ciBindMW06 = mwCases.Must("CI-BindMW-06", "IBTA 11.4.1", "ci_bind_mw (53)",
	"BindMW on a QP other than RC or UC fails with InvalidServiceType.")

var _ = mwCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapMW1}).Add("mw.service",
	"a bind on a UD QP", func(t *validate.T) {
		p := kit.UD(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 64, bindable)
		w := p.B.CA.MW(p.B.PD, ci.MWType1)
		bind := ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64, Access: ci.RemoteRead}
		_, err := p.B.BindMW(1, ci.SendSignaled, bind)
		kit.WantExactly(t, err, "QP.BindMW on a UD QP", ci.InvalidServiceType)
		if t.Claims().Has(ci.CapSpecialQP) {
			caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
			qp, err := p.B.PD.CreateSpecialQP(p.B.CA.Port.Num,
				ci.QPCreate{Type: ci.QP1, QPCaps: caps, SendCQ: p.B.CQ.CQ, RecvCQ: p.B.RecvCQ.CQ})
			kit.OK(t, err, "PD.CreateSpecialQP")
			kit.Own(t, qp, "QP1")
			_, err = qp.BindMW(1, ci.SendSignaled, bind)
			kit.WantExactly(t, err, "QP.BindMW on QP1", ci.InvalidServiceType)
		}
		p.B.CQ.Empty()
	}, ciBindMW06)

var _ = mwCases.Needing(validate.Needs{Caps: ci.CapUC | ci.CapMW1}).Add("mw.uc",
	"a bind on a UC QP", func(t *validate.T) {
		p := kit.UC(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.PD, 64, bindable)
		w := p.B.CA.MW(p.B.PD, ci.MWType1)
		key := rebind(t, p.B, w, ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteWrite})
		src := kit.Random(t, p.A.Buf.Bytes[:64])
		p.A.Send(ci.SendWR{
			ID:     1,
			Op:     ci.OpWrite,
			Flags:  ci.SendSignaled,
			SGL:    p.A.Buf.SGL(0, 64),
			Remote: ci.Remote{Addr: b.Addr, RKey: key},
		})
		p.A.CQ.WaitOK(1)
		p.A.Exchange(p.B, 8) // sent after the write
		kit.SameBytes(t, "memory written through a window over UC", b.Bytes, src)
	}, ciBindMW06)

var _ = mwCases.Needing(validate.Needs{Caps: ci.CapMW1 | ci.CapFastReg}).Add("mw.fast-behind",
	"a bind behind the fast registration of its region in the same queue", mwFastBehind, ciFastReg03)

// mwFastBehind posts both while the send queue executes nothing, so that the region has no rights when the bind is
// posted.
func mwFastBehind(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	p.B.To(ci.QPSQD)
	p.B.Becomes(ci.QPSQD)
	p.B.Send(s.wr(1, bindable))
	key, err := p.B.BindMW(2, ci.SendSignaled, ci.MWBind{MW: w, MR: s.MR, Key: w.Key(), Addr: 0x40000 + 100, Length: 64,
		Access: ci.RemoteWrite})
	kit.OK(t, err, "QP.BindMW behind the fast registration of its region")
	p.B.CQ.Empty()
	p.B.To(ci.QPRTS)
	p.B.CQ.WaitOK(1)
	if p.B.CQ.WaitStatus(2, ci.WCSuccess, ci.WCBindErr).Status != ci.WCSuccess {
		t.Note("the adapter binds no window to a fast registration")
		return
	}
	p.WantWrite("the window", ci.Remote{Addr: 0x40000 + 100, RKey: key}, s.mem[100:164])
	p.WantDenied("a WRITE before the window", ci.OpWrite, 8, ci.Remote{Addr: 0x40000 + 96, RKey: key})
}

// The case names the key of a window as an L_Key. A window is for remote access only.
var _ = mwCases.Add("mw.local-key", "the key of a window in segments of sends and receives", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	key := rebind(t, p.B, p.B.CA.MW(p.B.PD, ci.MWType1),
		ci.MWBind{MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteRead | ci.RemoteWrite})
	at := ci.Remote{Addr: b.Addr, RKey: key}
	p.WantReach("a READ through the window", ci.OpRead, 64, at)
	b.Blank()
	sgl := []ci.SGE{{Addr: b.Addr, Length: 64, LKey: key}}
	bad := []ci.WCStatus{ci.WCLocalProtErr}
	for _, x := range []ci.SendWR{
		{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: sgl},
		{ID: 2, Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: sgl, Remote: p.A.Buf.Remote(0)},
		{ID: 2, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: sgl, Remote: p.A.Buf.Remote(0)},
	} {
		q := p.More(false)
		q.A.Recv(q.A.RecvWR(1, 0, 64))
		q.B.Send(x)
		q.B.CQ.WaitStatus(2, bad...)
		q.B.Becomes(ci.QPError)
	}
	q := p.More(false)
	q.B.Recv(ci.RecvWR{ID: 3, SGL: sgl})
	q.A.Send(q.A.SendWR(2, 0, 8))
	q.A.CQ.WaitStatus(2, ci.WCRemOpErr)
	q.B.RecvCQ.WaitStatus(3, bad...)
	b.WantOnly(t, "memory of a window whose key is in segments", 0, nil)
}, ciBindMW01)
