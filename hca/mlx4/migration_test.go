package mlx4_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/rvt"
)

// newTwoPorts returns an adapter with two ports on one link, and a QP that has itself as its peer, at port 1.
func newTwoPorts(t *testing.T) *single {
	l := new(direct.Link)
	p, err := direct.New(l, direct.Config{})
	require.NoError(t, err)
	return newPorts(t, l, p)
}

// newPorts is newTwoPorts with any port as the second one.
func newPorts(t *testing.T, l *direct.Link, second rvt.Port) *single {
	return newPortsWith(t, l, second, config)
}

// newPortsWith is newPorts with a configuration.
func newPortsWith(t *testing.T, l *direct.Link, second rvt.Port, c mlx4.Config) *single {
	first, err := direct.New(l, direct.Config{})
	require.NoError(t, err)
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: first}, {Link: second}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	o := &single{m: m, f: local.New(m, "model 0"), b: make([]byte, 4096)}
	o.h, err = mlx4.New(t.Context(), o.f, c)
	require.NoError(t, err)
	o.ports = make(chan ci.Event, 1<<16) // a driver that has lost events reports those of ports more than once
	o.c, err = o.h.OpenCA(o.h.Info().GUID, func(e ci.Event) { o.ports <- e }, nil)
	require.NoError(t, err)
	o.pd, err = o.c.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	o.send, err = o.pd.CreateCQ(ci.CQCreate{Size: 10})
	require.NoError(t, err)
	o.recv, err = o.pd.CreateCQ(ci.CQCreate{Size: 10})
	require.NoError(t, err)
	o.mr, err = o.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(o.b), Access: ci.LocalWrite | ci.RemoteWrite})
	require.NoError(t, err)
	o.events = make(chan ci.Event, 16)
	o.qp, err = o.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: o.send, RecvCQ: o.recv,
		OnEvent: func(e ci.Event) { o.events <- e },
		QPCaps:  ci.QPCaps{SendDepth: 8, SendSGE: 1, RecvDepth: 8, RecvSGE: 1, MaxInline: 64}})
	require.NoError(t, err)
	require.NoError(t, o.qp.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC)))
	to := ci.ToRTR{AV: o.address(t, 1), MTU: ci.MTU1024, DestNum: o.qp.Num()}
	require.NoError(t, o.qp.Modify(to.For(ci.RC)))
	require.NoError(t, o.qp.Modify(ci.ToRTS{AckTimeout: 8, RetryCount: 1, RNRRetry: 7}.For(ci.RC)))
	return o
}

// address returns the address of a port.
func (o *single) address(t *testing.T, port uint8) ci.AVAttr {
	a, err := o.c.Query()
	require.NoError(t, err)
	return ci.AVAttr{Port: port, DLID: a.Ports[port-1].LID}
}

// TestMigration pulls out the cable of the port of an armed QP. The QP migrates to the other port with the request that
// was posted, and back when it is asked to.
func TestMigration(t *testing.T) {
	o := newTwoPorts(t)
	query := func() ci.QPAttr {
		a, err := o.qp.Query()
		require.NoError(t, err)
		return a
	}
	move := func(port uint8, leave func()) {
		alternate := ci.Path{AV: o.address(t, port), AckTimeout: 20} // the last retry is seconds away
		require.NoError(t, o.qp.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: alternate}))
		require.Equal(t, alternate, query().Alternate, "loaded, which is no migration")
		require.NoError(t, o.qp.Modify(ci.QPFieldAlternate|ci.QPFieldAPM,
			ci.QPAttr{Alternate: alternate, APM: ci.APMRearm}))
		post(t, o, []ci.SendWR{o.write([]byte("arm"))})
		a := query()
		require.Equal(t, ci.APMArmed, a.APM)
		require.Equal(t, alternate, a.Alternate)
		require.Equal(t, 3-port, a.Port)
		leave()
		require.Equal(t, ci.EventQPAPM, (<-o.events).Type)
		a = query()
		require.Equal(t, ci.APMMigrated, a.APM)
		require.Equal(t, alternate, a.Primary)
		require.Equal(t, ci.Path{}, a.Alternate)
		require.Equal(t, port, a.Port)
		require.Equal(t, ci.QPRTS, a.State)
	}
	move(2, func() {
		require.NoError(t, o.m.SetLink(1, false))
		post(t, o, []ci.SendWR{o.write([]byte("by the other port"))})
		require.Equal(t, "by the other port", string(o.b[2048:2048+17]))
	})
	require.NoError(t, o.m.SetLink(1, true))
	move(1, func() {
		require.NoError(t, o.qp.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}))
		require.EqualValues(t, 1, query().Port, "at once")
	})
	require.NoError(t, o.m.SetLink(2, false))
	post(t, o, []ci.SendWR{o.write([]byte("back again"))})
	require.Equal(t, "back again", string(o.b[2048:2048+10]))
	require.NoError(t, o.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	require.Equal(t, ci.APMMigrated, query().APM)
	o.close(t)
}

