package cmid_test

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
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// bubbleHost is a host in a synctest bubble. The test closes it.
type bubbleHost struct {
	hca *reference.HCA
	al  *accesslayer.AL
	m   *cmid.Manager
}

func newBubbleHost(t *testing.T, n *sim.Network, addr string, edit func(*cmid.Config)) *bubbleHost {
	t.Helper()
	port := testenv.Must(sim.New(n, sim.Config{Addr: netip.MustParseAddr(addr)}))
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	h := &bubbleHost{hca: hca, al: accesslayer.New(accesslayer.Config{PollInterval: -1})}
	require.NoError(t, h.al.Register(hca))
	var cfg cmid.Config
	if edit != nil {
		edit(&cfg)
	}
	h.m, err = openWith(h.al, cfg)
	require.NoError(t, err)
	return h
}

func (h *bubbleHost) close(t *testing.T) {
	t.Helper()
	require.NoError(t, errors.Join(h.m.Close(), h.al.Close(), h.hca.Close()))
}

// next returns the next event of a channel, which must be of a type, and acknowledges it.
func next(t *testing.T, c *cmid.EventChannel, want cmid.EventType) cmid.Event {
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
func requireNone(t *testing.T, c *cmid.EventChannel) {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	e, ok := c.TryNext()
	require.False(t, ok, "%v: %v", e.Type, e.Err)
}

// resolved returns an ID on a channel whose route to an address is resolved, with a QP.
func resolved(t *testing.T, m *cmid.Manager, c *cmid.EventChannel, to netip.AddrPort) *cmid.ID {
	t.Helper()
	id, err := m.NewID(cmid.IDConfig{Events: c})
	require.NoError(t, err)
	require.NoError(t, id.StartResolveAddr(to, time.Second))
	assert.Same(t, id, next(t, c, cmid.EventAddrResolved).ID)
	require.NoError(t, id.StartResolveRoute(time.Second))
	next(t, c, cmid.EventRouteResolved)
	require.NoError(t, id.CreateQP(cmid.QPConfig{}))
	return id
}

// TestSteps connects and disconnects two hosts with one event channel each and no goroutine of the program's own.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		var ready atomic.Int32
		ca, cb := cmid.NewEventChannel(func() { ready.Add(1) }), cmid.NewEventChannel(nil)
		lid, err := b.m.NewID(cmid.IDConfig{Events: cb})
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
		require.NoError(t, id.StartConnect(cmid.ConnParam{Private: []byte("hello")}))
		require.ErrorIs(t, id.StartConnect(cmid.ConnParam{}), ci.InvalidState, "one step at a time")
		e := next(t, cb, cmid.EventConnectRequest)
		assert.Same(t, ln, e.Listener)
		assert.Equal(t, "hello", string(e.Private[:5]))
		peer := e.ID
		require.NoError(t, peer.CreateQP(cmid.QPConfig{}))
		require.NoError(t, peer.StartAccept(cmid.ConnParam{Private: []byte("welcome")}))
		e = next(t, ca, cmid.EventEstablished)
		assert.Equal(t, "welcome", string(e.Private[:7]))
		assert.Same(t, peer, next(t, cb, cmid.EventEstablished).ID)
		next(t, cb, cmid.EventReadyToUse)
		requireNone(t, ca)
		requireNone(t, cb)

		require.NoError(t, id.StartDisconnect())
		require.NoError(t, id.StartDisconnect(), "a second call has no effect")
		assert.ErrorIs(t, next(t, ca, cmid.EventDisconnected).Err, cmid.ErrDisconnected)
		assert.ErrorIs(t, next(t, cb, cmid.EventDisconnected).Err, cmid.ErrPeerDisconnected)
		next(t, ca, cmid.EventTimeWaitExit)
		next(t, cb, cmid.EventTimeWaitExit)

		other := resolved(t, a.m, ca, ap("10.66.0.2:7"))
		require.NoError(t, other.StartConnect(cmid.ConnParam{}))
		e = next(t, cb, cmid.EventConnectRequest)
		require.NoError(t, e.ID.Reject([]byte("no")))
		e2 := next(t, ca, cmid.EventRejected)
		assert.ErrorIs(t, e2.Err, syscall.ECONNREFUSED)
		assert.Equal(t, "no", string(e2.Private[:2]))
		third, fourth := resolved(t, a.m, ca, ap("10.66.0.2:7")), resolved(t, a.m, ca, ap("10.66.0.2:7"))
		require.NoError(t, third.StartConnect(cmid.ConnParam{}))
		require.NoError(t, fourth.StartConnect(cmid.ConnParam{}))
		requireNone(t, ca)
		require.NoError(t, ln.Close(), "which rejects the requests that nobody took")
		var reasons [2]mad.RejReason
		for range 2 {
			e := next(t, ca, cmid.EventRejected)
			reject, ok := errors.AsType[*cm.RejectError](e.Err)
			require.True(t, ok)
			if e.ID == third {
				reasons[0] = reject.Reason
			} else {
				require.Same(t, e.ID, fourth)
				reasons[1] = reject.Reason
			}
		}
		assert.Equal(t, [2]mad.RejReason{mad.RejConsumer, mad.RejInvalidServiceID}, reasons,
			"one request was on the channel, the other one at the connection manager")
		requireNone(t, cb)

		nowhere := resolved(t, a.m, ca, ap("10.66.0.77:7"))
		require.NoError(t, nowhere.StartConnect(cmid.ConnParam{}))
		next(t, ca, cmid.EventUnreachable)
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
		c := cmid.NewEventChannel(nil)
		ln, err := b.m.Listen(ap("10.66.0.2:7"), cmid.ListenConfig{ID: cmid.IDConfig{Events: c}})
		require.NoError(t, err)
		helper := resolved(t, a.m, c, ap("10.66.0.2:7")) // has the QP
		id, err := a.m.NewID(cmid.IDConfig{Events: c})
		require.NoError(t, err)
		require.NoError(t, id.SetTrafficClass(0x20))
		require.NoError(t, id.SetLifeTime(10))
		require.NoError(t, id.SetReuseAddr(true))
		require.NoError(t, id.StartResolveAddr(ap("10.66.0.2:7"), 0))
		next(t, c, cmid.EventAddrResolved)
		require.NoError(t, id.StartResolveRoute(0))
		next(t, c, cmid.EventRouteResolved)
		assert.Equal(t, uint8(0x20), id.Path().AV.GRH.TrafficClass)
		assert.EqualValues(t, 10, id.Path().LifeTime)
		require.ErrorIs(t, id.SetTrafficClass(0), ci.InvalidState)
		require.ErrorIs(t, id.SetReuseAddr(false), ci.InvalidState)
		require.ErrorIs(t, id.SetLifeTime(200), ci.InvalidParameter)

		qp := helper.QP()
		require.NoError(t, id.StartConnect(cmid.ConnParam{QP: &cm.QP{Num: qp.Num(), StartPSN: 5}}))
		e := next(t, c, cmid.EventConnectRequest)
		require.NoError(t, e.ID.CreateQP(cmid.QPConfig{}))
		require.NoError(t, e.ID.StartAccept(cmid.ConnParam{}))
		assert.Same(t, id, next(t, c, cmid.EventConnectResponse).ID)
		requireNone(t, c)
		for _, to := range []ci.QPState{ci.QPRTR, ci.QPRTS} {
			set, attr, err := id.QPAttr(to)
			require.NoError(t, err)
			require.NoError(t, qp.Modify(set, attr))
		}
		require.NoError(t, id.Establish())
		assert.Same(t, e.ID, next(t, c, cmid.EventEstablished).ID)
		next(t, c, cmid.EventReadyToUse)

		// The peer disconnects: the DREQ is not answered before the caller's QP is in Error, by StartDisconnect.
		require.NoError(t, e.ID.StartDisconnect())
		assert.Same(t, id, next(t, c, cmid.EventDisconnected).ID)
		requireNone(t, c)
		require.NoError(t, id.StartDisconnect())
		assert.Same(t, e.ID, next(t, c, cmid.EventDisconnected).ID)

		// Disconnect before Establish rejects the reply.
		again := resolved(t, a.m, cmid.NewEventChannel(nil), ap("10.66.0.2:7"))
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
		ca, cb := cmid.NewEventChannel(nil), cmid.NewEventChannel(nil)
		_, err := b.m.Listen(ap("10.66.0.2:7"), cmid.ListenConfig{ID: cmid.IDConfig{Events: cb}})
		require.NoError(t, err)
		id, err := a.m.NewID(cmid.IDConfig{Events: ca})
		require.NoError(t, err)
		require.ErrorIs(t, id.StartDisconnect(), ci.InvalidState)
		require.NoError(t, id.ResolveAddr(t.Context(), ap("10.66.0.2:7")))
		require.NoError(t, id.ResolveRoute(t.Context()))
		require.NoError(t, id.StartConnect(cmid.ConnParam{QP: &cm.QP{Num: 77}}))
		e := next(t, cb, cmid.EventConnectRequest)
		require.NoError(t, e.ID.CreateQP(cmid.QPConfig{}))
		require.NoError(t, e.ID.StartAccept(cmid.ConnParam{}))
		next(t, ca, cmid.EventConnectResponse)
		require.NoError(t, id.StartDisconnect())
		next(t, ca, cmid.EventDisconnected)
		next(t, cb, cmid.EventRejected)
		a.close(t)
		b.close(t)
	})
}

