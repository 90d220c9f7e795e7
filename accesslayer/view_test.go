package accesslayer_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// The objects that argument structures of ci take are values of ci without a view.
var (
	_ ci.AV    = (*accesslayer.AV)(nil)
	_ ci.CQ    = (*accesslayer.CQ)(nil)
	_ ci.SRQ   = (*accesslayer.SRQ)(nil)
	_ ci.QP    = (*accesslayer.QP)(nil)
	_ ci.Mcast = (*accesslayer.Mcast)(nil)
	_ ci.MR    = (*accesslayer.MR)(nil)
	_ ci.FMR   = (*accesslayer.FMR)(nil)
	_ ci.MW    = (*accesslayer.MW)(nil)
	_ ci.EEC   = (*accesslayer.EEC)(nil)
	_ ci.DMA   = (*accesslayer.DMA)(nil)

	// Containers have one.
	_ interface{ CI() ci.CA }     = (*accesslayer.CA)(nil)
	_ interface{ CI() ci.UserCA } = (*accesslayer.UserCA)(nil)
	_ interface{ CI() ci.PD }     = (*accesslayer.PD)(nil)
	_ interface{ CI() ci.RDD }    = (*accesslayer.RDD)(nil)
)

// TestContainersAreNotViews checks that a container has no second set of creators: none of the creators of its ci
// interface, and no second word for Destroy. The method sets are compared by reflection, since a type that must not
// implement an interface cannot be declared.
func TestContainersAreNotViews(t *testing.T) {
	t.Parallel()
	creates := func(m reflect.Method) bool {
		return m.Type.NumOut() == 2 && m.Type.Out(0).Kind() == reflect.Interface &&
			m.Type.Out(0).Implements(reflect.TypeFor[ci.Object]())
	}
	for _, x := range []struct {
		container, ci reflect.Type
		creators      int
	}{
		{reflect.TypeFor[*accesslayer.CA](), reflect.TypeFor[ci.CA](), 4},
		{reflect.TypeFor[*accesslayer.UserCA](), reflect.TypeFor[ci.UserCA](), 1},
		{reflect.TypeFor[*accesslayer.PD](), reflect.TypeFor[ci.PD](), 12},
		{reflect.TypeFor[*accesslayer.RDD](), reflect.TypeFor[ci.RDD](), 1},
	} {
		assert.False(t, x.container.Implements(x.ci), "%v", x.container)
		creators := 0
		for m := range x.ci.Methods() {
			_, has := x.container.MethodByName(m.Name)
			if creates(m) {
				creators++
				assert.False(t, has, "%v.%s", x.container, m.Name)
			} else {
				assert.True(t, has, "%v.%s", x.container, m.Name)
			}
		}
		assert.Equal(t, x.creators, creators, "creators of %v", x.ci)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[*accesslayer.CA](), reflect.TypeFor[*accesslayer.UserCA](), reflect.TypeFor[*accesslayer.PD](),
		reflect.TypeFor[*accesslayer.RDD](), reflect.TypeFor[*accesslayer.EEC](), reflect.TypeFor[*accesslayer.AV](),
		reflect.TypeFor[*accesslayer.CQ](), reflect.TypeFor[*accesslayer.SRQ](), reflect.TypeFor[*accesslayer.QP](),
		reflect.TypeFor[*accesslayer.Mcast](), reflect.TypeFor[*accesslayer.MR](), reflect.TypeFor[*accesslayer.FMR](),
		reflect.TypeFor[*accesslayer.MW](), reflect.TypeFor[*accesslayer.DMA](), reflect.TypeFor[*accesslayer.PnP](),
		reflect.TypeFor[*accesslayer.EventHandler](), reflect.TypeFor[*accesslayer.Pump](),
		reflect.TypeFor[*accesslayer.FMRPool](), reflect.TypeFor[*accesslayer.FastRegPool](),
	} {
		assert.True(t, typ.Implements(reflect.TypeFor[tracked]()), "%v", typ)
		_, has := typ.MethodByName("Close")
		assert.False(t, has, "%v.Close", typ)
	}
}

