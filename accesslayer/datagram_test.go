package accesslayer_test

import (
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/cimock"
)

// mockQP returns a QP of the access layer over a mock.
func mockQP(t *testing.T, typ ci.QPType) (*cimock.MockQP, *accesslayer.QP) {
	ctrl := gomock.NewController(t)
	hca, ca := cimock.NewMockHCA(ctrl), cimock.NewMockCA(ctrl)
	pd, qp := cimock.NewMockPD(ctrl), cimock.NewMockQP(ctrl)
	hca.EXPECT().Info().Return(ci.HCAInfo{GUID: 7, Version: ci.InterfaceVersion}).AnyTimes()
	hca.EXPECT().OpenCA(gomock.Any(), gomock.Any(), gomock.Any()).Return(ca, nil)
	ca.EXPECT().Query().Return(&ci.CAAttr{GUID: 7, Ports: []ci.PortAttr{{Num: 1, Link: ci.LinkEthernet}}}, nil)
	ca.EXPECT().AllocatePD(gomock.Any()).Return(pd, nil)
	pd.EXPECT().CreateSpecialQP(uint8(1), gomock.Any()).Return(qp, nil)
	gomock.InOrder(qp.EXPECT().Destroy().Return(nil), pd.EXPECT().Destroy().Return(nil),
		ca.EXPECT().Destroy().Return(nil))
	al := newAL(t)
	require.NoError(t, al.Register(hca))
	p := must(must(must(al.Open(accesslayer.ClientConfig{})).OpenCA(7, nil)).NewPD(ci.PDSpecial))
	return qp, must(p.NewSpecialQP(1, ci.QPCreate{Type: typ}, nil))
}

func TestInitDatagram(t *testing.T) {
	t.Parallel()
	for typ, want := range map[ci.QPType]struct {
		set  ci.QPField
		qkey ci.QKey
	}{ci.UD: {ci.QPFieldsUDInit, 5}, ci.QP0: {ci.QPFieldsSpecial, 0}, ci.QP1: {ci.QPFieldsSpecial, 0x80010000}} {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			drv, qp := mockQP(t, typ)
			attr := func(s ci.QPState) ci.QPAttr {
				return ci.QPAttr{State: s, Port: 1, QKey: want.qkey, Primary: ci.Path{PKeyIndex: 2}}
			}
			gomock.InOrder(
				drv.EXPECT().Modify(want.set, attr(ci.QPInit)).Return(nil),
				drv.EXPECT().Modify(ci.QPFieldsUDRTR, attr(ci.QPRTR)).Return(nil),
				drv.EXPECT().Modify(ci.QPFieldsUDRTS, attr(ci.QPRTS)).Return(nil),
				drv.EXPECT().Modify(want.set, gomock.Any()).Return(ci.InvalidQPState),
				drv.EXPECT().Modify(want.set, gomock.Any()).Return(nil),
				drv.EXPECT().Modify(ci.QPFieldsUDRTR, gomock.Any()).Return(ci.Timeout),
				drv.EXPECT().Modify(ci.ToReset()).Return(nil),
			)
			assert.NoError(t, qp.InitDatagram(1, 5, 2))
			assert.ErrorIs(t, qp.InitDatagram(1, 5, 2), ci.InvalidQPState, "not in Reset")
			assert.ErrorIs(t, qp.InitDatagram(1, 5, 2), ci.Timeout, "after a failed step: back to Reset")
		})
	}
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.RD, ci.RawEther} {
		_, qp := mockQP(t, typ)
		assert.ErrorIs(t, qp.InitDatagram(1, 5, 0), ci.InvalidServiceType, typ.String())
	}
}

func TestForceAPM(t *testing.T) {
	t.Parallel()
	drv, qp := mockQP(t, ci.RC)
	drv.EXPECT().Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}).Return(ci.InvalidAPMState)
	assert.ErrorIs(t, qp.ForceAPM(), ci.InvalidAPMState)
}