// TestDatagramSteps looks up a datagram endpoint with events. The passive end has no event after StartAccept.
func TestDatagramSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		a, b := newBubbleHost(t, n, "10.66.0.1", nil), newBubbleHost(t, n, "10.66.0.2", nil)
		ca, cb := cmid.NewEventChannel(nil), cmid.NewEventChannel(nil)
		udp := func(c *cmid.EventChannel) cmid.IDConfig { return cmid.IDConfig{Space: cmid.UDP, Events: c} }
		_, err := b.m.Listen(ap("10.66.0.2:7"), cmid.ListenConfig{ID: udp(cb)})
		require.NoError(t, err)
		id, err := a.m.NewID(udp(ca))
		require.NoError(t, err)
		require.NoError(t, id.ResolveAddr(t.Context(), ap("10.66.0.2:7")))
		require.NoError(t, id.ResolveRoute(t.Context()))
		requireNone(t, ca)
		require.NoError(t, id.StartConnect(cmid.ConnParam{Private: []byte("who")}))
		e := next(t, cb, cmid.EventConnectRequest)
		require.NoError(t, e.ID.CreateQP(cmid.QPConfig{}))
		require.NoError(t, e.ID.StartAccept(cmid.ConnParam{Private: []byte("me")}))
		requireNone(t, cb)
		assert.Equal(t, "me", string(next(t, ca, cmid.EventEstablished).Private[:2]))
		assert.Equal(t, e.ID.QP().Num(), id.Peer().QPN)

		g, err := e.ID.StartJoin(netip.MustParseAddr("239.1.2.3"), cmid.JoinConfig{})
		require.NoError(t, err)
		assert.Same(t, g, next(t, cb, cmid.EventGroupJoined).Group)
		_, err = id.StartJoin(netip.MustParseAddr("239.1.2.3"), cmid.JoinConfig{})
		require.ErrorIs(t, err, ci.InvalidState, "no QP")
		g2, err := id.StartJoin(netip.MustParseAddr("239.1.2.3"), cmid.JoinConfig{NoAttach: true})
		require.NoError(t, err)
		assert.Equal(t, g.Peer().AV.GRH.DGID, g2.Peer().AV.GRH.DGID)
		next(t, ca, cmid.EventGroupJoined)
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
		c := cmid.NewEventChannel(nil)
		id, err := h.m.NewID(cmid.IDConfig{Events: c})
		require.NoError(t, err)
		other, err := h.m.NewID(cmid.IDConfig{Events: c})
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, id.StartResolveAddr(ap("10.66.0.9:7"), 0))
		}
		require.NoError(t, other.StartResolveAddr(ap("10.66.0.9:7"), 0))
		e, ok := c.TryNext()
		require.True(t, ok)
		require.Same(t, id, e.ID)
		done := make(chan error, 1)
		go func() { done <- id.Close() }()
		synctest.Wait()
		require.Empty(t, done, "an event is not acknowledged")
		e.Ack()
		require.NoError(t, <-done)
		e.Ack()
		e, ok = c.TryNext()
		require.True(t, ok)
		assert.Same(t, other, e.ID, "the other event of the closed ID was discarded")
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
		from, to := cmid.NewEventChannel(nil), cmid.NewEventChannel(func() { ready++ })
		var ids [2]*cmid.ID
		for k := range ids {
			var err error
			ids[k], err = h.m.NewID(cmid.IDConfig{Events: from})
			require.NoError(t, err)
			require.NoError(t, ids[k].StartResolveAddr(ap("10.66.0.9:7"), 0))
		}
		require.NoError(t, ids[0].Migrate(to))
		assert.Equal(t, 1, ready)
		assert.Same(t, ids[0], next(t, to, cmid.EventAddrResolved).ID)
		assert.Same(t, ids[1], next(t, from, cmid.EventAddrResolved).ID)
		require.NoError(t, ids[0].StartResolveRoute(0))
		next(t, to, cmid.EventRouteResolved)
		require.ErrorIs(t, ids[0].Migrate(nil), ci.InvalidParameter)
		own, err := h.m.NewID(cmid.IDConfig{})
		require.NoError(t, err)
		require.ErrorIs(t, own.Migrate(to), ci.InvalidState)
		h.close(t)
	})
}

