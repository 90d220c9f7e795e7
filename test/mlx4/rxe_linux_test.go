package mlx4

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/testenv"
	"ciddk/link/frame"
	"ciddk/test/linux/guest"
)

// The Soft-RoCE devices on the cards' network, in a guest without a card: one for each kind of socket that QEMU has for
// the frames of an interface.
var softDevices = []struct {
	device, netdev string
	network        byte // of the addresses
	kinds          []string
}{
	{"rxe1", "eth1", 88, []string{"rc", "uc", "ud"}},
	{"rxe2", "eth2", 90, []string{"rc", "ud"}},
}

// softAddr returns the address of guest i in a network of a Soft-RoCE device.
func softAddr(network byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, network, 0, byte(i + 1)})
}

// connectDgram makes QEMU's -netdev dgram a member of a switch, and returns its sockets.
func connectDgram(t *testing.T, hub *frame.Hub) [2]string {
	t.Helper()
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	carrier, err := frame.Dgram("unixgram", ours, theirs)
	require.NoError(t, err)
	connect(t, hub, carrier)
	return [2]string{theirs, ours}
}

// connectStream makes QEMU's -netdev stream a member of a switch when it connects to the socket that the function
// returns.
func connectStream(t *testing.T, hub *frame.Hub) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stream")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			connect(t, hub, frame.Stream(c))
		}
		accepted <- err
	}()
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		assert.NoError(t, <-accepted, "QEMU has connected")
	})
	return path
}

func connect(t *testing.T, hub *frame.Hub, c frame.Carrier) {
	disconnect, err := hub.Connect(c, nil)
	if assert.NoError(t, err) {
		t.Cleanup(func() { assert.NoError(t, disconnect()) })
	}
}

// TestSoftRoCE runs RoCE v2 between a card and the Soft-RoCE of another guest, whose network interfaces are on the same
// switch by sockets of QEMU: one of -netdev dgram, one of -netdev stream.
func TestSoftRoCE(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	hub := frame.NewHub()
	n := newNetwork(t, ctx)
	p := &pair{net: n}
	var err error
	p.guests[0], err = n.Boot(ctx, guest.Config{Dgram: [][2]string{connectDgram(t, hub)},
		Stream: []string{connectStream(t, hub)}})
	require.NoError(t, err)
	m := newModel(t, model.Config{Pro: true}, ethernetLinks(t, hub)[1])
	p.guests[1], err = n.Boot(ctx, guestConfig(serve(t, m)))
	require.NoError(t, err)
	load(t, ctx, p.guests[1], "mlx4_en", "mlx4_ib")
	run(t, ctx, p.guests[1], "ip", "link", "set", netdev, "up")
	for _, d := range softDevices {
		for i, dev := range []string{d.netdev, netdev} {
			addr := netip.PrefixFrom(softAddr(d.network, i), 24).String()
			run(t, ctx, p.guests[i], "ip", "addr", "add", addr, "dev", dev)
		}
		run(t, ctx, p.guests[0], "ip", "link", "set", d.netdev, "up")
		run(t, ctx, p.guests[0], "rdma", "link", "add", d.device, "type", "rxe", "netdev", d.netdev)
		awaitActive(t, ctx, p.guests[1], 1)
		gids := [2]string{rxeGID(t, ctx, p.guests[0], d.device, softAddr(d.network, 0)),
			gidIndex(t, ctx, p.guests[1], softAddr(d.network, 1), "RoCE v2")}
		devices := [2]string{d.device, device}
		for _, kind := range d.kinds {
			for server := range 2 {
				t.Run(fmt.Sprint(d.device, " ", kind, " server ", devices[server]), func(t *testing.T) {
					args := func(i int) []string {
						return []string{"ibv_" + kind + "_pingpong", "-d", devices[i], "-g", gids[i], "-c", "-s",
							"1000", "-n", "100"}
					}
					p.runEach(t, ctx, server, pingPongPort, args)
				})
			}
		}
		// Linux answers ARP for all of its addresses at each interface, so there is one interface at a time.
		run(t, ctx, p.guests[0], "ip", "link", "set", d.netdev, "down")
	}
	requireQuiet(t, ctx, p.guests[1])
}

// rxeGID waits until the GID of an address is in the table of a Soft-RoCE device, which has all addresses as RoCE v2,
// and returns its index.
func rxeGID(t *testing.T, ctx context.Context, g *guest.Guest, dev string, a netip.Addr) string {
	t.Helper()
	return awaitGID(t, func() (index, table string) {
		for i := range 8 {
			r, err := g.Run(ctx, "agent", "cat", fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", dev, i))
			if err != nil {
				return "", err.Error()
			}
			if strings.TrimSpace(r.Stdout) == gidText(a) {
				return fmt.Sprint(i), ""
			}
			table += r.Stdout
		}
		return "", table
	}, "%v at %s", a, dev)
}

// runEach runs a ping-pong with other arguments in each guest, one of which is the server.
func (p *pair) runEach(t *testing.T, ctx context.Context, server int, listen uint16, args func(i int) []string) {
	t.Helper()
	s, err := p.guests[server].Start(ctx, args(server)...)
	require.NoError(t, err)
	require.NoError(t, p.guests[server].WaitListen(ctx, listen))
	client := append(args(1-server), p.net.Addr4(p.guests[server].Index()).String())
	c, err := p.guests[1-server].Run(ctx, client...)
	require.NoError(t, err)
	r, err := s.Wait()
	require.NoError(t, err)
	for _, x := range []guest.Result{c, r} {
		require.Zero(t, x.Code, "%s%s", x.Stdout, x.Stderr)
		require.NotContains(t, x.Stdout+x.Stderr, "invalid data")
		require.Contains(t, x.Stdout, "100 iters in")
	}
}
