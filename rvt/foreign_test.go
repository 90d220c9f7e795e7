package rvt

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// An objectSet has an object of each kind that some verb takes.
type objectSet struct {
	pd  ci.PD
	av  ci.AV
	cq  ci.CQ
	srq ci.SRQ
	mr  ci.MR
	fr  ci.MR // for fast registration
	fmr ci.FMR
	mw1 ci.MW
	mw2 ci.MW
}

func newObjects(t *testing.T, ca ci.CA, lid ci.LID) *objectSet {
	o := &objectSet{}
	var errs [9]error
	o.pd, errs[0] = ca.AllocatePD(ci.PDNormal)
	require.NoError(t, errs[0])
	o.av, errs[1] = o.pd.CreateAV(ci.AVAttr{Port: 1, DLID: lid})
	o.cq, errs[2] = o.pd.CreateCQ(ci.CQCreate{Size: 16})
	o.srq, errs[3] = o.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	o.mr, errs[4] = o.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8192)),
		Access: allRemote | ci.BindWindow})
	o.fr, errs[5] = o.pd.AllocFastRegMR(4)
	o.fmr, errs[6] = o.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
	o.mw1, errs[7] = o.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	o.mw2, errs[8] = o.pd.CreateMW(ci.MWCreate{Type: ci.MWType2})
	for _, err := range errs {
		require.NoError(t, err)
	}
	return o
}

func (o *objectSet) destroy(t *testing.T) {
	for _, x := range []ci.Object{o.mw1, o.mw2, o.fmr, o.fr, o.mr, o.srq, o.cq, o.av, o.pd} {
		require.NoError(t, x.Destroy())
	}
}

// An objectArg is a place in the arguments of a verb that takes an object.
type objectArg struct {
	verb, path string
	// pick returns the object of a set that fits.
	pick func(o *objectSet) ci.Object
	// zero is the nil pointer of the engine's type.
	zero ci.Object
	// call calls the verb with valid arguments except for one object.
	call func(x *argRig, o ci.Object) error
	// want is the status for an object of another HCA, a nil one and a destroyed one. dead, if not 0, is that for a
	// destroyed one.
	want ci.Status
	// otherPD is the status for an object of another PD of the same CA. It is Success where IBTA permits it.
	otherPD ci.Status
	// atWork reports that a destroyed object or one of another PD is detected when the request is executed, which then
	// completes with this status.
	atWork ci.WCStatus
}

// An argRig has the objects of one PD, a connected QP and a datagram QP.
type argRig struct {
	*side
	own *objectSet
	rc  ci.QP
	ud  ci.QP
}

func objectOf[T ci.Object](o ci.Object) (t T) {
	t, _ = o.(T) // nil stays nil
	return t
}

