package services

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/hca/reference"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// noPorts are MAD services without ports.
type noPorts struct{ mads.Service }

func (noPorts) Watch(func(mads.Port, bool)) (stop func()) { return func() {} }

// noCM is a connection manager that is not used.
type noCM struct{ cm.Service }

// TestAdapterNotices adds and removes an adapter that has no MAD services, so that no notice of a port hides a missing
// one of the adapter. The client receives an event for each change, and an adapter that was removed and added again has
// another serial number.
func TestAdapterNotices(t *testing.T) {
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	s, err := New(Config{AL: al, MAD: noPorts{}, CM: noCM{}})
	require.NoError(t, err)
	core, err := kproxy.New(kproxy.Config{AL: al, Service: s})
	require.NoError(t, err)
	c, err := core.Open(kproxy.Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, "")
	require.NoError(t, err)
	do := func(cmd schema.Command, body any) *kproxy.Result {
		r, err := c.Do(&kproxy.Call{Command: cmd, Body: body})
		require.NoError(t, err)
		return r
	}
	queue := do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{})
	events := queue.Files[0]
	defer events.Close()
	opened := do(schema.CmdOpenServices, &schema.OpenServices{Async: queue.Body.(*schema.Created).Handle, Token: 42})
	h := opened.Body.(*schema.Created).Handle
	query := func() []schema.ServiceHCA {
		return do(schema.CmdQueryServices, &schema.Services{Services: h}).Body.(*schema.QueryServicesReply).HCAs
	}
	event := func() {
		require.NoError(t, events.SetReadDeadline(time.Now().Add(30*time.Second)))
		b := make([]byte, schema.EventSize)
		_, err := events.Read(b)
		require.NoError(t, err, "a change without an event")
	}
	require.Empty(t, query())
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	serials := map[uint64]bool{}
	for range 3 {
		require.NoError(t, al.Register(hca))
		event()
		list := query()
		require.Len(t, list, 1)
		require.Equal(t, hca.Info().GUID, list[0].GUID)
		require.False(t, serials[list[0].Serial], "the serial number of an earlier adapter")
		serials[list[0].Serial] = true
		require.NoError(t, al.Deregister(hca.Info().GUID))
		event()
		require.Empty(t, query())
	}
	require.NoError(t, core.Close())
	require.NoError(t, s.Close())
	require.NoError(t, al.Close())
	require.NoError(t, hca.Close())
}