// silentResolver never has a result before its context ends.
type silentResolver struct{}

func (silentResolver) ResolveAddr(ctx context.Context, _ resolve.Query, done func(resolve.Source, error)) {
	context.AfterFunc(ctx, func() { done(resolve.Source{}, ctx.Err()) })
}

func (silentResolver) ResolveRoute(ctx context.Context, _ resolve.Query, _ resolve.Source, done func(cm.Path, error)) {
	context.AfterFunc(ctx, func() { done(cm.Path{}, ctx.Err()) })
}

// TestStepTimeout tests that a step ends at its timeout, and a blocking call with its context.
func TestStepTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBubbleHost(t, sim.NewNetwork(sim.NetworkConfig{}), "10.66.0.1", func(c *cmid.Config) {
			c.Resolver = silentResolver{}
		})
		c := cmid.NewEventChannel(nil)
		id, err := h.m.NewID(cmid.IDConfig{Events: c})
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, id.StartResolveAddr(ap("10.66.0.9:7"), 3*time.Second))
		e := next(t, c, cmid.EventAddrError)
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
		c := cmid.NewEventChannel(nil)
		const count = 5
		ids := map[*cmid.ID]int{}
		for k := range count {
			id := resolved(t, h.m, c, ap("10.66.0.9:7")) // no host has the address
			require.NoError(t, id.StartConnect(cmid.ConnParam{}))
			ids[id] = k
		}
		requireNone(t, c)
		require.NoError(t, h.al.Deregister(h.hca.Info().GUID))
		synctest.Wait()
		var got [count][]cmid.EventType
		for e, ok := c.TryNext(); ok; e, ok = c.TryNext() {
			assert.ErrorIs(t, e.Err, cmid.ErrDeviceRemoved, "%v", e.Type)
			got[ids[e.ID]] = append(got[ids[e.ID]], e.Type)
			e.Ack()
		}
		for _, types := range got {
			assert.Equal(t, []cmid.EventType{cmid.EventDeviceRemoved, cmid.EventConnectError}, types)
		}
		for id := range ids {
			require.ErrorIs(t, id.StartResolveAddr(ap("10.66.0.9:7"), 0), cmid.ErrDeviceRemoved)
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
		c, requests := cmid.NewEventChannel(nil), cmid.NewEventChannel(nil)
		start := func(count int) {
			for range count {
				lid, err := b.m.NewID(cmid.IDConfig{Events: requests})
				require.NoError(t, err)
				_, err = lid.Listen(1)
				require.NoError(t, err)
				to := netip.AddrPortFrom(netip.MustParseAddr("10.66.0.2"), lid.LocalAddr().Port())
				accepting := resolved(t, a.m, c, to)
				require.NoError(t, accepting.StartConnect(cmid.ConnParam{}))
				e := next(t, requests, cmid.EventConnectRequest)
				require.NoError(t, e.ID.Delay(), "so that the active end stays pending, too")
				next(t, c, cmid.EventDelayed)
				connecting := resolved(t, a.m, c, ap("10.66.0.9:7"))
				require.NoError(t, connecting.StartConnect(cmid.ConnParam{}))
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
	s, c := l.Host(t, "10.66.0.1", "fd66::1"), l.Host(t, "10.66.0.9", "fd66::9")
	ctx := cmrig.Within(t)
	channels := map[string]*cmid.EventChannel{}
	for _, at := range []string{"0.0.0.0:7174", "[::]:7174"} {
		channels[at] = cmid.NewEventChannel(nil)
		id, err := s.M.NewID(cmid.IDConfig{Events: channels[at]})
		require.NoError(t, err)
		require.NoError(t, id.SetIPv6Only(at == "[::]:7174"))
		require.NoError(t, id.Bind(ap(at)))
		_, err = id.Listen(0)
		require.NoError(t, err, at)
		require.ErrorIs(t, id.SetIPv6Only(false), ci.InvalidState)
	}
	_, err := s.M.Listen(ap("[fd66::1]:7174"), cmid.ListenConfig{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = s.M.Listen(ap("10.66.0.1:7175"), cmid.ListenConfig{ID: cmid.IDConfig{IPv6Only: true}})
	require.NoError(t, err, "it concerns :: alone")
	for to, at := range map[string]string{"10.66.0.1": "0.0.0.0:7174", "fd66::1": "[::]:7174"} {
		id := resolved(t, c.M, cmid.NewEventChannel(nil), gidAddr(to))
		require.NoError(t, id.StartConnect(cmid.ConnParam{}))
		e, err := channels[at].Next(ctx)
		require.NoError(t, err)
		assert.Equal(t, gidAddr(to).String(), e.ID.LocalAddr().String())
		require.NoError(t, e.ID.Reject(nil))
		e.Ack()
	}
}

// TestBoundOptions changes the options of IDs that are bound: their ports follow.
func TestBoundOptions(t *testing.T) {
	s := newLAN().Host(t, "10.66.0.1", "fd66::1")
	bind := func(at string) (*cmid.ID, error) {
		id, err := s.M.NewID(cmid.IDConfig{})
		require.NoError(t, err)
		return id, id.Bind(ap(at))
	}
	both, err := bind("[::]:7174")
	require.NoError(t, err)
	_, err = bind("0.0.0.0:7174")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorIs(t, err, cmid.ErrAnyAddr)
	require.NoError(t, both.SetIPv6Only(true))
	four, err := bind("0.0.0.0:7174")
	require.NoError(t, err)
	require.ErrorIs(t, both.SetIPv6Only(false), syscall.EADDRINUSE)
	require.NoError(t, four.Close())
	require.NoError(t, both.SetIPv6Only(false))
	_, err = bind("10.66.0.1:7174")
	require.ErrorIs(t, err, cmid.ErrAnyAddr)

	require.ErrorIs(t, both.SetReuseAddr(false), ci.InvalidState)
	require.NoError(t, both.SetReuseAddr(true))
	sharing, err := s.M.NewID(cmid.IDConfig{ReuseAddr: true})
	require.NoError(t, err)
	require.NoError(t, sharing.Bind(ap("10.66.0.1:7174")))
	_, err = sharing.Listen(0)
	require.ErrorIs(t, err, syscall.EADDRINUSE)

	one, err := bind("10.66.0.1:7175")
	require.NoError(t, err)
	_, err = bind("10.66.0.1:7175")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NotErrorIs(t, err, cmid.ErrAnyAddr)
	require.NoError(t, one.Close())
}

// TestListenerRemoved removes the HCA of a listener, of an ID that is only bound, and of one that listens for any
// address, which continues (Linux: cma_process_remove).
func TestListenerRemoved(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1", "10.66.0.2"), l.Host(t, "10.66.0.9")
	events := cmid.NewEventChannel(nil)
	open := func(at string) *cmid.ID {
		id, err := s.M.NewID(cmid.IDConfig{Events: events})
		require.NoError(t, err)
		require.NoError(t, id.Bind(ap(at)))
		return id
	}
	bound, listening, all := open("10.66.0.1:7001"), open("10.66.0.1:7002"), open("0.0.0.0:7003")
	for _, id := range []*cmid.ID{listening, all} {
		_, err := id.Listen(0)
		require.NoError(t, err)
	}
	ln, err := s.M.Listen(ap("10.66.0.1:7004"), cmid.ListenConfig{})
	require.NoError(t, err)
	s.Pull(t, "10.66.0.1")
	_, err = ln.Accept(cmrig.Within(t))
	require.ErrorIs(t, err, cmid.ErrDeviceRemoved)
	removed := map[*cmid.ID]int{}
	for range 2 {
		e, err := events.Next(cmrig.Within(t))
		require.NoError(t, err)
		require.Equal(t, cmid.EventDeviceRemoved, e.Type)
		removed[e.ID]++
		e.Ack()
	}
	require.Equal(t, map[*cmid.ID]int{bound: 1, listening: 1}, removed)
	require.Zero(t, events.Len())
	require.ErrorIs(t, listening.Err(), cmid.ErrDeviceRemoved)
	require.NoError(t, s.HCAs["10.66.0.1"].Close())

	s.Plug(t, "10.66.0.1") // the address returns
	for _, x := range []struct {
		to   string
		want error
	}{{"10.66.0.1:7002", syscall.ECONNREFUSED}, {"10.66.0.1:7004", syscall.ECONNREFUSED}} {
		_, err = c.M.Dial(cmrig.Within(t), ap(x.to), cmid.DialConfig{})
		require.ErrorIs(t, err, x.want, x.to)
	}
	again := open("10.66.0.1:7002") // the port is free
	require.NoError(t, again.Close())
	for _, id := range []*cmid.ID{bound, listening} {
		require.ErrorIs(t, id.StartResolveAddr(ap("10.66.0.9:1"), 0), cmid.ErrDeviceRemoved)
		require.NoError(t, id.Close())
	}
	for _, to := range []string{"10.66.0.1", "10.66.0.2"} {
		id := resolved(t, c.M, cmid.NewEventChannel(nil), netip.AddrPortFrom(netip.MustParseAddr(to), 7003))
		require.NoError(t, id.StartConnect(cmid.ConnParam{}))
		e, err := events.Next(cmrig.Within(t))
		require.NoError(t, err)
		require.Equal(t, cmid.EventConnectRequest, e.Type)
		require.NoError(t, e.ID.Reject(nil))
		e.Ack()
	}
}
