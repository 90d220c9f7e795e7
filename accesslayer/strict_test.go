package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// strictRig is the plain view of an HCA of a strict client, with objects of every kind that others depend on.
type strictRig struct {
	h    *fakeHCA
	al   *accesslayer.AL
	c    *accesslayer.Client
	hca  ci.HCA
	ca   ci.CA
	pd   ci.PD
	cq   ci.CQ
	srq  ci.SRQ
	rdd  ci.RDD
	mr   ci.MR
	qp   ci.QP
	user ci.UserCA
}

func newStrictRig(t *testing.T) *strictRig {
	r := &strictRig{h: newFake(2), al: newAL(t)}
	require.NoError(t, r.al.Register(r.h))
	t.Cleanup(func() { assert.Empty(t, r.h.violationList()) })
	r.c = must(r.al.Open(accesslayer.ClientConfig{Name: "strict", Strict: true}))
	r.hca = must(r.c.HCA(fakeGUID))
	r.ca = must(r.hca.OpenCA(fakeGUID, func(ci.Event) {}, nil))
	r.pd = must(r.ca.AllocatePD(ci.PDNormal))
	r.cq = must(r.pd.CreateCQ(ci.CQCreate{Size: 8}))
	r.srq = must(r.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}}))
	r.rdd = must(r.pd.AllocRDD())
	r.mr = must(r.pd.RegisterMR(ci.MRCreate{Length: 4096}))
	r.qp = must(r.pd.CreateQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}))
	r.user = must(r.ca.OpenUser(nil, nil))
	return r
}

// object returns o as a ci.Object.
func object[T ci.Object](o T, err error) ci.Object { return must(o, err) }

// TestStrictBusy checks that Destroy of an object with a child or a user fails and leaves the object usable, and that
// it succeeds without them.
func TestStrictBusy(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		of    func(*strictRig) ci.Object // an object without children and users
		child func(*strictRig, ci.Object) ci.Object
	}{
		"PD and AV": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).CreateAV(ci.AVAttr{Port: 1}))
		}},
		"PD and CQ": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).CreateCQ(ci.CQCreate{Size: 1}))
		}},
		"PD and QP": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).CreateQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}))
		}},
		"PD and special QP": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).CreateSpecialQP(1, ci.QPCreate{Type: ci.QP1, SendCQ: r.cq, RecvCQ: r.cq}))
		}},
		"PD and region": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).RegisterMR(ci.MRCreate{Length: 1}))
		}},
		"PD and window": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).CreateMW(ci.MWCreate{Type: ci.MWType2}))
		}},
		"PD and FMR": {newPDOf, func(r *strictRig, p ci.Object) ci.Object {
			return object(p.(ci.PD).AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1}))
		}},
		"PD and RDD": {newPDOf, func(r *strictRig, p ci.Object) ci.Object { return object(p.(ci.PD).AllocRDD()) }},
		"CQ and its QP": {func(r *strictRig) ci.Object { return must(r.pd.CreateCQ(ci.CQCreate{Size: 1})) },
			func(r *strictRig, q ci.Object) ci.Object {
				return object(r.pd.CreateQP(ci.QPCreate{SendCQ: q.(ci.CQ), RecvCQ: r.cq}))
			}},
		"SRQ and its QP": {func(r *strictRig) ci.Object { return r.srq },
			func(r *strictRig, q ci.Object) ci.Object {
				return object(r.pd.CreateQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, SRQ: q.(ci.SRQ)}))
			}},
		"RDD and its QP": {func(r *strictRig) ci.Object { return r.rdd },
			func(r *strictRig, d ci.Object) ci.Object {
				return object(r.pd.CreateQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, RDD: d.(ci.RDD)}))
			}},
		"RDD and EEC": {func(r *strictRig) ci.Object { return r.rdd },
			func(r *strictRig, d ci.Object) ci.Object { return object(d.(ci.RDD).CreateEEC(ci.EECCreate{})) }},
		"region and shared region": {func(r *strictRig) ci.Object { return r.mr },
			func(r *strictRig, m ci.Object) ci.Object { return object(r.pd.RegisterSMR(m.(ci.MR), 0, 0)) }},
		"QP and multicast group": {func(r *strictRig) ci.Object { return r.qp },
			func(r *strictRig, q ci.Object) ci.Object {
				return object(q.(ci.QP).AttachMcast(ci.McastAttach{GID: ci.GID{0xff}, LID: 0xc000}))
			}},
		"process and PD": {func(r *strictRig) ci.Object { return r.user },
			func(r *strictRig, u ci.Object) ci.Object {
				return object(u.(ci.UserCA).AllocatePD(ci.PDNormal, nil))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStrictRig(t)
			o := x.of(r)
			first, second := x.child(r, o), ci.Object(nil)
			require.ErrorIs(t, o.Destroy(), ci.ResourceBusy)
			if name != "PD and special QP" { // a port has one QP1
				second = x.child(r, o)
				require.NoError(t, second.Destroy())
			}
			require.ErrorIs(t, o.Destroy(), ci.ResourceBusy)
			require.NoError(t, first.Destroy())
			require.NoError(t, o.Destroy())
			assert.ErrorIs(t, o.Destroy(), accesslayer.ErrClosed)
		})
	}
}

