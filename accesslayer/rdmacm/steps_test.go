package rdmacm_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// bubbleHost is a host in a synctest bubble. The test closes it.
type bubbleHost struct {
	hca *reference.HCA
	al  *accesslayer.AL
	m   *rdmacm.Manager
}

func newBubbleHost(t *testing.T, n *sim.Network, addr string, edit func(*rdmacm.OpenConfig)) *bubbleHost {
	t.Helper()
	port := testenv.Must(sim.New(n, sim.Config{Addr: netip.MustParseAddr(addr)}))
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	h := &bubbleHost{hca: hca, al: accesslayer.New(accesslayer.Config{PollInterval: -1})}
	require.NoError(t, h.al.Register(hca))
	var cfg rdmacm.OpenConfig
	if edit != nil {
		edit(&cfg)
	}
	h.m, err = rdmacm.Open(h.al, cfg)
	require.NoError(t, err)
	return h
}

func (h *bubbleHost) close(t *testing.T) {
	t.Helper()
	require.NoError(t, errors.Join(h.m.Close(), h.al.Close(), h.hca.Close()))
}

// next returns the next event of a channel, which must be of a type, and acknowledges it.
func next(t *testing.T, c *rdmacm.EventChannel, want rdmacm.EventType) rdmacm.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // virtual
	defer cancel()
	e, err := c.Next(ctx)
	require.NoError(t, err, "waiting for: %v", want)
	require.Equal(t, want, e.Type, "%v, want %v: %v", e.Type, want, e.Err)
	e.Ack()
	return e
}

// requireNone fails the test if a channel has an event when all packets have arrived.
func requireNone(t *testing.T, c *rdmacm.EventChannel) {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	e, ok := c.TryNext()
	require.False(t, ok, "%v: %v", e.Type, e.Err)
}

// resolved returns an ID on a channel whose route to an address is resolved, with a QP.
func resolved(t *testing.T, m *rdmacm.Manager, c *rdmacm.EventChannel, to netip.AddrPort) *rdmacm.ID {
	t.Helper()
	id, err := m.NewID(rdmacm.IDConfig{Events: c})
	require.NoError(t, err)
	require.NoError(t, id.StartResolveAddr(to, time.Second))
	assert.True(t, id == next(t, c, rdmacm.EventAddrResolved).ID)
	require.NoError(t, id.StartResolveRoute(time.Second))
	next(t, c, rdmacm.EventRouteResolved)
	require.NoError(t, id.CreateQP(rdmacm.QPConfig{}))
	return id
}

