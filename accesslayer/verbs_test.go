package accesslayer_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/cimock"
)

// Every verb of every object reaches the driver, and its error is returned. After the object was destroyed, no verb
// reaches the driver, except for those of the data path.
func TestVerbsPass(t *testing.T) {
	t.Parallel()
	dataPath := []string{"Poll", "Notify", "NotifyAfter", "Peek", "PostSend", "PostRecv", "BindMW", "Num", "Region",
		"Key", "Ranges"}
	// These are tested elsewhere. The creates of a driver are called through them.
	own := []string{"Destroy", "Close", "TimeWait", "OnEvent", "OpenUser", "AllocatePD", "CreateAV", "CreateCQ",
		"CreateSRQ", "CreateQP", "CreateSpecialQP",
		"RegisterMR", "RegisterPMR", "RegisterSMR", "AllocFastRegMR", "AllocFMR", "CreateMW", "AllocRDD", "CreateEEC",
		"MapDMA", "AttachMcast"}
	ctrl := gomock.NewController(t)
	m := newMockTree(ctrl)
	al := newAL(t)
	require.NoError(t, al.Register(m.hca))
	c := must(al.Open(accesslayer.ClientConfig{}))
	ca := must(c.OpenCA(7, nil))
	pd := must(ca.NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{}, accesslayer.CQHandler{}))
	rdd := must(pd.NewRDD())
	qp := must(pd.NewSpecialQP(1, ci.QPCreate{SendCQ: cq, RecvCQ: cq, RDD: rdd.CI()}, nil))
	for _, x := range []struct {
		typ          reflect.Type
		inner, outer any
	}{
		{reflect.TypeFor[ci.EEC](), m.eec, must(rdd.NewEEC(ci.EECCreate{}, nil))},
		{reflect.TypeFor[ci.Mcast](), m.mcast, must(qp.AttachMcast(ci.McastAttach{}))},
		{reflect.TypeFor[ci.QP](), m.qp, qp},
		{reflect.TypeFor[ci.RDD](), m.rdd, rdd.CI()},
		{reflect.TypeFor[ci.SRQ](), m.srq, must(pd.NewSRQ(ci.SRQCreate{}, nil))},
		{reflect.TypeFor[ci.CQ](), m.cq, cq},
		{reflect.TypeFor[ci.AV](), m.av, must(pd.NewAV(ci.AVAttr{}))},
		{reflect.TypeFor[ci.MR](), m.mr, must(pd.NewPMR(ci.PMRCreate{}))},
		{reflect.TypeFor[ci.MR](), m.mr, must(pd.NewFastRegMR(1))},
		{reflect.TypeFor[ci.MW](), m.mw, must(pd.NewMW(ci.MWCreate{Type: ci.MWType2}))},
		{reflect.TypeFor[ci.FMR](), m.fmr, must(pd.NewFMR(ci.FMRCreate{}))},
		{reflect.TypeFor[ci.DMA](), m.dma, must(ca.NewDMA(nil))},
		{reflect.TypeFor[ci.PD](), m.pd, pd.CI()},
		{reflect.TypeFor[ci.UserCA](), m.user, must(ca.NewUser(nil, nil)).CI()},
		{reflect.TypeFor[ci.CA](), m.ca, ca.CI()},
	} {
		require.True(t, ci.Same(x.inner, x.outer), "%v", x.typ)
		for pass := range 2 {
			for v := range x.typ.Methods() {
				if slices.Contains(own, v.Name) || pass == 1 && slices.Contains(dataPath, v.Name) ||
					x.typ.Name() == "FMR" && v.Name == "Map" && pass == 1 {
					continue
				}
				name := x.typ.Name() + "." + v.Name
				fail := errors.New(name)
				var args []reflect.Value
				var matchers []any
				for j := range v.Type.NumIn() {
					if v.Type.IsVariadic() && j == v.Type.NumIn()-1 {
						break
					}
					args, matchers = append(args, reflect.Zero(v.Type.In(j))), append(matchers, gomock.Any())
				}
				if pass == 0 {
					var results []any
					for out := range v.Type.Outs() {
						results = append(results, reflect.Zero(out).Interface())
					}
					if n := len(results); v.Type.Out(n-1) == reflect.TypeFor[error]() {
						results[n-1] = fail
					}
					ctrl.RecordCall(x.inner, v.Name, matchers...).Return(results...)
				}
				out := reflect.ValueOf(x.outer).MethodByName(v.Name).Call(args)
				err, _ := reflect.TypeAssert[error](out[len(out)-1])
				switch {
				case v.Type.Out(len(out)-1) != reflect.TypeFor[error]():
				case pass == 0:
					assert.Same(t, fail, err, name)
				default:
					assert.ErrorIs(t, err, accesslayer.ErrClosed, name)
				}
			}
			if pass == 0 {
				done := make(chan struct{})
				require.NoError(t,
					x.outer.(interface{ DestroyAsync(func(error)) error }).DestroyAsync(func(error) { close(done) }))
				wait(t, done, "the end of "+x.typ.Name())
			}
		}
	}
}