func newPDOf(r *strictRig) ci.Object { return must(r.ca.AllocatePD(ci.PDNormal)) }

// TestStrictCA checks the rules of package ci for the open of an HCA: there is one, and it is busy while objects exist.
func TestStrictCA(t *testing.T) {
	t.Parallel()
	h := newFake(1)
	al := newAL(t)
	require.NoError(t, al.Register(h))
	c := must(al.Open(accesslayer.ClientConfig{Name: "strict", Strict: true}))
	ca := must(must(c.HCA(fakeGUID)).OpenCA(fakeGUID, func(ci.Event) {}, nil))
	for _, open := range []func() error{
		func() error { _, err := must(c.HCA(fakeGUID)).OpenCA(fakeGUID, func(ci.Event) {}, nil); return err },
		func() error { _, err := c.OpenCA(fakeGUID, nil); return err },
	} {
		assert.ErrorIs(t, open(), ci.ResourceBusy)
	}
	other := must(al.Open(accesslayer.ClientConfig{Name: "another strict client", Strict: true}))
	must(other.OpenCA(fakeGUID, nil))

	for name, o := range map[string]ci.Object{
		"PD":      must(ca.AllocatePD(ci.PDNormal)),
		"process": must(ca.OpenUser(nil, nil)),
		"mapping": must(ca.MapDMA(ci.Bytes(make([]byte, 8)))),
		"handler": must(ca.OnEvent(func(ci.Event) {}, nil)),
	} {
		require.ErrorIs(t, ca.Destroy(), ci.ResourceBusy, name)
		require.NoError(t, o.Destroy(), name)
	}
	pd := must(ca.AllocatePD(ci.PDNormal))
	require.NoError(t, pd.Destroy())
	_, err := pd.CreateCQ(ci.CQCreate{Size: 1})
	assert.ErrorIs(t, err, ci.InvalidPDHandle)
	require.NoError(t, ca.Destroy())
	_, err = ca.AllocatePD(ci.PDNormal)
	assert.ErrorIs(t, err, ci.InvalidCAHandle)
	_, err = ca.OpenUser(nil, nil)
	assert.ErrorIs(t, err, ci.InvalidCAHandle)
	must(c.OpenCA(fakeGUID, nil))
}

// TestStrictTrees checks that DestroyAsync, Close and Deregister of a strict client destroy everything below, too.
func TestStrictTrees(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*strictRig) error{
		"DestroyAsync": func(r *strictRig) error {
			pd, _ := ci.As[*accesslayer.PD](r.pd)
			done := make(chan error, 1)
			if err := pd.DestroyAsync(func(err error) { done <- err }); err != nil {
				return err
			}
			return <-done
		},
		"Close":      func(r *strictRig) error { return r.c.Close() },
		"Deregister": func(r *strictRig) error { return r.al.Deregister(fakeGUID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStrictRig(t)
			require.NotEmpty(t, r.h.liveObjects())
			require.NoError(t, end(r))
			assert.ErrorIs(t, r.cq.Destroy(), ci.InvalidCQHandle)
			require.NoError(t, r.c.Close())
			assert.Empty(t, r.h.liveObjects())
		})
	}
}

// TestObjects checks the counts of a client's objects, which end at zero.
func TestObjects(t *testing.T) {
	t.Parallel()
	r := newStrictRig(t)
	assert.Equal(t, map[string]int{"CA": 1, "PD": 1, "CQ": 1, "SRQ": 1, "RDD": 1, "MR": 1, "QP": 1, "UserCA": 1},
		r.c.Objects())
	mcast := must(r.qp.AttachMcast(ci.McastAttach{GID: ci.GID{0xff}, LID: 0xc000}))
	assert.Equal(t, 1, r.c.Objects()["Mcast"])
	require.NoError(t, mcast.Destroy())
	assert.NotContains(t, r.c.Objects(), "Mcast")
	require.NoError(t, r.al.Deregister(fakeGUID))
	assert.Empty(t, r.c.Objects())
}
