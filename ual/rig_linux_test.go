package ual_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
)

// TestMain makes the program a client process, when a test starts it again.
func TestMain(m *testing.M) {
	runRole()
	goleak.VerifyTestMain(m)
}

// rig is a daemon in this process, with one adapter.
type rig struct {
	t      *testing.T
	al     *accesslayer.AL
	core   *kproxy.Server
	server *server.Server
	hca    *reference.HCA
}

func newRig(t *testing.T, cfg kproxy.Config) *rig {
	return newRigOf(t, cfg, func(h *reference.HCA) ci.HCA { return h })
}

// newRigOf returns a rig whose adapter is behind a driver.
func newRigOf(t *testing.T, cfg kproxy.Config, driver func(*reference.HCA) ci.HCA) *rig {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	r := &rig{t: t, al: accesslayer.New(accesslayer.Config{PollInterval: -1}), hca: h}
	require.NoError(t, r.al.Register(driver(h)))
	cfg.AL = r.al
	r.core, err = kproxy.New(cfg)
	require.NoError(t, err)
	r.server = server.New(r.core, clock.Real())
	t.Cleanup(func() {
		r.server.Close()
		require.NoError(t, r.core.Close())
		require.NoError(t, r.al.Close())
		require.NoError(t, h.Close())
	})
	return r
}

// connect returns a connection of a client in this process.
func (r *rig) connect() *native.Conn {
	a, b, err := native.Pair()
	require.NoError(r.t, err)
	r.server.ServeConn(a)
	return b
}

// dial returns a client.
func (r *rig) dial() *ual.Client {
	c, err := ual.New(r.connect(), ual.Config{Name: r.t.Name()})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, c.Close()) })
	return c
}

// open opens the adapter.
func (r *rig) open(c *ual.Client, onEvent func(ci.Event)) ci.CA {
	hcas, err := c.HCAs()
	require.NoError(r.t, err)
	require.Len(r.t, hcas, 1)
	if onEvent == nil {
		onEvent = func(ci.Event) {}
	}
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, onEvent, nil)
	require.NoError(r.t, err)
	return ca
}