// TestSteps connects and disconnects two hosts with one event channel each and no goroutine of the program's own.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		var ready atomic.Int32
		ca, cb := rdmacm.NewEventChannel(func() { ready.Add(1) }), rdmacm.NewEventChannel(nil)
		lid, err := b.m.NewID(rdmacm.IDConfig{Events: cb})
		require.NoError(t, err)
		require.NoError(t, lid.Bind(ap("10.66.0.2:7")))
		ln, err := lid.Listen(0)
		require.NoError(t, err)
		_, err = ln.Accept(t.Context())
		require.ErrorIs(t, err, ci.InvalidState, "requests are events")

		id := resolved(t, a.m, ca, ap("10.66.0.2:7"))
		require.EqualValues(t, 2, ready.Load())
		_, err = id.Next(t.Context())
		require.ErrorIs(t, err, ci.InvalidState, "the events are on the channel")
		require.NoError(t, id.StartConnect(rdmacm.ConnParam{Private: []byte("hello")}))
		require.ErrorIs(t, id.StartConnect(rdmacm.ConnParam{}), ci.InvalidState, "one step at a time")
		e := next(t, cb, rdmacm.EventConnectRequest)
		assert.True(t, ln == e.Listener)
		assert.Equal(t, "hello", string(e.Private[:5]))
		peer := e.ID
		require.NoError(t, peer.CreateQP(rdmacm.QPConfig{}))
		require.NoError(t, peer.StartAccept(rdmacm.ConnParam{Private: []byte("welcome")}))
		e = next(t, ca, rdmacm.EventEstablished)
		assert.Equal(t, "welcome", string(e.Private[:7]))
		assert.True(t, peer == next(t, cb, rdmacm.EventEstablished).ID)
		next(t, cb, rdmacm.EventReadyToUse)
		requireNone(t, ca)
		requireNone(t, cb)

		require.NoError(t, id.StartDisconnect())
		require.NoError(t, id.StartDisconnect(), "a second call has no effect")
		assert.ErrorIs(t, next(t, ca, rdmacm.EventDisconnected).Err, rdmacm.ErrDisconnected)
		assert.ErrorIs(t, next(t, cb, rdmacm.EventDisconnected).Err, rdmacm.ErrPeerDisconnected)
		next(t, ca, rdmacm.EventTimeWaitExit)
		next(t, cb, rdmacm.EventTimeWaitExit)

		other := resolved(t, a.m, ca, ap("10.66.0.2:7"))
		require.NoError(t, other.StartConnect(rdmacm.ConnParam{}))
		e = next(t, cb, rdmacm.EventConnectRequest)
		require.NoError(t, e.ID.Reject([]byte("no")))
		e2 := next(t, ca, rdmacm.EventRejected)
		assert.ErrorIs(t, e2.Err, syscall.ECONNREFUSED)
		assert.Equal(t, "no", string(e2.Private[:2]))
		third, fourth := resolved(t, a.m, ca, ap("10.66.0.2:7")), resolved(t, a.m, ca, ap("10.66.0.2:7"))
		require.NoError(t, third.StartConnect(rdmacm.ConnParam{}))
		require.NoError(t, fourth.StartConnect(rdmacm.ConnParam{}))
		requireNone(t, ca)
		require.NoError(t, ln.Close(), "which rejects the requests that nobody took")
		var reasons [2]mad.RejReason
		for range 2 {
			e := next(t, ca, rdmacm.EventRejected)
			reject, ok := errors.AsType[*cm.RejectError](e.Err)
			require.True(t, ok)
			if e.ID == third {
				reasons[0] = reject.Reason
			} else {
				require.True(t, e.ID == fourth)
				reasons[1] = reject.Reason
			}
		}
		assert.Equal(t, [2]mad.RejReason{mad.RejConsumer, mad.RejInvalidServiceID}, reasons,
			"one request was on the channel, the other one at the connection manager")
		requireNone(t, cb)

		nowhere := resolved(t, a.m, ca, ap("10.66.0.77:7"))
		require.NoError(t, nowhere.StartConnect(rdmacm.ConnParam{}))
		next(t, ca, rdmacm.EventUnreachable)
		requireNone(t, ca)
		a.close(t)
		b.close(t)
		require.NoError(t, errors.Join(ca.Close(), cb.Close()))
		_, err = ca.Next(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestOwnQPSteps connects an ID without a QP: the program moves a QP of its own when the peer has accepted.
func TestOwnQPSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		c := rdmacm.NewEventChannel(nil)
		ln, err := b.m.ListenID(ap("10.66.0.2:7"), rdmacm.ListenIDConfig{ID: rdmacm.IDConfig{Events: c}})
		require.NoError(t, err)
		helper := resolved(t, a.m, c, ap("10.66.0.2:7")) // has the QP
		id, err := a.m.NewID(rdmacm.IDConfig{Events: c})
		require.NoError(t, err)
		require.NoError(t, id.SetTrafficClass(0x20))
		require.NoError(t, id.SetLifeTime(10))
		require.NoError(t, id.SetReuseAddr(true))
		require.NoError(t, id.StartResolveAddr(ap("10.66.0.2:7"), 0))
		next(t, c, rdmacm.EventAddrResolved)
		require.NoError(t, id.StartResolveRoute(0))
		next(t, c, rdmacm.EventRouteResolved)
		assert.Equal(t, uint8(0x20), id.Path().AV.GRH.TrafficClass)
		assert.EqualValues(t, 10, id.Path().LifeTime)
		require.ErrorIs(t, id.SetTrafficClass(0), ci.InvalidState)
		require.ErrorIs(t, id.SetReuseAddr(false), ci.InvalidState)
		require.ErrorIs(t, id.SetLifeTime(200), ci.InvalidParameter)

		qp := helper.QP()
		require.NoError(t, id.StartConnect(rdmacm.ConnParam{QP: &cm.QP{Num: qp.Num(), StartPSN: 5}}))
		e := next(t, c, rdmacm.EventConnectRequest)
		require.NoError(t, e.ID.CreateQP(rdmacm.QPConfig{}))
		require.NoError(t, e.ID.StartAccept(rdmacm.ConnParam{}))
		assert.True(t, id == next(t, c, rdmacm.EventConnectResponse).ID)
		requireNone(t, c)
		for _, to := range []ci.QPState{ci.QPRTR, ci.QPRTS} {
			set, attr, err := id.QPAttr(to)
			require.NoError(t, err)
			require.NoError(t, qp.Modify(set, attr))
		}
		require.NoError(t, id.Establish())
		assert.True(t, e.ID == next(t, c, rdmacm.EventEstablished).ID)
		next(t, c, rdmacm.EventReadyToUse)

		// The peer disconnects: the DREQ is not answered before the caller's QP is in Error, by StartDisconnect.
		require.NoError(t, e.ID.StartDisconnect())
		assert.True(t, id == next(t, c, rdmacm.EventDisconnected).ID)
		requireNone(t, c)
		require.NoError(t, id.StartDisconnect())
		assert.True(t, e.ID == next(t, c, rdmacm.EventDisconnected).ID)

		// Disconnect before Establish rejects the reply.
		again := resolved(t, a.m, rdmacm.NewEventChannel(nil), ap("10.66.0.2:7"))
		require.NoError(t, again.Migrate(c))
		require.NoError(t, ln.Close())
		a.close(t)
		b.close(t)
		require.NoError(t, c.Close())
	})
}