func objectArgs() []objectArg {
	cq := func(o *objectSet) ci.Object { return o.cq }
	mr := func(o *objectSet) ci.Object { return o.mr }
	destroyed := func(o ci.Object, err error) error {
		if err == nil {
			err = o.Destroy()
		}
		return err
	}
	qp := func(x *argRig, f func(c *ci.QPCreate)) error {
		c := ci.QPCreate{SendCQ: x.own.cq, RecvCQ: x.own.cq}
		f(&c)
		return destroyed(x.own.pd.CreateQP(c))
	}
	special := func(x *argRig, f func(c *ci.QPCreate)) error {
		c := ci.QPCreate{Type: ci.QP1, SendCQ: x.own.cq, RecvCQ: x.own.cq}
		f(&c)
		return destroyed(x.own.pd.CreateSpecialQP(1, c))
	}
	post := func(q ci.QP, w ci.SendWR) error {
		w.Flags |= ci.SendSignaled
		_, err := q.PostSend([]ci.SendWR{w})
		return err
	}
	bind := func(x *argRig, w ci.MW, m ci.MR) error {
		return post(x.rc,
			ci.SendWR{Op: ci.OpBindMW,
				Ext: &ci.SendExt{Bind: ci.MWBind{MW: w, MR: m, Addr: x.own.mr.Region().Addr, Length: 8,
					Access: ci.RemoteRead, Key: x.own.mw2.Key() ^ 1}}})
	}
	return []objectArg{
		{verb: "PD.CreateQP", path: "SendCQ", pick: cq, zero: (*CQ)(nil), want: ci.InvalidCQHandle,
			call: func(x *argRig, o ci.Object) error {
				return qp(x, func(c *ci.QPCreate) { c.SendCQ = objectOf[ci.CQ](o) })
			}},
		{verb: "PD.CreateQP", path: "RecvCQ", pick: cq, zero: (*CQ)(nil), want: ci.InvalidCQHandle,
			call: func(x *argRig, o ci.Object) error {
				return qp(x, func(c *ci.QPCreate) { c.RecvCQ = objectOf[ci.CQ](o) })
			}},
		{verb: "PD.CreateQP", path: "SRQ", pick: func(o *objectSet) ci.Object { return o.srq }, zero: (*SRQ)(nil),
			want: ci.InvalidSRQHandle,
			call: func(x *argRig, o ci.Object) error {
				return qp(x, func(c *ci.QPCreate) {
					if c.SRQ = objectOf[ci.SRQ](o); c.SRQ == nil {
						c.SRQ = (*SRQ)(nil) // nil means none
					}
				})
			}},
		{verb: "PD.CreateSpecialQP", path: "SendCQ", pick: cq, zero: (*CQ)(nil), want: ci.InvalidCQHandle,
			call: func(x *argRig, o ci.Object) error {
				return special(x, func(c *ci.QPCreate) { c.SendCQ = objectOf[ci.CQ](o) })
			}},
		{verb: "PD.CreateSpecialQP", path: "RecvCQ", pick: cq, zero: (*CQ)(nil), want: ci.InvalidCQHandle,
			call: func(x *argRig, o ci.Object) error {
				return special(x, func(c *ci.QPCreate) { c.RecvCQ = objectOf[ci.CQ](o) })
			}},
		{verb: "PD.CreateSpecialQP", path: "SRQ", pick: func(o *objectSet) ci.Object { return o.srq },
			zero: (*SRQ)(nil), want: ci.InvalidSRQHandle,
			call: func(x *argRig, o ci.Object) error {
				return special(x, func(c *ci.QPCreate) {
					if c.SRQ = objectOf[ci.SRQ](o); c.SRQ == nil {
						c.SRQ = (*SRQ)(nil)
					}
				})
			}},
		{verb: "PD.RegisterSMR", pick: mr, zero: (*MR)(nil), want: ci.InvalidMRHandle,
			call: func(x *argRig, o ci.Object) error {
				return destroyed(x.own.pd.RegisterSMR(objectOf[ci.MR](o), 0, 0))
			}},
		{verb: "PD.UnmapFMRs", pick: func(o *objectSet) ci.Object { return o.fmr }, zero: (*FMR)(nil),
			want:    ci.InvalidFMRHandle,
			otherPD: ci.InvalidFMRHandle,
			call: func(x *argRig, o ci.Object) error {
				return x.own.pd.UnmapFMRs([]ci.FMR{x.own.fmr, objectOf[ci.FMR](o)})
			}},
		{verb: "MR.Modify", pick: func(o *objectSet) ci.Object { return o.pd }, zero: (*PD)(nil),
			want: ci.InvalidPDHandle,
			call: func(x *argRig, o ci.Object) error {
				if err := x.own.mr.Modify(ci.MRFieldPD, objectOf[ci.PD](o), ci.MRCreate{}); err != nil {
					return err
				}
				return x.own.mr.Modify(ci.MRFieldPD, x.own.pd, ci.MRCreate{})
			}},
		{verb: "MR.ModifyPMR", pick: func(o *objectSet) ci.Object { return o.pd }, zero: (*PD)(nil),
			want: ci.InvalidPDHandle,
			call: func(x *argRig, o ci.Object) error {
				if err := x.own.mr.ModifyPMR(ci.MRFieldPD, objectOf[ci.PD](o), ci.PMRCreate{}); err != nil {
					return err
				}
				return x.own.mr.ModifyPMR(ci.MRFieldPD, x.own.pd, ci.PMRCreate{})
			}},
		{verb: "QP.BindMW", path: "MW", pick: func(o *objectSet) ci.Object { return o.mw1 }, zero: (*MW)(nil),
			want:    ci.InvalidMWHandle,
			otherPD: ci.InvalidPermission, call: func(x *argRig, o ci.Object) error {
				b := ci.MWBind{MW: objectOf[ci.MW](o), Key: x.own.mw1.Key()}
				_, err := x.rc.BindMW(1, ci.SendSignaled, b)
				return err
			}},
		{verb: "QP.BindMW", path: "MR", pick: mr, zero: (*MR)(nil), want: ci.InvalidMRHandle,
			otherPD: ci.InvalidPermission,
			call: func(x *argRig, o ci.Object) error {
				b := ci.MWBind{MW: x.own.mw1, MR: objectOf[ci.MR](o), Key: x.own.mw1.Key(),
					Addr: x.own.mr.Region().Addr, Length: 8}
				_, err := x.rc.BindMW(1, ci.SendSignaled, b)
				if err != nil {
					return err
				}
				_, err = x.rc.BindMW(2, ci.SendSignaled, ci.MWBind{MW: x.own.mw1, Key: x.own.mw1.Key()})
				return err
			}},
		{verb: "QP.PostSend", path: "To.AV", pick: func(o *objectSet) ci.Object { return o.av }, zero: (*AV)(nil),
			want:    ci.InvalidAVHandle,
			otherPD: ci.InvalidAVHandle, call: func(x *argRig, o ci.Object) error {
				return post(x.ud, ci.SendWR{To: ci.Dest{AV: objectOf[ci.AV](o), QPN: 5}})
			}},
		{verb: "QP.PostSend", path: "Ext.Bind.MW", pick: func(o *objectSet) ci.Object { return o.mw2 },
			zero: (*MW)(nil), want: ci.InvalidParameter,
			atWork: ci.WCBindErr, call: func(x *argRig, o ci.Object) error {
				err := bind(x, objectOf[ci.MW](o), x.own.mr)
				if err == nil {
					_ = post(x.rc, ci.SendWR{Op: ci.OpLocalInv, Inv: x.own.mw2.Key()})
				}
				return err
			}},
		{verb: "QP.PostSend", path: "Ext.Bind.MR", pick: mr, zero: (*MR)(nil), want: ci.InvalidParameter,
			atWork: ci.WCBindErr,
			call: func(x *argRig, o ci.Object) error {
				err := bind(x, x.own.mw2, objectOf[ci.MR](o))
				if err == nil {
					_ = post(x.rc, ci.SendWR{Op: ci.OpLocalInv, Inv: x.own.mw2.Key()})
				}
				return err
			}},
		{verb: "QP.PostSend", path: "Ext.FastReg.MR", pick: func(o *objectSet) ci.Object { return o.fr },
			zero: (*MR)(nil), want: ci.InvalidParameter,
			atWork: ci.WCBindErr, call: func(x *argRig, o ci.Object) error {
				m := objectOf[ci.MR](o)
				f := ci.FastReg{MR: m, PageShift: 12, Length: 1, Key: x.own.fr.Region().LKey}
				d, err := x.ca.MapDMA(ci.Bytes(make([]byte, 4096)))
				require.NoError(x.t, err)
				f.Pages = []uint64{d.Ranges()[0].Addr}
				err = post(x.rc, ci.SendWR{Op: ci.OpFastReg, Ext: &ci.SendExt{FastReg: f}})
				if err == nil {
					_ = post(x.rc, ci.SendWR{Op: ci.OpLocalInv, Inv: f.Key})
				}
				require.NoError(x.t, d.Destroy())
				return err
			}},
		{verb: "CA.VendorCall", pick: mr, zero: (*MR)(nil), want: ci.InvalidHandle,
			call: func(x *argRig, o ci.Object) error { return x.ca.VendorCall(&ci.VendorOp{}, o) }},
	}
}

