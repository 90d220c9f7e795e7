package lnd

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/rvt"
)

// cmHost is a host of its own: access layer, adapter, connection manager.
type cmHost struct {
	t    *testing.T
	al   *accesslayer.AL
	hca  *reference.HCA
	m    *rdmacm.Manager
	addr netip.Addr
}

func newCMHost(t *testing.T, addr string, c reference.Config) *cmHost {
	needLoopback(t)
	h := &cmHost{t: t, al: accesslayer.New(accesslayer.Config{}), addr: netip.MustParseAddr(addr)}
	t.Cleanup(func() { assert.NoError(t, h.al.Close()) })
	var err error
	h.hca, err = reference.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.hca.Close()) })
	require.NoError(t, h.al.Register(h.hca))
	h.m, err = rdmacm.Open(h.al)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.m.Close()) })
	return h
}

func (h *cmHost) node(cfg Config) *Node {
	cfg.Addr = h.addr
	n, err := Listen(h.m, cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { assert.NoError(h.t, n.Close()) })
	return n
}

func TestCM(t *testing.T) {
	tests := []struct {
		name string
		harm float64
	}{{"good", 0}, {"bad", 0.01}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts := []starter{newCMHost(t, "127.19.79.11", udp("127.19.79.11", tt.harm, 1)), newCMHost(t, "127.19.79.12", udp("127.19.79.12", tt.harm, 2))}
			storm(t, hosts, Config{}, 12, 300000)
		})
	}
}

// What a peer refuses comes through the connection manager; so does its silence.
func TestCMRefusals(t *testing.T) {
	a, b := newCMHost(t, "127.19.79.13", udp("127.19.79.13", 0, 1)), newCMHost(t, "127.19.79.14", udp("127.19.79.14", 0, 2))
	s := newStore()
	cfg := s.config()
	cfg.Depth = 4
	na := a.node(Config{Depth: 30})
	ctx := limit(t)
	require.ErrorContains(t, na.Put(ctx, b.addr, Address{}, []byte("anybody?")), "connection refused")
	nb := b.node(cfg)
	require.NoError(t, na.Put(ctx, b.addr, Address{}, random(1, 1<<20)), "after a refusal for the queue depth")
	require.Equal(t, []int{4, 4}, depths(nb))
	require.NoError(t, nb.Close())
	err := na.Put(ctx, b.addr, Address{}, []byte("anybody?"))
	for errors.Is(err, rdmacm.ErrPeerDisconnected) { // it went over the old connection, which was just ending
		err = na.Put(ctx, b.addr, Address{}, []byte("anybody?"))
	}
	require.ErrorContains(t, err, "connection refused")
}

// Queue pairs that cannot be made are tried again with less depth, beneath the connection manager, too.
func TestCMDepthIsLowered(t *testing.T) {
	tries := 0
	a := newCMHost(t, "127.19.79.17", fewer(udp("127.19.79.17", 0, 1), sendDepth(5), &tries))
	b := newCMHost(t, "127.19.79.18", fewer(udp("127.19.79.18", 0, 2), sendDepth(3), &tries))
	s := newStore()
	na, nb := a.node(Config{}), b.node(s.config())
	before := tries // the connection manager has queue pairs of its own
	require.NoError(t, na.Put(limit(t), b.addr, Address{}, random(1, 1<<20)))
	require.Equal(t, before+4+3, tries)
	for _, n := range []*Node{na, nb} {
		require.Equal(t, []int{3, 3}, depths(n))
	}
}

// A host falls silent in the middle of things. What is pending at the other one ends when its adapter has given up.
func TestCMPeerSilent(t *testing.T) {
	var dead atomic.Bool
	port := reference.UDP(reference.UDPConfig{Addr: netip.MustParseAddr("127.19.79.16"), Port: udpPort})
	port = reference.Impair(port, reference.ImpairConfig{Filter: func(reference.Dir, *rvt.Packet) reference.Verdict {
		if dead.Load() {
			return reference.Drop
		}
		return reference.Pass
	}})
	a := newCMHost(t, "127.19.79.15", udp("127.19.79.15", 0, 1))
	b := newCMHost(t, "127.19.79.16", reference.Config{Ports: []reference.PortConfig{port}})
	s := newStore()
	na := a.node(Config{})
	b.node(s.config())
	ctx := limit(t)
	require.NoError(t, na.Put(ctx, b.addr, Address{}, []byte("connected")))
	c := must(na.connect(ctx, must(NIDOf(0, b.addr))))
	var wg sync.WaitGroup
	moved := make(chan struct{}, 100)
	for range 10 {
		wg.Go(func() {
			var err error
			for buf := make([]byte, 1<<20); err == nil; {
				err = c.put(ctx, Address{}, buf)
				select {
				case moved <- struct{}{}:
				default:
				}
			}
			assert.ErrorIs(t, err, ci.WCTimeoutRetryErr)
		})
	}
	<-moved
	dead.Store(true)
	wg.Wait()
	require.NoError(t, ctx.Err(), "the connection must end before the test's patience")
}
