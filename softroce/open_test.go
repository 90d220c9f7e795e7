package softroce_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer/rdmacm"
	"ciddk/clock"
	"ciddk/internal/testenv"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/softroce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const udpPort = 24797

func config() softroce.Config { return softroce.Config{UDP: udp.Config{Port: udpPort}} }

func TestOpen(t *testing.T) {
	addr := netip.MustParseAddr("127.20.19.1")
	testenv.Addresses(t, udpPort, addr.String())
	closed := false
	cfg := config()
	cfg.HCA.Clock = clock.Real()
	cfg.Manager.OnClose = func() error { closed = true; return nil }
	m, err := softroce.Open(addr, cfg)
	require.NoError(t, err)
	assert.Equal(t, cfg.HCA.Clock, m.AL().Clock(), "the adapter and its services have one clock")
	_, err = softroce.Open(addr, config())
	require.ErrorContains(t, err, "opening an adapter on 127.20.19.1", "another adapter has the address")
	require.NoError(t, m.Close())
	assert.True(t, closed)
	require.NoError(t, m.Close())
	m, err = softroce.Open(addr, config())
	require.NoError(t, err, "Close has released the address")
	require.NoError(t, m.Close())
}

func TestOpenFails(t *testing.T) {
	called := false
	cfg := config()
	cfg.Manager.Ephemeral = [2]uint16{2, 1}
	cfg.Manager.OnClose = func() error { called = true; return nil }
	_, err := softroce.Open(netip.MustParseAddr("127.20.19.1"), cfg)
	require.Error(t, err)
	assert.False(t, called, "there was nothing to close")
	_, err = softroce.Open(netip.Addr{}, config())
	require.Error(t, err)
	cfg = config()
	cfg.UDP.Addr = netip.MustParseAddr("127.20.19.2")
	_, err = softroce.Open(netip.MustParseAddr("127.20.19.1"), cfg)
	require.ErrorContains(t, err, "Config.UDP.Addr is 127.20.19.2")
	cfg = config()
	cfg.HCA.Ports = []rvt.Port{nil}
	_, err = softroce.Open(netip.MustParseAddr("127.20.19.1"), cfg)
	require.ErrorContains(t, err, "Config.HCA.Ports is set")
	m, err := softroce.Open(netip.MustParseAddr("127.20.19.1"), config())
	require.NoError(t, err, "the attempts have left nothing")
	require.NoError(t, m.Close())
}

// A message between two adapters on one machine.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, _ := softroce.Open(netip.MustParseAddr("127.20.19.2"), config())
	defer server.Close()
	client, _ := softroce.Open(netip.MustParseAddr("127.20.19.3"), config())
	defer client.Close()

	ln, _ := server.Listen(netip.MustParseAddrPort("127.20.19.2:7174"), rdmacm.ListenConfig{})
	go func() {
		c, err := client.Dial(ctx, netip.MustParseAddrPort("127.20.19.2:7174"))
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = c.Send(ctx, []byte("hello"))
		_ = c.Close()
	}()
	request, _ := ln.Accept(ctx)
	c, _ := request.Accept(ctx)
	m, err := c.Recv(ctx)
	fmt.Printf("%s %v\n", m, err)
	// Output: hello <nil>
}