// TestStartDisconnectReplied disconnects an ID without a QP whose peer has accepted.
func TestStartDisconnectReplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		ca, cb := rdmacm.NewEventChannel(nil), rdmacm.NewEventChannel(nil)
		_, err := b.m.ListenID(ap("10.66.0.2:7"), rdmacm.ListenIDConfig{ID: rdmacm.IDConfig{Events: cb}})
		require.NoError(t, err)
		id, err := a.m.NewID(rdmacm.IDConfig{Events: ca})
		require.NoError(t, err)
		require.ErrorIs(t, id.StartDisconnect(), ci.InvalidState)
		require.NoError(t, id.ResolveAddr(t.Context(), ap("10.66.0.2:7")))
		require.NoError(t, id.ResolveRoute(t.Context()))
		require.NoError(t, id.StartConnect(rdmacm.ConnParam{QP: &cm.QP{Num: 77}}))
		e := next(t, cb, rdmacm.EventConnectRequest)
		require.NoError(t, e.ID.CreateQP(rdmacm.QPConfig{}))
		require.NoError(t, e.ID.StartAccept(rdmacm.ConnParam{}))
		next(t, ca, rdmacm.EventConnectResponse)
		require.NoError(t, id.StartDisconnect())
		next(t, ca, rdmacm.EventDisconnected)
		next(t, cb, rdmacm.EventRejected)
		a.close(t)
		b.close(t)
	})
}

