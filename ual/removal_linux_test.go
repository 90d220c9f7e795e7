package ual_test

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/kproxy"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
)

// TestAdapterRemoved removes the adapter that a client uses, and adds another one. The client receives EventLocalFatal
// once, its verbs fail with InvalidState, its destroys succeed, and nothing of it is left in the driver or counted for
// its quota. The client uses the new adapter over the same connection.
func TestAdapterRemoved(t *testing.T) {
	for name, libraries := range map[string][]*ci.UserLibrary{"messages": nil, "bypass": {userlib.New()}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kproxy.Config{})
			c, err := ual.New(r.connect(), ual.Config{Name: t.Name(), Libraries: libraries})
			require.NoError(t, err)
			var fatal atomic.Int32
			ca := r.open(c, func(e ci.Event) {
				if e.Type == ci.EventLocalFatal {
					fatal.Add(1)
				}
			})
			p := newPair(t, ca, ci.CQCreate{OnCompletion: func(any) {}})
			m, err := ual.NewMemory(8192)
			require.NoError(t, err)
			mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
			require.NoError(t, err)
			_, err = p.b.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{mr.Region().SGE(0, 8)}}})
			require.NoError(t, err)
			require.NotZero(t, r.core.Load().MemoryBytes)

			guid := r.hca.Info().GUID
			require.NoError(t, r.al.Deregister(guid))
			for kind, n := range r.hca.Live() {
				assert.Zero(t, n, kind)
			}
			require.Eventually(t, func() bool { return fatal.Load() == 1 }, 10*time.Second, time.Millisecond)
			load := r.core.Load()
			assert.Zero(t, load.MemoryBytes)
			assert.Zero(t, load.QueueBytes)

			_, err = ca.Query()
			require.ErrorIs(t, err, ci.InvalidState)
			require.ErrorContains(t, err, "the adapter was removed")
			_, err = p.pd.CreateCQ(ci.CQCreate{Size: 1, OnCompletion: func(any) {}})
			require.ErrorIs(t, err, ci.InvalidState)
			if libraries == nil { // otherwise these verbs are accesses to memory, and no request completes any more
				_, err = p.cq.Poll(make([]ci.WC, 1))
				require.ErrorIs(t, err, ci.InvalidState)
				_, err = p.b.PostRecv([]ci.RecvWR{{}})
				require.ErrorIs(t, err, ci.InvalidState)
			}
			hcas, err := c.HCAs()
			require.NoError(t, err)
			require.Empty(t, hcas)

			port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
			require.NoError(t, err)
			again, err := reference.New(reference.Config{Ports: []rvt.Port{port}, GUID: guid})
			require.NoError(t, err)
			require.NoError(t, r.al.Register(again))
			other := newPair(t, r.open(c, nil), ci.CQCreate{OnCompletion: func(any) {}})
			mine, err := other.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8)), Access: ci.LocalWrite})
			require.NoError(t, err)
			_, err = other.b.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{mine.Region().SGE(0, 8)}}})
			require.NoError(t, err)
			_, err = other.a.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled}})
			require.NoError(t, err)
			for _, wc := range other.wait(2) {
				require.NoError(t, wc.Err())
			}

			require.ErrorIs(t, p.pd.Destroy(), ci.ResourceBusy)
			for _, o := range []ci.Object{p.a, p.b, p.cq, mr, p.pd, ca} {
				require.NoError(t, o.Destroy())
			}
			assert.EqualValues(t, 1, fatal.Load())
			require.NoError(t, m.Close())
			require.NoError(t, c.Close())
			require.NoError(t, r.al.Deregister(guid))
			require.NoError(t, again.Close())
		})
	}
}

// TestStop announces the end of the daemon to a client, whose verbs continue to work. Its later open is informed, too,
// and Stop returns when the client is closed.
func TestStop(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	c := r.dial()
	fatal := make(chan int, 4)
	opened := func(n int) func(ci.Event) {
		return func(e ci.Event) {
			if e.Type == ci.EventLocalFatal {
				fatal <- n
			}
		}
	}
	ca := r.open(c, opened(1))
	stopped := make(chan error, 1)
	go func() { stopped <- r.core.Stop(t.Context()) }()
	require.Equal(t, 1, <-fatal)
	_, err := ca.Query()
	require.NoError(t, err)
	late := r.dial()
	r.open(late, opened(2))
	require.Equal(t, 2, <-fatal)
	require.NoError(t, late.Close())
	select {
	case err := <-stopped:
		t.Fatal("stopped while a client is connected:", err)
	default:
	}
	require.NoError(t, c.Close())
	require.NoError(t, <-stopped)
	r.server.Close()
	require.Empty(t, fatal, "one event for each open")
}
