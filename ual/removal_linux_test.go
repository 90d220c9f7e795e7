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
	"ciddk/internal/testenv"
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
			require.Eventually(t, func() bool { return fatal.Load() == 1 }, testenv.Patience, time.Millisecond)
			load := r.core.Load()
			assert.Zero(t, load.MemoryBytes)
			assert.Zero(t, load.QueueBytes)

			_, err = ca.Query()
			require.ErrorIs(t, err, ci.InvalidState)
			require.ErrorContains(t, err, "the adapter was removed")
			_, err = p.pd.CreateCQ(ci.CQCreate{Size: 1, OnCompletion: func(any) {}})
			require.ErrorIs(t, err, ci.InvalidState)
			_, err = p.cq.Poll(make([]ci.WC, 1))
			require.ErrorIs(t, err, ci.InvalidState)
			_, err = p.b.PostRecv([]ci.RecvWR{{}})
			require.ErrorIs(t, err, ci.InvalidState)
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
			left := r.core.Load()
			assert.Equal(t, mine.Region().Length, uint64(left.MemoryBytes), "only the region of the new adapter")
			assert.Positive(t, left.QueueBytes)
			for _, o := range []ci.Object{other.a, other.b, other.cq, mine} {
				require.NoError(t, o.Destroy())
			}
			left = r.core.Load()
			assert.Zero(t, left.MemoryBytes)
			assert.Zero(t, left.QueueBytes)
			require.NoError(t, m.Close())
			require.NoError(t, c.Close())
			require.NoError(t, r.al.Deregister(guid))
			require.NoError(t, again.Close())
		})
	}
}

// TestOtherAdapterStays removes one of two adapters that a client has open. The memory and the queues of the other one
// remain, and are still counted.
func TestOtherAdapterStays(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	c := r.dial()
	p := newPair(t, r.open(c, nil), ci.CQCreate{OnCompletion: func(any) {}})
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.2")})
	require.NoError(t, err)
	second, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	require.NoError(t, r.al.Register(second))
	h, err := c.HCA(second.Info().GUID)
	require.NoError(t, err)
	ca, err := h.OpenCA(second.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)

	m, err := ual.NewMemory(8192)
	require.NoError(t, err)
	mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	require.NoError(t, err)
	before := r.core.Load()
	gone := newPair(t, ca, ci.CQCreate{OnCompletion: func(any) {}})
	other, err := ual.NewMemory(4096)
	require.NoError(t, err)
	_, err = gone.pd.RegisterMR(ci.MRCreate{Memory: other, Access: ci.LocalWrite})
	require.NoError(t, err)
	require.NoError(t, r.al.Deregister(second.Info().GUID))

	after := r.core.Load()
	assert.Equal(t, before.MemoryBytes, after.MemoryBytes)
	assert.Equal(t, before.QueueBytes, after.QueueBytes)
	copy(m.Bytes(), "stays")
	_, err = p.b.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{mr.Region().SGE(4096, 5)}}})
	require.NoError(t, err)
	_, err = p.a.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{mr.Region().SGE(0, 5)}}})
	require.NoError(t, err)
	for _, wc := range p.wait(2) {
		require.NoError(t, wc.Err())
	}
	assert.Equal(t, "stays", string(m.Bytes()[4096:4101]))
	require.NoError(t, c.Close())
	require.NoError(t, other.Close())
	require.NoError(t, m.Close())
	require.NoError(t, second.Close())
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
