package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// A variable of a concrete type that was never set is rejected, and the error names the argument. An example is the CQ
// of a QP that has none.
func TestNilPointersAsObjects(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	var none *fakeHCA
	err := al.Register(none)
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.ErrorContains(t, err, "the HCA is nil")

	h := newFake(1)
	require.NoError(t, al.Register(h))
	c := must(al.Open(accesslayer.ClientConfig{}))
	ca := must(c.OpenCA(h.info.GUID, nil))
	pd := must(ca.NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}))
	mr := must(pd.NewMR(ci.MRCreate{}))

	qp := func(c ci.QPCreate) error {
		_, err := pd.NewQP(c, nil)
		return err
	}
	smr := func(m ci.MR) error {
		_, err := pd.NewSMR(m, 0, 0)
		return err
	}
	for _, x := range []struct {
		err    error
		want   ci.Status
		detail string
	}{
		{qp(ci.QPCreate{SendCQ: (*accesslayer.CQ)(nil), RecvCQ: cq}), ci.InvalidCQHandle, "SendCQ is a nil pointer"},
		{qp(ci.QPCreate{SendCQ: cq, RecvCQ: (*ciwrap.CQ)(nil)}), ci.InvalidCQHandle, "RecvCQ is a nil pointer"},
		{qp(ci.QPCreate{SendCQ: cq, RecvCQ: &ciwrap.CQ{CQ: (*accesslayer.CQ)(nil)}}), ci.InvalidCQHandle,
			"RecvCQ is not an object"},
		{qp(ci.QPCreate{SendCQ: cq, RecvCQ: cq, SRQ: (*accesslayer.SRQ)(nil)}), ci.InvalidSRQHandle,
			"SRQ is a nil pointer"},
		{qp(ci.QPCreate{SendCQ: cq, RecvCQ: cq, RDD: (*accesslayer.RDD)(nil).CI()}), ci.InvalidHandle,
			"RDD is a nil pointer"},
		{smr((*accesslayer.MR)(nil)), ci.InvalidMRHandle, "src is a nil pointer"},
		{mr.Modify(ci.MRFieldPD, (*accesslayer.PD)(nil).CI(), ci.MRCreate{}), ci.InvalidPDHandle,
			"pd is a nil pointer"},
	} {
		require.ErrorIs(t, x.err, x.want)
		require.ErrorContains(t, x.err, x.detail)
	}
	require.NoError(t, c.Close())
}
