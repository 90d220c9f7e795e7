package mlx4

import (
	"context"
	"fmt"
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

// rxeDevice is a Soft-RoCE device on the cards' network, in a guest without a card.
const rxeDevice = "rxe1"

// TestSoftRoCE runs RoCE v2 between a card and the Soft-RoCE of another guest, whose network interface is on the same
// switch by a socket of QEMU.
func TestSoftRoCE(t *testing.T) {
	testenv.OneOf(t, 2, numTurns)
	ctx := needGuests(t, "mlx4")
	hub := frame.NewHub()
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	carrier, err := frame.Dgram("unixgram", ours, theirs)
	require.NoError(t, err)
	disconnect, err := hub.Connect(carrier, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, disconnect()) })

	n := newNetwork(t, ctx)
	p := &pair{net: n}
	p.guests[0], err = n.Boot(ctx, guest.Config{Dgram: [][2]string{{theirs, ours}}})
	require.NoError(t, err)
	m := newModel(t, model.Config{Pro: true}, ethernetLinks(t, hub)[1])
	p.guests[1], err = n.Boot(ctx, guestConfig(serve(t, m)))
	require.NoError(t, err)
	load(t, ctx, p.guests[1], "mlx4_en", "mlx4_ib")
	for i, g := range p.guests {
		run(t, ctx, g, "ip", "addr", "add", netip.PrefixFrom(cardAddr(i), 24).String(), "dev", netdev)
		run(t, ctx, g, "ip", "link", "set", netdev, "up")
	}
	run(t, ctx, p.guests[0], "rdma", "link", "add", rxeDevice, "type", "rxe", "netdev", netdev)
	awaitActive(t, ctx, p.guests[1], 1)
	gids := [2]string{rxeGID(t, ctx, p.guests[0], cardAddr(0)),
		gidIndex(t, ctx, p.guests[1], cardAddr(1), "RoCE v2")}
	devices := [2]string{rxeDevice, device}
	for _, kind := range []string{"rc", "uc", "ud"} {
		for server := range 2 {
			t.Run(fmt.Sprint(kind, " server ", devices[server]), func(t *testing.T) {
				args := func(i int) []string {
					return []string{"ibv_" + kind + "_pingpong", "-d", devices[i], "-g", gids[i], "-c", "-s",
						"1000", "-n", "100"}
				}
				p.runEach(t, ctx, server, pingPongPort, args)
			})
		}
	}
	requireQuiet(t, ctx, p.guests[1])
}

// rxeGID returns the index of the GID of an address in the table of rxeDevice, which has all addresses as RoCE v2.
func rxeGID(t *testing.T, ctx context.Context, g *guest.Guest, a netip.Addr) string {
	t.Helper()
	want := gidText(a)
	for i := range 8 {
		file := fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", rxeDevice, i)
		if strings.TrimSpace(run(t, ctx, g, "agent", "cat", file)) == want {
			return fmt.Sprint(i)
		}
	}
	require.FailNow(t, "no GID", "%v", a)
	return ""
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