// TestForeignObjects passes to every verb that takes objects one of another HCA, a nil one, a destroyed one, one of
// another driver and one of another PD. Only the right object is accepted, and the verb works afterwards.
func TestForeignObjects(t *testing.T) {
	for _, a := range objectArgs() {
		t.Run(strings.TrimSuffix(a.verb+" "+a.path, " "), func(t *testing.T) {
			x := newArgRig(t)
			y := newSide(t, &wireLink{mtu: ci.MTU4096}, 0xb, nil, ci.RC, nil)
			other, near, dead := newObjects(t, y.ca, y.lid), newObjects(t, x.ca, x.lid), newObjects(t, x.ca, x.lid)
			defer other.destroy(t)
			defer near.destroy(t)
			dead.destroy(t)

			require.NoError(t, a.call(x, a.pick(x.own)))
			x.requireWC(ci.WCSuccess)
			require.Equal(t, a.want, ci.StatusOf(a.call(x, a.pick(other))), "of another HCA")
			require.Equal(t, a.want, ci.StatusOf(a.call(x, nil)), "nil")
			require.Equal(t, a.want, ci.StatusOf(a.call(x, a.zero)), "a nil pointer")
			require.Equal(t, a.want, ci.StatusOf(a.call(x, alien(a.zero))), "of another driver")
			require.NoError(t, a.call(x, a.pick(x.own)), "nothing has changed")
			x.requireWC(ci.WCSuccess)
			if a.atWork == 0 {
				require.Equal(t, a.want, ci.StatusOf(a.call(x, a.pick(dead))), "destroyed")
				err := a.call(x, a.pick(near))
				require.Equal(t, a.otherPD, ci.StatusOf(err), "of another PD")
				if err == nil {
					x.requireWC(ci.WCSuccess)
				}
				return
			}
			for name, o := range map[string]*objectSet{"destroyed": dead, "of another PD": near} {
				if err := a.call(x, a.pick(o)); err != nil {
					require.Equal(t, a.want, ci.StatusOf(err), name)
					continue
				}
				x.requireWC(a.atWork)
				x.connectAgain()
			}
		})
	}
}

