package ciwrap_test

import (
	"reflect"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/cimock"
	"ciddk/ci/ciwrap"
	"ciddk/ci/ciwrap/faults"
)

// everything replaces all kinds of objects, each by its embedding type.
func everything() ciwrap.Layer {
	return ciwrap.Layer{
		HCA:          func(o ci.HCA) ci.HCA { return ciwrap.HCA{HCA: o} },
		CA:           func(o ci.CA) ci.CA { return ciwrap.CA{CA: o} },
		UserCA:       func(o ci.UserCA, _ ci.Process) ci.UserCA { return ciwrap.UserCA{UserCA: o} },
		PD:           func(o ci.PD, _ ci.PDType) ci.PD { return ciwrap.PD{PD: o} },
		AV:           func(o ci.AV, _ ci.AVAttr) ci.AV { return ciwrap.AV{AV: o} },
		CQ:           func(o ci.CQ, _ ci.CQCreate) ci.CQ { return ciwrap.CQ{CQ: o} },
		SRQ:          func(o ci.SRQ, _ ci.SRQCreate) ci.SRQ { return ciwrap.SRQ{SRQ: o} },
		QP:           func(o ci.QP, _ ci.QPCreate) ci.QP { return ciwrap.QP{QP: o} },
		Mcast:        func(o ci.Mcast, _ ci.McastAttach) ci.Mcast { return ciwrap.Mcast{Mcast: o} },
		MR:           func(o ci.MR, _ ciwrap.MROrigin) ci.MR { return ciwrap.MR{MR: o} },
		FMR:          func(o ci.FMR, _ ci.FMRCreate) ci.FMR { return ciwrap.FMR{FMR: o} },
		MW:           func(o ci.MW, _ ci.MWCreate) ci.MW { return ciwrap.MW{MW: o} },
		RDD:          func(o ci.RDD) ci.RDD { return ciwrap.RDD{RDD: o} },
		EEC:          func(o ci.EEC, _ ci.EECCreate) ci.EEC { return ciwrap.EEC{EEC: o} },
		DMA:          func(o ci.DMA, _ ci.Memory) ci.DMA { return ciwrap.DMA{DMA: o} },
		EventHandler: func(o ci.Object) ci.Object { return ciwrap.Object{Object: o} },
	}
}

func TestTransparent(t *testing.T) {
	t.Parallel()
	kinds := []string{"HCA", "CA", "UserCA", "PD", "AV", "CQ", "SRQ", "QP", "Mcast", "MR", "FMR", "MW", "RDD", "EEC",
		"DMA", "Object"}
	t.Run("one layer", func(t *testing.T) {
		t.Parallel()
		depth := checkTransparent(t, everything().Wrap)
		for _, k := range kinds {
			assert.Positive(t, depth[k], k)
		}
	})
	t.Run("two layers", func(t *testing.T) {
		t.Parallel()
		one := checkTransparent(t, everything().Wrap)
		two := checkTransparent(t, func(h ci.HCA) ci.HCA { return ciwrap.Wrap(everything().Wrap(h), everything()) })
		for _, k := range kinds {
			assert.Equal(t, 2*one[k], two[k], k)
		}
	})
	t.Run("zero layer", func(t *testing.T) {
		t.Parallel()
		for k, n := range checkTransparent(t, ciwrap.Layer{}.Wrap) {
			assert.Zero(t, n, k)
		}
	})
}

// A layer for one kind of object leaves the others to the driver: no face, no cost.
func TestOnlyWhatIsAsked(t *testing.T) {
	t.Parallel()
	all := everything()
	field := reflect.TypeFor[ciwrap.Layer]()
	for i := range field.NumField() {
		name := field.Field(i).Name
		kind := name
		if name == "EventHandler" {
			kind = "Object"
		}
		src := reflect.ValueOf(all).Field(i)
		if src.IsNil() {
			continue // a hook
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l ciwrap.Layer
			reflect.ValueOf(&l).Elem().Field(i).Set(src)
			parents := map[string][]string{"HCA": {}, "CA": {"HCA"}, "UserCA": {"HCA", "CA"}, "DMA": {"HCA", "CA"},
				"Object": {"HCA", "CA"},
				"PD":     {"HCA", "CA", "UserCA"}, "Mcast": {"HCA", "CA", "UserCA", "PD", "QP"}, "EEC": {"HCA", "CA",
					"UserCA", "PD", "RDD"}}
			may, ok := parents[kind]
			if !ok {
				may = []string{"HCA", "CA", "UserCA", "PD"}
			}
			may = append(may, kind)
			depth := checkTransparent(t, l.Wrap)
			assert.Positive(t, depth[kind])
			for k, n := range depth {
				if n > 0 {
					assert.Contains(t, may, k)
				}
			}
		})
	}
}

func TestNilObjectsStayNil(t *testing.T) {
	t.Parallel()
	ctrl := gomock.NewController(t)
	h, c, p := cimock.NewMockHCA(ctrl), cimock.NewMockCA(ctrl), cimock.NewMockPD(ctrl)
	h.EXPECT().OpenCA(ci.GUID(1), gomock.Any(), nil).Return(c, nil)
	c.EXPECT().AllocatePD(ci.PDNormal).Return(p, nil)
	p.EXPECT().CreateQP(gomock.Any()).Return(nil, nil)
	p.EXPECT().CreateAV(gomock.Any()).Return(nil, nil)
	p.EXPECT().RegisterMR(gomock.Any()).Return(cimock.NewMockMR(ctrl), ci.InvalidParameter)

	assert.Nil(t, ciwrap.Wrap(nil, everything()))
	assert.Nil(t, ciwrap.Wrap((*ciwrap.HCA)(nil), everything()))
	ca, err := ciwrap.Wrap(h, everything()).OpenCA(1, func(ci.Event) {}, nil)
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{})
	assert.NoError(t, err)
	assert.Nil(t, qp)
	av, err := pd.CreateAV(ci.AVAttr{})
	assert.NoError(t, err)
	assert.Nil(t, av)
	mr, err := pd.RegisterMR(ci.MRCreate{})
	assert.Equal(t, ci.InvalidParameter, err)
	assert.IsType(t, &cimock.MockMR{}, mr, "an object beside an error is the driver's defect, to be seen above")
}

func TestRegistrar(t *testing.T) {
	t.Parallel()
	ctrl := gomock.NewController(t)
	r, h := cimock.NewMockRegistrar(ctrl), cimock.NewMockHCA(ctrl)
	w := ciwrap.Registrar(r, everything().Wrap)
	gomock.InOrder(
		r.EXPECT().Register(gomock.Any()).DoAndReturn(func(got ci.HCA) error {
			assert.True(t, ci.Same(got, h))
			assert.IsType(t, ciwrap.HCA{}, got)
			return ci.ResourceBusy
		}),
		r.EXPECT().Register(nil).Return(ci.InvalidParameter),
		r.EXPECT().Deregister(ci.GUID(7)).Return(ci.NotFound),
	)
	assert.Equal(t, ci.ResourceBusy, w.Register(h))
	assert.Equal(t, ci.InvalidParameter, w.Register(nil))
	assert.Equal(t, ci.NotFound, w.Deregister(7))
}

func TestFaultsWithoutRulesChangeNothing(t *testing.T) {
	t.Parallel()
	inj := faults.New(1)
	for k, n := range checkTransparent(t, inj.Wrap) {
		assert.Positive(t, n, k)
	}
	for _, v := range faults.Verbs() {
		assert.Positive(t, inj.Calls(v), "%s never reached the injector", v)
	}
}