// TestDatagramSteps looks up a datagram endpoint with events. The passive end has no event after StartAccept.
func TestDatagramSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		ca, cb := rdmacm.NewEventChannel(nil), rdmacm.NewEventChannel(nil)
		udp := func(c *rdmacm.EventChannel) rdmacm.IDConfig { return rdmacm.IDConfig{Space: rdmacm.UDP, Events: c} }
		_, err := b.m.ListenID(ap("10.66.0.2:7"), rdmacm.ListenIDConfig{ID: udp(cb)})
		require.NoError(t, err)
		id, err := a.m.NewID(udp(ca))
		require.NoError(t, err)
		require.NoError(t, id.ResolveAddr(t.Context(), ap("10.66.0.2:7")))
		require.NoError(t, id.ResolveRoute(t.Context()))
		requireNone(t, ca)
		require.NoError(t, id.StartConnect(rdmacm.ConnParam{Private: []byte("who")}))
		e := next(t, cb, rdmacm.EventConnectRequest)
		require.NoError(t, e.ID.CreateQP(rdmacm.QPConfig{}))
		require.NoError(t, e.ID.StartAccept(rdmacm.ConnParam{Private: []byte("me")}))
		requireNone(t, cb)
		assert.Equal(t, "me", string(next(t, ca, rdmacm.EventEstablished).Private[:2]))
		assert.Equal(t, e.ID.QP().Num(), id.Peer().QPN)

		g, err := e.ID.StartJoin(netip.MustParseAddr("239.1.2.3"), rdmacm.JoinConfig{})
		require.NoError(t, err)
		assert.True(t, g == next(t, cb, rdmacm.EventGroupJoined).Group)
		_, err = id.StartJoin(netip.MustParseAddr("239.1.2.3"), rdmacm.JoinConfig{})
		require.ErrorIs(t, err, ci.InvalidState, "no QP")
		g2, err := id.StartJoin(netip.MustParseAddr("239.1.2.3"), rdmacm.JoinConfig{NoAttach: true})
		require.NoError(t, err)
		assert.Equal(t, g.Peer().AV.GRH.DGID, g2.Peer().AV.GRH.DGID)
		next(t, ca, rdmacm.EventGroupJoined)
		require.NoError(t, g.StartLeave())
		require.NoError(t, g.StartLeave())
		requireNone(t, cb)
		a.close(t)
		b.close(t)
	})
}

// TestAck tests that Close discards events that were not taken, and waits for the acknowledgement of those that were.
func TestAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBubbleHost(t, sim.NewNetwork(sim.NetworkConfig{}), "10.66.0.1", nil)
		c := rdmacm.NewEventChannel(nil)
		id, err := h.m.NewID(rdmacm.IDConfig{Events: c})
		require.NoError(t, err)
		other, err := h.m.NewID(rdmacm.IDConfig{Events: c})
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, id.StartResolveAddr(ap("10.66.0.9:7"), 0))
		}
		require.NoError(t, other.StartResolveAddr(ap("10.66.0.9:7"), 0))
		e, ok := c.TryNext()
		require.True(t, ok)
		require.True(t, id == e.ID)
		done := make(chan error, 1)
		go func() { done <- id.Close() }()
		synctest.Wait()
		require.Empty(t, done, "an event is not acknowledged")
		e.Ack()
		require.NoError(t, <-done)
		e.Ack()
		e, ok = c.TryNext()
		require.True(t, ok)
		assert.True(t, other == e.ID, "the other event of the closed ID was discarded")
		e.Ack()
		require.NoError(t, other.Close())
		require.ErrorIs(t, id.Migrate(c), net.ErrClosed)
		h.close(t)
	})
}

// TestMigrate moves an ID with its events to another channel.
func TestMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBubbleHost(t, sim.NewNetwork(sim.NetworkConfig{}), "10.66.0.1", nil)
		ready := 0
		from, to := rdmacm.NewEventChannel(nil), rdmacm.NewEventChannel(func() { ready++ })
		var ids [2]*rdmacm.ID
		for k := range ids {
			var err error
			ids[k], err = h.m.NewID(rdmacm.IDConfig{Events: from})
			require.NoError(t, err)
			require.NoError(t, ids[k].StartResolveAddr(ap("10.66.0.9:7"), 0))
		}
		require.NoError(t, ids[0].Migrate(to))
		assert.Equal(t, 1, ready)
		assert.True(t, ids[0] == next(t, to, rdmacm.EventAddrResolved).ID)
		assert.True(t, ids[1] == next(t, from, rdmacm.EventAddrResolved).ID)
		require.NoError(t, ids[0].StartResolveRoute(0))
		next(t, to, rdmacm.EventRouteResolved)
		require.ErrorIs(t, ids[0].Migrate(nil), ci.InvalidParameter)
		own, err := h.m.NewID(rdmacm.IDConfig{})
		require.NoError(t, err)
		require.ErrorIs(t, own.Migrate(to), ci.InvalidState)
		h.close(t)
	})
}

