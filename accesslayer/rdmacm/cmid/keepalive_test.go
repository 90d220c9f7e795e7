package cmid_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

// keepAlive is the configuration of the tests.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// probes counts the probes on a network: RC RDMA WRITE Only (0x0a), without payload.
type probes struct {
	n    atomic.Int64
	dead atomic.Bool // drop all packets
}

func (p *probes) lan() *lan {
	return &lan{Open: open, Network: sim.NewNetwork(sim.NetworkConfig{Filter: func(d *sim.Datagram) impair.Verdict {
		const bth, length = 20 + 8, 20 + 8 + 12 + 16 + 4
		if len(d.Data) == length && d.Data[bth] == 0x0a {
			p.n.Add(1)
		}
		if p.dead.Load() {
			return impair.Drop
		}
		return impair.Pass
	}})}
}

// dialWatched connects, with keepalive at the passive end.
func dialWatched(t *testing.T, ctx context.Context, ln *cmid.Listener, c *host, depth int) (active,
	passive *cmid.ID) {
	t.Helper()
	caps := cmid.QPConfig{Caps: ci.QPCaps{SendDepth: depth, RecvDepth: 1, MaxInline: 8}}
	type result struct {
		id  *cmid.ID
		err error
	}
	done := make(chan result, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if err == nil {
			watched := caps
			watched.KeepAlive = keepAlive
			if err = id.CreateQP(watched); err == nil {
				err = id.Accept(ctx, cmid.ConnParam{})
			}
		}
		done <- result{id, err}
	}()
	active, err := c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{QP: caps})
	require.NoError(t, err)
	r := <-done
	require.NoError(t, r.err)
	return active, r.id
}

// TestKeepAliveManyPeersLost has a thousand peers vanish at once, and ten thousand with CIDDK_WHOLE set. Each
// connection ends within the configured time, and its memory is released.
func TestKeepAliveManyPeersLost(t *testing.T) {
	peers := 300
	switch {
	case testenv.Race || testing.Short():
	case testenv.Whole():
		peers = 10_000
	default:
		peers = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		var p probes
		l := p.lan()
		s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
		ctx := t.Context()
		ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
		require.NoError(t, err)
		first, other := dialWatched(t, ctx, ln, c, 1) // creates what is created once
		require.NoError(t, first.Close())
		require.NoError(t, other.Close())
		time.Sleep(time.Hour)
		hca := s.HCAs["10.66.0.1"]
		live, start := hca.Live(), heap()

		var lost atomic.Int64
		var slowest atomic.Int64
		var died time.Time
		active := make([]*cmid.ID, peers)
		for k := range peers {
			var id *cmid.ID
			active[k], id = dialWatched(t, ctx, ln, c, 1)
			context.AfterFunc(id.Context(), func() {
				assert.ErrorIs(t, id.Err(), cmid.ErrPeerLost)
				slowest.Store(max(slowest.Load(), int64(time.Since(died))))
				assert.NoError(t, id.Close())
				lost.Add(1)
			})
		}
		time.Sleep(10 * time.Minute)
		require.Zero(t, lost.Load(), "a peer that replies to probes is not lost")
		require.GreaterOrEqual(t, p.n.Load(), int64(peers)*19, "each peer is probed every 30 s")
		full := heap()

		died = time.Now()
		p.dead.Store(true)
		time.Sleep(keepAlive.Idle + time.Duration(keepAlive.Count)*keepAlive.Interval + time.Second)
		synctest.Wait()
		require.EqualValues(t, peers, lost.Load())
		require.Greater(t, time.Duration(slowest.Load()), keepAlive.Interval)
		time.Sleep(10 * time.Minute) // the retries of the disconnects, and time-wait
		require.Equal(t, live, hca.Live())
		for _, id := range active { // whose peers are lost
			require.NoError(t, id.Close())
		}
		clear(active)
		time.Sleep(10 * time.Minute)
		left := heap() - start
		t.Logf("%d peers: %d bytes, then %d", peers, full-start, left)
		require.Less(t, left, (full-start)/10, "of %d bytes", full-start)
		require.NoError(t, ln.Close())
	})
}

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one empties pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestKeepAliveEnd tests that the end has one reason, which is a timeout, and that the application gets no completions
// of acknowledged probes.
func TestKeepAliveEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p probes
		l := p.lan()
		s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
		ctx := t.Context()
		ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
		require.NoError(t, err)
		_, id := dialWatched(t, ctx, ln, c, 31)
		_, err = id.QP().PostRecv([]ci.RecvWR{{ID: 1}})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.NotZero(t, p.n.Load())
		wc := make([]ci.WC, 8)
		n, err := id.SendCQ().Poll(wc)
		require.NoError(t, err)
		require.Zero(t, n)
		attr, err := id.QP().Query()
		require.NoError(t, err)
		require.Greater(t, attr.SendDepth, 31, "the send queue has an entry for the probe")

		p.dead.Store(true)
		start := time.Now()
		<-id.Done()
		took := time.Since(start)
		require.LessOrEqual(t, took, keepAlive.Idle+3*keepAlive.Interval)
		require.ErrorIs(t, id.Err(), cmid.ErrPeerLost)
		timeout, ok := errors.AsType[net.Error](id.Err())
		require.True(t, ok && timeout.Timeout())
		for {
			e, err := id.Next(ctx)
			require.NoError(t, err)
			if e.Type == cmid.EventDisconnected {
				require.ErrorIs(t, e.Err, cmid.ErrPeerLost)
				break
			}
		}
		n, err = id.SendCQ().Poll(wc)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, cmid.KeepAliveID, wc[0].ID)
		require.NotEqual(t, ci.WCSuccess, wc[0].Status)
		n, err = id.RecvCQ().Poll(wc)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, ci.WCFlushErr, wc[0].Status)
		require.NoError(t, id.Close())
	})
}