func newArgRig(t *testing.T) *argRig {
	l := &wireLink{mtu: ci.MTU4096}
	x := &argRig{side: newSideWith(t, l, 0xa, func(c *Config) {
		c.Attr.Caps |= ci.CapVendorCall
		c.Ops.VendorCall = func(*ci.VendorOp, []ci.Object) error { return nil }
	})}
	x.own = newObjects(t, x.ca, x.lid)
	t.Cleanup(func() { x.own.destroy(t) })
	var err error
	for i, typ := range []ci.QPType{ci.RC, ci.UD} {
		q := []*ci.QP{&x.rc, &x.ud}[i]
		*q, err = x.own.pd.CreateQP(ci.QPCreate{Type: typ, SendCQ: x.cq, RecvCQ: x.cq,
			QPCaps: ci.QPCaps{SendDepth: 8, SendSGE: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, (*q).Destroy()) })
		s := *x.side
		s.qp = *q
		s.toRTS(s.attrTo(s.qp.Num(), s.lid))
	}
	return x
}

// connectAgain moves the RC QP from Error back to RTS.
func (x *argRig) connectAgain() {
	s := *x.side
	s.qp = x.rc
	s.toState(ci.QPReset)
	s.toRTS(s.attrTo(s.qp.Num(), s.lid))
}

// requireWC polls the completions: all are successes, or the first has the status.
func (x *argRig) requireWC(st ci.WCStatus) {
	x.t.Helper()
	wcs := x.poll()
	if st != ci.WCSuccess {
		require.NotEmpty(x.t, wcs)
		require.Equal(x.t, st, wcs[0].Status)
		return
	}
	for _, wc := range wcs {
		require.Equal(x.t, st, wc.Status)
	}
}

// alien is an object with the same interface, of another driver.
func alien(like ci.Object) ci.Object {
	switch like.(type) {
	case *CQ:
		return struct{ ci.CQ }{}
	case *SRQ:
		return struct{ ci.SRQ }{}
	case *MR:
		return struct{ ci.MR }{}
	case *FMR:
		return struct{ ci.FMR }{}
	case *MW:
		return struct{ ci.MW }{}
	case *AV:
		return struct{ ci.AV }{}
	}
	return struct{ ci.PD }{}
}

// TestForeignObjectsComplete checks that the table above has every place in the arguments of verbs that takes an
// object.
func TestForeignObjectsComplete(t *testing.T) {
	object := reflect.TypeFor[ci.Object]()
	var places []string
	var walk func(verb, path string, typ reflect.Type, depth int)
	walk = func(verb, path string, typ reflect.Type, depth int) {
		switch {
		case depth > 8 || typ.Kind() == reflect.Func:
		case typ.Kind() == reflect.Interface:
			if typ.Implements(object) {
				places = append(places, strings.TrimSuffix(verb+" "+strings.TrimPrefix(path, "."), " "))
			}
		case typ.Kind() == reflect.Struct:
			for f := range typ.Fields() {
				name := path + "." + f.Name
				if f.Anonymous {
					name = path
				}
				walk(verb, name, f.Type, depth+1)
			}
		case typ.Kind() == reflect.Slice, typ.Kind() == reflect.Pointer, typ.Kind() == reflect.Array:
			walk(verb, path, typ.Elem(), depth+1)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[ci.CA](), reflect.TypeFor[ci.PD](), reflect.TypeFor[ci.AV](),
		reflect.TypeFor[ci.CQ](),
		reflect.TypeFor[ci.SRQ](), reflect.TypeFor[ci.QP](), reflect.TypeFor[ci.MR](), reflect.TypeFor[ci.FMR](),
		reflect.TypeFor[ci.MW](),
		reflect.TypeFor[ci.DMA](), reflect.TypeFor[ci.Mcast]()} {
		for m := range typ.Methods() {
			for in := range m.Type.Ins() {
				walk(fmt.Sprintf("%s.%s", typ.Name(), m.Name), "", in, 0)
			}
		}
	}
	// Not in the engine: reliable datagrams (rejected whatever the RDD), and arguments that QP.Modify ignores.
	places = slices.DeleteFunc(places, func(p string) bool {
		return strings.HasSuffix(p, "RDD") ||
			strings.HasPrefix(p, "QP.Modify ")
	})
	var have []string
	for _, a := range objectArgs() {
		have = append(have, strings.TrimSuffix(a.verb+" "+a.path, " "))
	}
	slices.Sort(places)
	slices.Sort(have)
	require.Equal(t, slices.Compact(places), have)
}