// silentResolver never has a result before its context ends.
type silentResolver struct{}

func (silentResolver) ResolveAddr(ctx context.Context, _ rdmacm.Query, done func(rdmacm.Source, error)) {
	context.AfterFunc(ctx, func() { done(rdmacm.Source{}, ctx.Err()) })
}

func (silentResolver) ResolveRoute(ctx context.Context, _ rdmacm.Query, _ rdmacm.Source, done func(cm.Path, error)) {
	context.AfterFunc(ctx, func() { done(cm.Path{}, ctx.Err()) })
}

// TestStepTimeout tests that a step ends at its timeout, and a blocking call with its context.
func TestStepTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBubbleHost(t, sim.NewNetwork(sim.NetworkConfig{}), "10.66.0.1", func(c *rdmacm.OpenConfig) {
			c.Resolver = silentResolver{}
		})
		c := rdmacm.NewEventChannel(nil)
		id, err := h.m.NewID(rdmacm.IDConfig{Events: c})
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, id.StartResolveAddr(ap("10.66.0.9:7"), 3*time.Second))
		e := next(t, c, rdmacm.EventAddrError)
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorIs(t, e.Err, syscall.ETIMEDOUT)
		netErr, ok := errors.AsType[net.Error](e.Err)
		require.True(t, ok)
		assert.True(t, netErr.Timeout())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, id.ResolveAddr(ctx, ap("10.66.0.9:7")), context.DeadlineExceeded)
		require.ErrorIs(t, id.ResolveAddr(ctx, ap("10.66.0.9:7")), context.DeadlineExceeded, "before the step starts")
		requireNone(t, c)
		h.close(t)
	})
}

// TestRemovedSteps removes the HCA of IDs with pending steps: each of them ends once.
func TestRemovedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		h := newBubbleHost(t, n, "10.66.0.1", nil)
		c := rdmacm.NewEventChannel(nil)
		const count = 5
		ids := map[*rdmacm.ID]int{}
		for k := range count {
			id := resolved(t, h.m, c, ap("10.66.0.9:7")) // no host has the address
			require.NoError(t, id.StartConnect(rdmacm.ConnParam{}))
			ids[id] = k
		}
		requireNone(t, c)
		require.NoError(t, h.al.Deregister(h.hca.Info().GUID))
		synctest.Wait()
		var got [count][]rdmacm.EventType
		for e, ok := c.TryNext(); ok; e, ok = c.TryNext() {
			assert.ErrorIs(t, e.Err, rdmacm.ErrDeviceRemoved, "%v", e.Type)
			got[ids[e.ID]] = append(got[ids[e.ID]], e.Type)
			e.Ack()
		}
		for _, types := range got {
			assert.Equal(t, []rdmacm.EventType{rdmacm.EventDeviceRemoved, rdmacm.EventConnectError}, types)
		}
		for id := range ids {
			require.ErrorIs(t, id.StartResolveAddr(ap("10.66.0.9:7"), 0), rdmacm.ErrDeviceRemoved)
		}
		time.Sleep(time.Minute)
		requireNone(t, c)
		h.close(t)
	})
}

