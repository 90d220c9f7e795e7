package services_test

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	daemon "ciddk/kproxy/services"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
	"ciddk/ual/services"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// rig is a daemon in this process, with adapters on a simulated network.
type rig struct {
	t      *testing.T
	al     *accesslayer.AL
	mads   *mads.Manager
	cm     *cm.Manager
	svc    *daemon.Service
	core   *kproxy.Server
	server *server.Server
	hcas   []*reference.HCA
	path   string // of its socket
}

// newRig starts a daemon with one adapter for each port.
func newRig(t *testing.T, cfg kproxy.Config, ports ...rvt.Port) *rig {
	r := &rig{t: t, al: accesslayer.New(accesslayer.Config{PollInterval: -1}),
		path: filepath.Join(t.TempDir(), "socket")}
	for _, p := range ports {
		r.add(p)
	}
	var err error
	r.mads, err = mads.New(r.al, mads.Config{})
	require.NoError(t, err)
	r.cm, err = cm.New(r.al, r.mads, cm.Config{})
	require.NoError(t, err)
	r.svc, err = daemon.New(daemon.Config{AL: r.al, MAD: r.mads, CM: r.cm})
	require.NoError(t, err)
	cfg.AL, cfg.Service, cfg.Logger = r.al, r.svc, slog.New(slog.DiscardHandler)
	r.core, err = kproxy.New(cfg)
	require.NoError(t, err)
	r.server = server.New(r.core, clock.Real())
	l, err := native.Listen(r.path)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		require.NoError(t, <-served)
		r.server.Close()
		require.NoError(t, r.core.Close())
		require.NoError(t, r.svc.Close())
		require.NoError(t, r.cm.Close())
		require.NoError(t, r.mads.Close())
		require.NoError(t, r.al.Close())
		for _, h := range r.hcas {
			require.NoError(t, h.Close())
		}
	})
	return r
}

func (r *rig) add(p rvt.Port) *reference.HCA {
	h, err := reference.New(reference.Config{Ports: []rvt.Port{p}})
	require.NoError(r.t, err)
	r.hcas = append(r.hcas, h)
	require.NoError(r.t, r.al.Register(h))
	return h
}

// simPorts returns ports of one simulated network.
func simPorts(t *testing.T, addrs ...string) (list []rvt.Port) {
	n := sim.NewNetwork(sim.NetworkConfig{})
	for _, a := range addrs {
		p, err := sim.New(n, sim.Config{Addr: netip.MustParseAddr(a)})
		require.NoError(t, err)
		list = append(list, p)
	}
	return list
}

// connect returns a client of the daemon.
func (r *rig) connect(libraries ...*ci.UserLibrary) *ual.Client {
	a, b, err := native.Pair()
	require.NoError(r.t, err)
	r.server.ServeConn(a)
	c, err := ual.New(b, ual.Config{Name: r.t.Name(), Libraries: libraries})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, c.Close()) })
	return c
}

// open returns services of a new client.
func (r *rig) open() (*services.Services, *ual.Client) {
	c := r.connect()
	s, err := services.Open(c)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, s.Close()) })
	return s, c
}

// manager returns a connection manager of a new client.
func (r *rig) manager(libraries ...*ci.UserLibrary) *rdmacm.Manager {
	c := r.connect(libraries...)
	m, err := services.New(c, services.Config{AccessLayer: accesslayer.Config{PollInterval: -1}})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, m.Close()) })
	return m
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
