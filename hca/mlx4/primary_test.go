package mlx4_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/rvt"
)

// drain moves the QP to SQD.
func (o *single) drain(t *testing.T) {
	require.NoError(t, o.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}))
	for {
		a, err := o.qp.Query()
		require.NoError(t, err)
		if a.State == ci.QPSQD {
			return
		}
	}
}

const moved = ci.QPFieldState | ci.QPFieldPort | ci.QPFieldPrimary

// TestPrimaryPort moves a drained QP to the other port, and takes the first one down.
func TestPrimaryPort(t *testing.T) {
	o := newTwoPorts(t)
	to := ci.QPAttr{State: ci.QPRTS, Port: 2, Primary: ci.Path{AV: o.address(t, 2)}}
	require.ErrorIs(t, o.qp.Modify(moved, to), ci.InvalidParameter, "not drained")
	o.drain(t)
	require.ErrorIs(t, o.qp.Modify(moved&^ci.QPFieldPrimary, to), ci.InvalidParameter, "the path of another port")
	require.NoError(t, o.qp.Modify(moved, to))
	a, err := o.qp.Query()
	require.NoError(t, err)
	require.EqualValues(t, 2, a.Port)
	require.Equal(t, to.Primary.AV, a.Primary.AV)
	require.NoError(t, o.c.Modify(1, ci.PortFieldShutdown, ci.PortModify{}))
	post(t, o, []ci.SendWR{o.write([]byte("by the other port"))})
	require.Equal(t, "by the other port", string(o.b[2048:2048+17]))
	o.close(t)
}

// TestOtherPrimary checks that a drained QP does not move to a port that it cannot use, and continues on its own.
func TestOtherPrimary(t *testing.T) {
	l := new(direct.Link)
	narrow, err := direct.New(l, direct.Config{MTU: ci.MTU512})
	require.NoError(t, err)
	other, err := direct.New(l, direct.Config{PKeys: []ci.PKey{0, 0xffff}})
	require.NoError(t, err)
	ethernet, err := frame.New(frame.Config{Carrier: frame.NewHub().Join(), MAC: [6]byte{2, 0, 0, 0, 0, 1},
		MTU: ci.MTU1024})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		link   *direct.Link
		second rvt.Port
		want   ci.Status
	}{
		"MTU":   {l, narrow, ci.InvalidParameter},
		"P_Key": {l, other, ci.InvalidPKey},
		"link":  {new(direct.Link), ethernet, ci.InvalidParameter},
	} {
		o := newPorts(t, tt.link, tt.second)
		o.drain(t)
		to := ci.QPAttr{State: ci.QPRTS, Port: 2, Primary: ci.Path{AV: ci.AVAttr{Port: 2, DLID: 1}}}
		require.Equal(t, tt.want, ci.StatusOf(o.qp.Modify(moved, to)), name)
		require.NoError(t, o.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}))
		post(t, o, []ci.SendWR{o.write([]byte("here"))})
		o.close(t)
	}
}

// TestHandlers checks that handlers of CA.OnEvent receive events beside that of the open, each with its own context,
// until they are destroyed.
func TestHandlers(t *testing.T) {
	o := newTwoPorts(t)
	_, err := o.c.OnEvent(nil, nil)
	require.ErrorIs(t, err, ci.InvalidParameter)
	got := make(chan ci.Event, 16)
	traps := func(e ci.Event) {
		if e.Type == ci.EventPortTrap {
			got <- e
		}
	}
	one, err := o.c.OnEvent(traps, "one")
	require.NoError(t, err)
	two, err := o.c.OnEvent(traps, "two")
	require.NoError(t, err)
	require.ErrorIs(t, o.c.Destroy(), ci.ResourceBusy)
	require.Equal(t, 2, o.h.Live()["handler"])
	trap := func(c ci.PortCap) {
		require.NoError(t, o.c.Modify(1, ci.PortFieldCapability,
			ci.PortModify{CapMask: ci.PortCapVendorClass, Capability: c}))
	}
	trap(ci.PortCapVendorClass)
	require.ElementsMatch(t, []any{"one", "two"}, []any{(<-got).Context, (<-got).Context})
	require.NoError(t, one.Destroy())
	require.ErrorIs(t, one.Destroy(), ci.InvalidHandle)
	trap(0)
	require.Equal(t, "two", (<-got).Context)
	require.Empty(t, got)
	for (<-o.ports).Type != ci.EventPortTrap {
	}
	o.close(t, two)
}