// TestPendingStepsHaveNoGoroutine compares the number of goroutines with few and with many pending steps.
func TestPendingStepsHaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		c, requests := rdmacm.NewEventChannel(nil), rdmacm.NewEventChannel(nil)
		start := func(count int) {
			for range count {
				lid, err := b.m.NewID(rdmacm.IDConfig{Events: requests})
				require.NoError(t, err)
				_, err = lid.Listen(1)
				require.NoError(t, err)
				to := netip.AddrPortFrom(netip.MustParseAddr("10.66.0.2"), lid.LocalAddr().Port())
				accepting := resolved(t, a.m, c, to)
				require.NoError(t, accepting.StartConnect(rdmacm.ConnParam{}))
				e := next(t, requests, rdmacm.EventConnectRequest)
				require.NoError(t, e.ID.Delay(), "so that the active end stays pending, too")
				next(t, c, rdmacm.EventDelayed)
				connecting := resolved(t, a.m, c, ap("10.66.0.9:7"))
				require.NoError(t, connecting.StartConnect(rdmacm.ConnParam{}))
			}
			requireNone(t, c)
		}
		start(2)
		few := testenv.NumGoroutine()
		start(100)
		// The count is that of the process, in which goroutines of earlier tests and of the runtime end.
		assert.Less(t, testenv.NumGoroutine(), few+10, "300 more steps are pending")
		a.close(t)
		b.close(t)
		synctest.Wait()
	})
}

