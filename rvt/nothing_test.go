package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// An argument without an object is rejected by name: nil, a nil pointer of this package, a nil pointer to a wrapper,
// whose Unwrap would panic, and a wrapper around a nil pointer.
func TestArgumentsThatAreNothing(t *testing.T) {
	r := newMemRig(t, nil)
	region := r.register(make([]byte, 64), ci.LocalWrite|ci.BindWindow)
	window := r.window(ci.MWType1)
	refused := func(want ci.Status, detail string, err error) {
		t.Helper()
		requireStatus(t, want, err)
		require.ErrorContains(t, err, detail)
	}
	for _, pd := range []ci.PD{nil, (*PD)(nil), (*ciwrap.PD)(nil)} {
		refused(ci.InvalidPDHandle, "pd is nil", region.Modify(ci.MRFieldPD, pd, ci.MRCreate{}))
	}
	for _, mr := range []ci.MR{nil, (*MR)(nil), (*ciwrap.MR)(nil)} {
		_, err := r.pd.RegisterSMR(mr, 0, 0)
		refused(ci.InvalidMRHandle, "src is nil", err)
		_, err = r.q.BindMW(1, 0, ci.MWBind{MW: window, MR: mr, Length: 1})
		refused(ci.InvalidMRHandle, "MR is nil", err)
		require.Nil(t, r.q.MR(mr))
	}
	for _, mw := range []ci.MW{nil, (*MW)(nil), (*ciwrap.MW)(nil), &ciwrap.MW{MW: (*MW)(nil)}} {
		_, err := r.q.BindMW(1, 0, ci.MWBind{MW: mw, MR: region, Length: 1})
		refused(ci.InvalidMWHandle, "MW is ", err)
		require.Nil(t, r.q.MW(mw))
	}
	for _, av := range []ci.AV{nil, (*AV)(nil), (*ciwrap.AV)(nil)} {
		require.Nil(t, r.q.AV(av))
	}
	for _, f := range []ci.FMR{nil, (*FMR)(nil), (*ciwrap.FMR)(nil)} {
		refused(ci.InvalidFMRHandle, "fmrs[0] is nil", r.pd.UnmapFMRs([]ci.FMR{f}))
	}
	for _, m := range []ci.Memory{nil, (*patchMemory)(nil)} {
		_, err := r.pd.RegisterMR(ci.MRCreate{Memory: m})
		refused(ci.InvalidParameter, "Memory is nil", err)
		_, err = r.ca.MapDMA(m)
		refused(ci.InvalidParameter, "no memory", err)
	}
	r.destroy(window, region)
	r.close()
}

func TestQPsOfNothing(t *testing.T) {
	s := newSide(t, &wireLink{mtu: ci.MTU4096}, 0xa, nil, ci.RC, nil)
	pd, cq := s.pd, s.cq
	create := func(f func(*ci.QPCreate)) error {
		c := ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, SendSGE: 1, RecvSGE: 1}, SendCQ: cq, RecvCQ: cq}
		f(&c)
		_, err := pd.CreateQP(c)
		return err
	}
	for _, x := range []ci.CQ{nil, (*CQ)(nil), (*ciwrap.CQ)(nil), &ciwrap.CQ{}} {
		err := create(func(c *ci.QPCreate) { c.SendCQ = x })
		requireStatus(t, ci.InvalidCQHandle, err)
		require.ErrorContains(t, err, "SendCQ is ")
		err = create(func(c *ci.QPCreate) { c.RecvCQ = x })
		requireStatus(t, ci.InvalidCQHandle, err)
		require.ErrorContains(t, err, "RecvCQ is ")
	}
	for _, x := range []ci.SRQ{(*SRQ)(nil), (*ciwrap.SRQ)(nil)} {
		err := create(func(c *ci.QPCreate) { c.SRQ = x })
		requireStatus(t, ci.InvalidSRQHandle, err)
		require.ErrorContains(t, err, "SRQ is nil")
	}
}