// TestKeepAliveTraffic tests that a peer that sends is not probed, and that keepalive can be turned off and on again.
func TestKeepAliveTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p probes
		l := p.lan()
		s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
		ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
		require.NoError(t, err)
		peer, id := dialWatched(t, t.Context(), ln, c, 31)
		b := cmrig.NewBuffer(t, id, 64)
		for range 20 {
			time.Sleep(keepAlive.Idle / 2)
			_, err := id.QP().PostRecv([]ci.RecvWR{{SGL: []ci.SGE{b.R.SGE(0, 64)}}})
			require.NoError(t, err)
			_, err = peer.QP().PostSend([]ci.SendWR{{Op: ci.OpSend, Inline: []byte("x")}})
			require.NoError(t, err)
			wc := make([]ci.WC, 1)
			_, err = id.RecvCQ().Wait(t.Context(), wc)
			require.NoError(t, err)
			require.Equal(t, ci.WCSuccess, wc[0].Status)
		}
		require.Zero(t, p.n.Load())
		require.NoError(t, id.SetKeepAliveConfig(net.KeepAliveConfig{}))
		time.Sleep(time.Hour)
		require.Zero(t, p.n.Load())
		fast := keepAlive
		fast.Idle = time.Second
		require.NoError(t, id.SetKeepAliveConfig(fast))
		require.NoError(t, peer.SetKeepAliveConfig(fast), "both ends")
		time.Sleep(time.Minute)
		require.Greater(t, p.n.Load(), int64(20))
		require.NoError(t, id.Err())
		require.NoError(t, peer.Err())

		// The QP fails without an event.
		require.NoError(t, id.QP().Modify(ci.ToError()))
		<-id.Done()
		require.ErrorIs(t, id.Err(), cmid.ErrQPFailed)
		<-peer.Done()
		require.ErrorIs(t, peer.Err(), cmid.ErrPeerLost, "its QP does not reply")
		for _, x := range []*cmid.ID{id, peer} {
			require.NoError(t, x.Close())
			require.ErrorIs(t, x.SetKeepAliveConfig(fast), net.ErrClosed)
		}
		time.Sleep(time.Hour)
	})
}

// mute is a QP of a driver without ci.PeerActivity.
type mute struct{ ci.QP }

// TestKeepAliveRefused tests configurations and QPs without keepalive.
func TestKeepAliveRefused(t *testing.T) {
	c := newLAN().Host(t, "10.66.0.2")
	bound := func(typ ci.QPType) *cmid.ID {
		id, err := c.M.NewID(cmid.IDConfig{Type: typ})
		require.NoError(t, err)
		require.NoError(t, id.Bind(ap("10.66.0.2:0")))
		return id
	}
	id := bound(ci.UC)
	require.ErrorIs(t, id.CreateQP(cmid.QPConfig{KeepAlive: keepAlive}), ci.InvalidServiceType)
	require.Nil(t, id.QP())
	id = bound(ci.RC)
	require.ErrorIs(t, id.SetKeepAliveConfig(keepAlive), ci.InvalidState)
	for _, cfg := range []cmid.QPConfig{
		{KeepAlive: net.KeepAliveConfig{Enable: true, Idle: -1}},
		{KeepAlive: net.KeepAliveConfig{Enable: true, Interval: -1}},
		{KeepAlive: net.KeepAliveConfig{Enable: true, Count: -1}},
		{KeepAlive: keepAlive, Flags: ci.QPSignalAll},
		{KeepAlive: keepAlive, Flags: ci.QPClientSyncSend},
	} {
		require.ErrorIs(t, id.CreateQP(cfg), ci.InvalidParameter)
	}
	made := bound(ci.RC)
	require.NoError(t, made.CreateQP(cmid.QPConfig{}))
	pd, err := id.PD()
	require.NoError(t, err)
	qp, err := pd.NewQP(ci.QPCreate{Type: ci.RC, SendCQ: made.SendCQ(), RecvCQ: made.RecvCQ(),
		QPCaps: ci.QPCaps{SendDepth: 1, SendSGE: 1}}, nil)
	require.NoError(t, err)
	require.NoError(t, id.UseQP(mute{qp}, 0))
	require.ErrorIs(t, id.SetKeepAliveConfig(keepAlive), ci.Unsupported)
	require.NoError(t, id.Close())
	require.NoError(t, qp.Destroy())
}