// TestIPv6Only tests listeners on one port for all addresses of IPv4 and for all of IPv6.
func TestIPv6Only(t *testing.T) {
	l := newLAN()
	s, c := l.host(t, "10.66.0.1", "fd66::1"), l.host(t, "10.66.0.9", "fd66::9")
	ctx := within(t)
	channels := map[string]*rdmacm.EventChannel{}
	for _, at := range []string{"0.0.0.0:7174", "[::]:7174"} {
		channels[at] = rdmacm.NewEventChannel(nil)
		id, err := s.m.NewID(rdmacm.IDConfig{Events: channels[at]})
		require.NoError(t, err)
		require.NoError(t, id.SetIPv6Only(at == "[::]:7174"))
		require.NoError(t, id.Bind(ap(at)))
		_, err = id.Listen(0)
		require.NoError(t, err, at)
		require.ErrorIs(t, id.SetIPv6Only(false), ci.InvalidState)
	}
	_, err := s.m.ListenID(ap("[fd66::1]:7174"), rdmacm.ListenIDConfig{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = s.m.ListenID(ap("10.66.0.1:7175"), rdmacm.ListenIDConfig{ID: rdmacm.IDConfig{IPv6Only: true}})
	require.NoError(t, err, "it concerns :: alone")
	for to, at := range map[string]string{"10.66.0.1": "0.0.0.0:7174", "fd66::1": "[::]:7174"} {
		id := resolved(t, c.m, rdmacm.NewEventChannel(nil), gidAddr(to))
		require.NoError(t, id.StartConnect(rdmacm.ConnParam{}))
		e, err := channels[at].Next(ctx)
		require.NoError(t, err)
		assert.Equal(t, gidAddr(to).String(), e.ID.LocalAddr().String())
		require.NoError(t, e.ID.Reject(nil))
		e.Ack()
	}
}

// TestBoundOptions changes the options of IDs that are bound: their ports follow.
func TestBoundOptions(t *testing.T) {
	s := newLAN().host(t, "10.66.0.1", "fd66::1")
	bind := func(at string) (*rdmacm.ID, error) {
		id, err := s.m.NewID(rdmacm.IDConfig{})
		require.NoError(t, err)
		return id, id.Bind(ap(at))
	}
	both, err := bind("[::]:7174")
	require.NoError(t, err)
	_, err = bind("0.0.0.0:7174")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorIs(t, err, rdmacm.ErrAnyAddr)
	require.NoError(t, both.SetIPv6Only(true))
	four, err := bind("0.0.0.0:7174")
	require.NoError(t, err)
	require.ErrorIs(t, both.SetIPv6Only(false), syscall.EADDRINUSE)
	require.NoError(t, four.Close())
	require.NoError(t, both.SetIPv6Only(false))
	_, err = bind("10.66.0.1:7174")
	require.ErrorIs(t, err, rdmacm.ErrAnyAddr)

	require.ErrorIs(t, both.SetReuseAddr(false), ci.InvalidState)
	require.NoError(t, both.SetReuseAddr(true))
	sharing, err := s.m.NewID(rdmacm.IDConfig{ReuseAddr: true})
	require.NoError(t, err)
	require.NoError(t, sharing.Bind(ap("10.66.0.1:7174")))
	_, err = sharing.Listen(0)
	require.ErrorIs(t, err, syscall.EADDRINUSE)

	one, err := bind("10.66.0.1:7175")
	require.NoError(t, err)
	_, err = bind("10.66.0.1:7175")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NotErrorIs(t, err, rdmacm.ErrAnyAddr)
	require.NoError(t, one.Close())
}

// TestListenerRemoved removes the HCA of a listener, of an ID that is only bound, and of one that listens for any
// address, which continues (Linux: cma_process_remove).
func TestListenerRemoved(t *testing.T) {
	l := newLAN()
	s, c := l.host(t, "10.66.0.1", "10.66.0.2"), l.host(t, "10.66.0.9")
	events := rdmacm.NewEventChannel(nil)
	open := func(at string) *rdmacm.ID {
		id, err := s.m.NewID(rdmacm.IDConfig{Events: events})
		require.NoError(t, err)
		require.NoError(t, id.Bind(ap(at)))
		return id
	}
	bound, listening, all := open("10.66.0.1:7001"), open("10.66.0.1:7002"), open("0.0.0.0:7003")
	for _, id := range []*rdmacm.ID{listening, all} {
		_, err := id.Listen(0)
		require.NoError(t, err)
	}
	ln, err := s.m.ListenID(ap("10.66.0.1:7004"), rdmacm.ListenIDConfig{})
	require.NoError(t, err)
	s.pull(t, "10.66.0.1")
	_, err = ln.Accept(within(t))
	require.ErrorIs(t, err, rdmacm.ErrDeviceRemoved)
	removed := map[*rdmacm.ID]int{}
	for range 2 {
		e, err := events.Next(within(t))
		require.NoError(t, err)
		require.Equal(t, rdmacm.EventDeviceRemoved, e.Type)
		removed[e.ID]++
		e.Ack()
	}
	require.Equal(t, map[*rdmacm.ID]int{bound: 1, listening: 1}, removed)
	require.Zero(t, events.Len())
	require.ErrorIs(t, listening.Err(), rdmacm.ErrDeviceRemoved)
	require.NoError(t, s.hcas["10.66.0.1"].Close())

	s.plug(t, "10.66.0.1") // the address returns
	for _, x := range []struct {
		to   string
		want error
	}{{"10.66.0.1:7002", syscall.ECONNREFUSED}, {"10.66.0.1:7004", syscall.ECONNREFUSED}} {
		_, err = c.m.DialID(within(t), ap(x.to), rdmacm.DialIDConfig{})
		require.ErrorIs(t, err, x.want, x.to)
	}
	again := open("10.66.0.1:7002") // the port is free
	require.NoError(t, again.Close())
	for _, id := range []*rdmacm.ID{bound, listening} {
		require.ErrorIs(t, id.StartResolveAddr(ap("10.66.0.9:1"), 0), rdmacm.ErrDeviceRemoved)
		require.NoError(t, id.Close())
	}
	for _, to := range []string{"10.66.0.1", "10.66.0.2"} {
		id := resolved(t, c.m, rdmacm.NewEventChannel(nil), netip.AddrPortFrom(netip.MustParseAddr(to), 7003))
		require.NoError(t, id.StartConnect(rdmacm.ConnParam{}))
		e, err := events.Next(within(t))
		require.NoError(t, err)
		require.Equal(t, rdmacm.EventConnectRequest, e.Type)
		require.NoError(t, e.ID.Reject(nil))
		e.Ack()
	}
}