// TestView creates one object of each kind through the plain view. The objects are tracked and typed, arguments reach
// the driver as its own objects, queries return the views, and Destroy has the status that package ci demands.
func TestView(t *testing.T) {
	t.Parallel()
	h, _, c, _ := setup(t)
	before := len(h.liveObjects())
	ca := must(must(c.HCA(fakeGUID)).OpenCA(fakeGUID, func(ci.Event) {}, nil))
	pd := must(ca.AllocatePD(ci.PDNormal))
	other := must(ca.AllocatePD(ci.PDNormal))
	user := must(ca.OpenUser(nil, nil))
	mr := must(pd.RegisterMR(ci.MRCreate{Length: 4096}))
	mw := must(pd.CreateMW(ci.MWCreate{Type: ci.MWType2}))
	cq := must(pd.CreateCQ(ci.CQCreate{Size: 8}))
	rdd := must(pd.AllocRDD())
	qp := must(pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, RDD: rdd}))
	objects := []ci.Object{
		must(pd.CreateAV(ci.AVAttr{Port: 1})),
		must(pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}})),
		must(pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP1, SendCQ: cq, RecvCQ: cq})),
		must(pd.RegisterPMR(ci.PMRCreate{})),
		must(pd.RegisterSMR(mr, 0, 0)), must(pd.AllocFastRegMR(1)),
		must(pd.AllocFMR(ci.FMRCreate{MaxPages: 4, MaxMaps: 2})),
		must(rdd.CreateEEC(ci.EECCreate{})), must(qp.AttachMcast(ci.McastAttach{GID: ci.GID{0xff}, LID: 0xc000})),
		must(ca.MapDMA(ci.Bytes(make([]byte, 8)))), must(ca.OnEvent(func(ci.Event) {}, nil)),
		must(user.AllocatePD(ci.PDNormal, nil)),
		qp, rdd, cq, mw, mr,
	}

	for _, o := range objects {
		_, ok := o.(tracked)
		assert.True(t, ok, "%T is an object of the access layer", o)
	}
	typed, ok := ci.As[*accesslayer.PD](pd)
	require.True(t, ok)
	assert.Same(t, pd, typed.CI(), "one object has one view")
	assert.True(t, ci.Same(pd, typed))
	assert.False(t, ci.Same(pd, other))
	driver, ok := ci.As[*fakePD](pd)
	require.True(t, ok)
	assert.True(t, slices.Contains(h.liveObjects(), driver.name()))
	typedCA, ok := ci.As[*accesslayer.CA](ca)
	require.True(t, ok)
	assert.Same(t, typedCA, typed.CA())
	assert.True(t, ci.IsNil((*accesslayer.PD)(nil).CI()))

	assert.True(t, must(ca.Query()).Caps.Has(ci.CapEventHandlers), "the access layer implements OnEvent")
	assert.False(t, typedCA.Adapter().Attr().Caps.Has(ci.CapEventHandlers), "the fake driver does not")
	attr := must(qp.Query())
	assert.Same(t, pd, attr.PD)
	assert.Same(t, cq, attr.SendCQ)
	require.NoError(t, mr.Modify(ci.MRFieldPD, other, ci.MRCreate{}), "a view is an argument like any PD")
	assert.Same(t, other, must(mr.Query()).PD)

	require.NoError(t, user.Destroy())
	require.NoError(t, other.Destroy(), "the region has moved there, and is destroyed with it")
	assert.ErrorIs(t, mr.Destroy(), ci.InvalidMRHandle)
	require.NoError(t, pd.Destroy())
	for _, o := range []ci.Object{pd, other} {
		assert.ErrorIs(t, o.Destroy(), ci.InvalidPDHandle)
	}
	_, err := pd.CreateCQ(ci.CQCreate{Size: 8})
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	require.NoError(t, ca.Destroy())
	assert.ErrorIs(t, ca.Destroy(), ci.InvalidCAHandle)
	assert.Len(t, h.liveObjects(), before)
}

// TestViewFails checks that a failed creator of a view returns nil, and not a nil pointer in an interface.
func TestViewFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pd, ca := r.pd.CI(), r.ca.CI()
	user := must(r.ca.NewUser(nil, nil))
	for kind, create := range map[string]func() (any, error){
		"PD":     func() (any, error) { return ca.AllocatePD(ci.PDNormal) },
		"UserCA": func() (any, error) { return ca.OpenUser(nil, nil) },
		"RDD":    func() (any, error) { return pd.AllocRDD() },
		"CQ":     func() (any, error) { return pd.CreateCQ(ci.CQCreate{Size: 1}) },
		"Mcast":  func() (any, error) { return r.qp.AttachMcast(ci.McastAttach{}) },
	} {
		r.h.plan("create "+kind, &ci.Error{Verb: kind, Status: ci.InsufficientResources})
		o, err := create()
		assert.ErrorIs(t, err, ci.InsufficientResources, kind)
		assert.Nil(t, o, kind)
	}
	r.h.plan("create PD", &ci.Error{Verb: "PD", Status: ci.InsufficientResources})
	o, err := user.CI().AllocatePD(ci.PDNormal, nil)
	assert.ErrorIs(t, err, ci.InsufficientResources)
	assert.Nil(t, o)
}

// TestViewCostsNothing checks that CI does not allocate.
func TestViewCostsNothing(t *testing.T) {
	r := newRig(t)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if r.pd.CI() == nil || r.ca.CI() == nil || r.rdd.CI() == nil {
			t.Error("a view is nil")
		}
	}))
}