// mockTree is a driver of mocks that creates and destroys every kind of object.
type mockTree struct {
	hca   *cimock.MockHCA
	ca    *cimock.MockCA
	user  *cimock.MockUserCA
	pd    *cimock.MockPD
	av    *cimock.MockAV
	cq    *cimock.MockCQ
	srq   *cimock.MockSRQ
	qp    *cimock.MockQP
	mcast *cimock.MockMcast
	mr    *cimock.MockMR
	fmr   *cimock.MockFMR
	mw    *cimock.MockMW
	rdd   *cimock.MockRDD
	eec   *cimock.MockEEC
	dma   *cimock.MockDMA
}

func newMockTree(c *gomock.Controller) *mockTree {
	m := &mockTree{cimock.NewMockHCA(c), cimock.NewMockCA(c), cimock.NewMockUserCA(c), cimock.NewMockPD(c),
		cimock.NewMockAV(c), cimock.NewMockCQ(c),
		cimock.NewMockSRQ(c), cimock.NewMockQP(c), cimock.NewMockMcast(c), cimock.NewMockMR(c), cimock.NewMockFMR(c),
		cimock.NewMockMW(c),
		cimock.NewMockRDD(c), cimock.NewMockEEC(c), cimock.NewMockDMA(c)}
	a := gomock.Any()
	m.hca.EXPECT().Info().Return(ci.HCAInfo{GUID: 7, Version: ci.InterfaceVersion}).AnyTimes()
	m.hca.EXPECT().OpenCA(a, a, a).Return(m.ca, nil)
	m.ca.EXPECT().Query().Return(&ci.CAAttr{GUID: 7, Ports: []ci.PortAttr{{Num: 1, Link: ci.LinkEthernet}}},
		nil) // by Register
	m.ca.EXPECT().AllocatePD(a).Return(m.pd, nil)
	m.ca.EXPECT().OpenUser(a, a).Return(m.user, nil)
	m.ca.EXPECT().MapDMA(a).Return(m.dma, nil)
	m.ca.EXPECT().Destroy().Return(nil)
	m.user.EXPECT().Destroy().Return(nil)
	p := m.pd.EXPECT()
	p.CreateAV(a).Return(m.av, nil)
	p.CreateCQ(a).Return(m.cq, nil)
	p.CreateSRQ(a).Return(m.srq, nil)
	p.CreateSpecialQP(a, a).Return(m.qp, nil)
	p.RegisterPMR(a).Return(m.mr, nil)
	p.AllocFastRegMR(a).Return(m.mr, nil)
	p.AllocFMR(a).Return(m.fmr, nil)
	p.CreateMW(a).Return(m.mw, nil)
	p.AllocRDD().Return(m.rdd, nil)
	m.rdd.EXPECT().CreateEEC(a).Return(m.eec, nil)
	m.qp.EXPECT().AttachMcast(a).Return(m.mcast, nil)
	m.mr.EXPECT().Destroy().Return(nil).Times(2)
	for _, o := range []*gomock.Call{p.Destroy(), m.av.EXPECT().Destroy(), m.cq.EXPECT().Destroy(),
		m.srq.EXPECT().Destroy(), m.qp.EXPECT().Destroy(),
		m.mcast.EXPECT().Destroy(), m.fmr.EXPECT().Destroy(), m.mw.EXPECT().Destroy(), m.rdd.EXPECT().Destroy(),
		m.eec.EXPECT().Destroy(), m.dma.EXPECT().Destroy()} {
		o.Return(nil)
	}
	return m
}

// LocalMAD with a Set refreshes the ports; a Get does not.
func TestLocalMADRefreshes(t *testing.T) {
	t.Parallel()
	ctrl := gomock.NewController(t)
	hca, ca := cimock.NewMockHCA(ctrl), cimock.NewMockCA(ctrl)
	attr := func(lid ci.LID) *ci.CAAttr {
		return &ci.CAAttr{GUID: 7, Ports: []ci.PortAttr{{Num: 1, LID: lid, Link: ci.LinkEthernet}}}
	}
	hca.EXPECT().Info().Return(ci.HCAInfo{GUID: 7, Version: ci.InterfaceVersion}).AnyTimes()
	hca.EXPECT().OpenCA(gomock.Any(), gomock.Any(), gomock.Any()).Return(ca, nil)
	refreshed := make(chan struct{})
	gomock.InOrder(
		ca.EXPECT().Query().Return(attr(0), nil),
		ca.EXPECT().LocalMAD(uint8(1), nil, gomock.Any(), gomock.Any()).Return(nil).Times(2),
		ca.EXPECT().Query().DoAndReturn(func() (*ci.CAAttr, error) { defer close(refreshed); return attr(3), nil }),
		ca.EXPECT().Destroy().Return(nil),
	)
	al := newAL(t)
	require.NoError(t, al.Register(hca))
	c := must(al.Open(accesslayer.ClientConfig{}))
	lid := make(chan ci.LID, 1)
	must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: func(_ *accesslayer.Adapter, _ any,
		e accesslayer.PortEvent) {
		if e.Type == accesslayer.PortLID {
			lid <- e.Attr.LID
		}
	}}))
	open := must(c.OpenCA(7, nil))
	get, set, out := ci.MAD{3: 0x01}, ci.MAD{3: 0x02}, ci.MAD{}
	require.NoError(t, open.LocalMAD(1, nil, &get, &out))
	require.NoError(t, open.LocalMAD(1, nil, &set, &out))
	wait(t, refreshed, "the query")
	assert.Equal(t, ci.LID(3), <-lid)
}
