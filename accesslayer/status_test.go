package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// The same mistake has the same status in every verb.
func TestSameMistakeSameStatus(t *testing.T) {
	t.Parallel()
	const unknown = fakeGUID + 99
	_, al, c, ca := setup(t)
	pd := must(ca.NewPD(ci.PDNormal))
	_, _, _, otherCA := setup(t)
	otherPD := must(otherCA.NewPD(ci.PDNormal))
	ownCQ, otherCQ := must(pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{})),
		must(otherPD.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}))
	destroyedPD := must(ca.NewPD(ci.PDNormal))
	assert.NoError(t, destroyedPD.Destroy())
	second := func(_ any, err error) error { return err }
	third := func(_ any, _ uint8, err error) error { return err }

	tests := map[string]struct {
		status ci.Status
		verbs  map[string]error
	}{
		"no HCA has the GUID": {ci.NotFound, map[string]error{
			"AL.Adapter":     second(al.Adapter(unknown)),
			"AL.Deregister":  al.Deregister(unknown),
			"Client.OpenCA":  second(c.OpenCA(unknown, nil)),
			"Client.HCA":     second(c.HCA(unknown)),
			"AL.AdapterPort": third(al.AdapterByPort(unknown)),
			"AL.AdapterGID":  third(al.AdapterByGID(ci.GID{1})),
			"HCA.OpenCA":     second(must(c.HCA(fakeGUID)).OpenCA(unknown, func(ci.Event) {}, nil)),
		}},
		"no such port": {ci.InvalidPort, map[string]error{
			"Adapter.Port":     second(ca.Adapter().Port(99)),
			"Adapter.Port 0":   second(ca.Adapter().Port(0)),
			"Adapter.FindPKey": func() error { _, _, err := ca.Adapter().FindPKey(99, 0xffff); return err }(),
		}},
		"a CQ of another access layer": {ci.InvalidCQHandle, map[string]error{
			"SendCQ of NewQP":    second(pd.NewQP(ci.QPCreate{SendCQ: otherCQ, RecvCQ: ownCQ}, nil)),
			"RecvCQ of NewQP":    second(pd.NewQP(ci.QPCreate{SendCQ: ownCQ, RecvCQ: otherCQ}, nil)),
			"SendCQ of CreateQP": second(pd.CI().CreateQP(ci.QPCreate{SendCQ: otherCQ, RecvCQ: ownCQ})),
			"of NewSpecialQP": second(pd.NewSpecialQP(1, ci.QPCreate{Type: ci.QP1, SendCQ: otherCQ, RecvCQ: ownCQ},
				nil)),
			"a nil pointer": second(pd.NewQP(ci.QPCreate{SendCQ: (*accesslayer.CQ)(nil), RecvCQ: ownCQ}, nil)),
		}},
		"the parent is destroyed": {ci.InvalidState, map[string]error{
			"NewAV":  second(destroyedPD.NewAV(ci.AVAttr{})),
			"NewCQ":  second(destroyedPD.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{})),
			"NewSRQ": second(destroyedPD.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}}, nil)),
			"NewQP":  second(destroyedPD.NewQP(ci.QPCreate{SendCQ: ownCQ, RecvCQ: ownCQ}, nil)),
			"NewMR":  second(destroyedPD.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 1))})),
			"NewMW":  second(destroyedPD.NewMW(ci.MWCreate{Type: ci.MWType1})),
			"NewRDD": second(destroyedPD.NewRDD()),
			"NewFMR": second(destroyedPD.NewFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1})),
			"NewFMRPool": second(destroyedPD.NewFMRPool(accesslayer.FMRPoolConfig{Size: 1,
				FMRCreate: ci.FMRCreate{MaxPages: 1}})),
			"CreateCQ":   second(destroyedPD.CI().CreateCQ(ci.CQCreate{Size: 1})),
			"CreateMW":   second(destroyedPD.CI().CreateMW(ci.MWCreate{Type: ci.MWType1})),
			"AllocRDD":   second(destroyedPD.CI().AllocRDD()),
			"RegisterMR": second(destroyedPD.CI().RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 1))})),
		}},
		"the object is destroyed": {ci.InvalidPDHandle, map[string]error{
			"Destroy":      destroyedPD.Destroy(),
			"DestroyAsync": destroyedPD.DestroyAsync(nil),
			"UnmapFMRs":    destroyedPD.UnmapFMRs(nil),
		}},
	}
	for name, tt := range tests {
		for verb, err := range tt.verbs {
			assert.Equal(t, tt.status, ci.StatusOf(err), "%s: %s: %v", name, verb, err)
		}
	}
	for verb, err := range tests["the parent is destroyed"].verbs {
		assert.ErrorIs(t, err, accesslayer.ErrClosed, verb)
	}
}
