package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

type srqRig struct {
	a, b   *side
	srq    ci.SRQ
	events chan ci.Event
}

// newSRQRig connects a to b, whose QP takes its receives from an SRQ.
func newSRQRig(t *testing.T, typ ci.QPType, c ci.SRQAttr) *srqRig {
	l := &wireLink{mtu: ci.MTU4096}
	x := &srqRig{events: make(chan ci.Event, 20)}
	x.a = newSide(t, l, 0xa, nil, typ, nil)
	x.b = newSide(t, l, 0xb, nil, typ, nil)
	var err error
	x.srq, err = x.b.pd.CreateSRQ(ci.SRQCreate{SRQAttr: c, Context: "srq", OnEvent: func(e ci.Event) { x.events <- e }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.srq.Destroy()) })
	x.b.remake(ci.QPCreate{Type: typ, SendCQ: x.b.cq, RecvCQ: x.b.cq, SRQ: x.srq, Context: "b"})
	x.a.connect(x.b, nil)
	x.b.connect(x.a, nil)
	return x
}

func (x *srqRig) post(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		k, err := x.srq.PostRecv([]ci.RecvWR{{ID: uint64(100 + i), SGL: x.b.sge(100*i, 100)}})
		require.NoError(t, err)
		require.Equal(t, 1, k)
	}
}

func TestSRQ(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			x := newSRQRig(t, typ, ci.SRQAttr{MaxWR: 4, MaxSGE: 2})
			x.post(t, 4)
			_, err := x.srq.PostRecv([]ci.RecvWR{{}})
			require.ErrorIs(t, err, ci.InsufficientResources)
			_, err = x.b.qp.PostRecv([]ci.RecvWR{{}})
			require.ErrorIs(t, err, ci.InvalidWRType)
			require.ErrorIs(t, x.srq.Destroy(), ci.ResourceBusy)
			x.a.send(ci.SendWR{Inline: []byte("hi"), To: ci.Dest{AV: x.a.av(x.b.lid), QPN: x.b.qp.Num(), QKey: 0x1234}})
			wc := x.b.onlyWC()
			require.Equal(t, ci.WCRecv, wc.Op)
			require.EqualValues(t, 100, wc.ID)
			require.Equal(t, "b", wc.Context, "which QP it was")
			require.Equal(t, x.b.qp.Num(), wc.QPN)
			// A QP that ends takes nothing from the SRQ any more, and raises the event for that.
			x.b.toState(ci.QPError)
			x.b.wantEvent(ci.EventLastWQE)
			require.Empty(t, x.b.poll())
			x.post(t, 1)
		})
	}
}

// TestSRQLimit checks that the event is raised once per arming, when fewer receives than the limit are left.
func TestSRQLimit(t *testing.T) {
	x := newSRQRig(t, ci.RC, ci.SRQAttr{MaxWR: 10, MaxSGE: 1, Limit: 3})
	event := func(want bool) {
		t.Helper()
		require.NoError(t, x.b.qp.Modify(ci.QPFieldMinRNRTimer, ci.QPAttr{MinRNRTimer: 1})) // any verb
		if want {
			require.Equal(t, ci.Event{Context: "srq", Type: ci.EventSRQLimit}, <-x.events)
		}
		select {
		case e := <-x.events:
			require.Fail(t, "unexpected event", "%v", e.Type)
		default:
		}
	}
	limit := func() int { a, err := x.srq.Query(); require.NoError(t, err); return a.Limit }
	x.post(t, 5)
	for range 2 {
		x.a.send(ci.SendWR{})
	}
	event(false) // three are left
	require.Equal(t, 3, limit())
	x.a.send(ci.SendWR{})
	event(true)
	require.Zero(t, limit(), "armed once")
	x.a.send(ci.SendWR{})
	event(false)
	require.NoError(t, x.srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 1}))
	event(false)
	x.a.send(ci.SendWR{})
	event(true)
	require.NoError(t, x.srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 2}))
	event(true) // crossed already
}

func TestSRQModify(t *testing.T) {
	x := newSRQRig(t, ci.RC, ci.SRQAttr{MaxWR: 4, MaxSGE: 1})
	x.post(t, 3)
	for _, tt := range []struct {
		set  ci.SRQField
		attr ci.SRQAttr
		want ci.Status
	}{
		{0, ci.SRQAttr{}, ci.InvalidParameter},
		{1 << 5, ci.SRQAttr{}, ci.InvalidParameter},
		{ci.SRQFieldLimit, ci.SRQAttr{Limit: 5}, ci.InvalidParameter},
		{ci.SRQFieldLimit, ci.SRQAttr{Limit: -1}, ci.InvalidParameter},
		{ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 2}, ci.InvalidMaxWRs},
		{ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 0}, ci.InvalidMaxWRs},
		{ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 1 << 20}, ci.InvalidMaxWRs},
		{ci.SRQFieldMaxWR | ci.SRQFieldLimit, ci.SRQAttr{MaxWR: 8, Limit: 9}, ci.InvalidParameter},
	} {
		before, err := x.srq.Query()
		require.NoError(t, err)
		require.ErrorIs(t, x.srq.Modify(tt.set, tt.attr), tt.want)
		after, err := x.srq.Query()
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	require.NoError(t, x.srq.Modify(ci.SRQFieldMaxWR|ci.SRQFieldLimit, ci.SRQAttr{MaxWR: 8, Limit: 2}))
	a, err := x.srq.Query()
	require.NoError(t, err)
	require.Equal(t, ci.SRQAttr{MaxWR: 8, MaxSGE: 1, Limit: 2}, a)
	for i := range 3 {
		x.a.send(ci.SendWR{})
		require.EqualValues(t, 100+i, x.b.onlyWC().ID, "what was posted is kept in order")
	}
}

func TestSRQCreateErrors(t *testing.T) {
	x := newSRQRig(t, ci.RC, ci.SRQAttr{MaxWR: 4, MaxSGE: 1})
	for _, tt := range []struct {
		attr ci.SRQAttr
		want ci.Status
	}{
		{ci.SRQAttr{}, ci.InvalidMaxWRs}, {ci.SRQAttr{MaxWR: 1 << 20}, ci.InvalidMaxWRs}, {ci.SRQAttr{MaxWR: 1,
			MaxSGE: 99}, ci.InvalidMaxSGE},
		{ci.SRQAttr{MaxWR: 1, MaxSGE: -1}, ci.InvalidMaxSGE}, {ci.SRQAttr{MaxWR: 1, Limit: 2}, ci.InvalidParameter},
	} {
		_, err := x.b.pd.CreateSRQ(ci.SRQCreate{SRQAttr: tt.attr})
		require.ErrorIs(t, err, tt.want)
	}
	_, err := x.srq.PostRecv([]ci.RecvWR{{SGL: make([]ci.SGE, 2)}})
	require.ErrorIs(t, err, ci.InvalidMaxSGE)
	_, err = x.b.pd.CreateQP(ci.QPCreate{SendCQ: x.b.cq, RecvCQ: x.b.cq, SRQ: x.srq, QPCaps: ci.QPCaps{RecvDepth: 1}})
	require.ErrorIs(t, err, ci.InvalidParameter)
}