// TestBadAlternate checks that an alternate path that cannot be is rejected, and that nothing changes.
func TestBadAlternate(t *testing.T) {
	o := newTwoPorts(t)
	before, err := o.qp.Query()
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		change func(*ci.Path)
		want   ci.Status
	}{
		"port 3":          {func(p *ci.Path) { p.AV.Port = 3 }, ci.InvalidPort},
		"P_Key index":     {func(p *ci.Path) { p.PKeyIndex = 1000 }, ci.InvalidPKey},
		"timeout":         {func(p *ci.Path) { p.AckTimeout = 32 }, ci.InvalidParameter},
		"no DLID":         {func(p *ci.Path) { p.AV.DLID = 0 }, ci.InvalidParameter},
		"a group":         {func(p *ci.Path) { p.AV.DLID = 0xc001 }, ci.InvalidParameter},
		"SL 16":           {func(p *ci.Path) { p.AV.SL = 16 }, ci.InvalidParameter},
		"a long label":    {func(p *ci.Path) { p.AV.GRH.FlowLabel = 1 << 20 }, ci.InvalidParameter},
		"an unknown SGID": {func(p *ci.Path) { p.AV.Global, p.AV.GRH.SGIDIndex = true, 200 }, ci.InvalidParameter},
	} {
		p := ci.Path{AV: o.address(t, 2)}
		tt.change(&p)
		err := o.qp.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{Alternate: p, APM: ci.APMRearm})
		require.Equal(t, tt.want, ci.StatusOf(err), "%s: %v", name, err)
	}
	after, err := o.qp.Query()
	require.NoError(t, err)
	require.Equal(t, before, after)
	o.close(t)
}

// TestOtherAlternate checks that an alternate path at a port of another kind of link, or of a smaller MTU, is rejected.
func TestOtherAlternate(t *testing.T) {
	l := new(direct.Link)
	narrow, err := direct.New(l, direct.Config{MTU: ci.MTU512})
	require.NoError(t, err)
	ethernet, err := frame.New(frame.Config{Carrier: frame.NewHub().Join(), MAC: [6]byte{2, 0, 0, 0, 0, 1},
		MTU: ci.MTU1024})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		link   *direct.Link
		second rvt.Port
		detail string
	}{
		"MTU":  {l, narrow, "the QP's MTU is above that of the port"},
		"link": {new(direct.Link), ethernet, "another kind of link"},
	} {
		o := newPorts(t, tt.link, tt.second)
		x := ci.Path{AV: ci.AVAttr{Port: 2, DLID: 2, Global: true}}
		err := o.qp.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{Alternate: x, APM: ci.APMRearm})
		require.Equal(t, ci.InvalidParameter, ci.StatusOf(err), name)
		require.ErrorContains(t, err, tt.detail, name)
		a, err := o.qp.Query()
		require.NoError(t, err)
		require.Equal(t, ci.APMMigrated, a.APM, name)
		require.Equal(t, ci.Path{}, a.Alternate, name)
		o.close(t)
	}
}
