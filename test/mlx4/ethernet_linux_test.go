package mlx4

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/testenv"
	"ciddk/link/frame"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
)

// netdev is the name of the card's network interface in a guest; eth0 is the interface to the other programs.
const netdev = "eth1"

// cardAddr returns the address of guest i on the cards' network.
func cardAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, byte(i + 1)}) }

// ethernetLinks returns two ports on a hub.
func ethernetLinks(t *testing.T, hub *frame.Hub) (ports [2]rvt.Port) {
	t.Helper()
	for i := range ports {
		p, err := frame.New(frame.Config{Carrier: hub.Join(), MAC: cardMAC(i), MTU: ci.MTU1024})
		require.NoError(t, err)
		ports[i] = p
	}
	return ports
}

func cardMAC(i int) [6]byte { return [6]byte{2, 2, 0xc9, 0, 0, byte(i)} }

// bootEthernet boots two guests whose cards are on an Ethernet switch.
func bootEthernet(t *testing.T, ctx context.Context, c model.Config) *pair {
	t.Helper()
	p := bootPair(t, ctx, c, ethernetLinks(t, frame.NewHub()), "mlx4_en", "mlx4_ib")
	for i, g := range p.guests {
		run(t, ctx, g, "ip", "addr", "add", netip.PrefixFrom(cardAddr(i), 24).String(), "dev", netdev)
		run(t, ctx, g, "ip", "link", "set", netdev, "up")
		awaitActive(t, ctx, g, 1)
	}
	return p
}

// gidText returns the GID of an IPv4 address as sysfs shows it.
func gidText(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
}

// gidIndex waits until the GID of an IPv4 address and a type is in the table of a guest's card, and returns its index.
func gidIndex(t *testing.T, ctx context.Context, g *guest.Guest, a netip.Addr, typ string) string {
	t.Helper()
	return awaitGID(t, func() (index string, table string) {
		var list strings.Builder
		for i := range 16 {
			gid, err := g.Run(ctx, "agent", "cat", portFile(1, fmt.Sprint("gids/", i)))
			kind, err2 := g.Run(ctx, "agent", "cat", portFile(1, fmt.Sprint("gid_attrs/types/", i)))
			if err := errors.Join(err, err2); err != nil {
				return "", err.Error()
			}
			if strings.TrimSpace(gid.Stdout) == gidText(a) && strings.TrimSpace(kind.Stdout) == typ {
				return fmt.Sprint(i), ""
			}
			fmt.Fprintln(&list, i, strings.TrimSpace(gid.Stdout), strings.TrimSpace(kind.Stdout))
		}
		return "", list.String()
	}, "%v of type %s", a, typ)
}

// awaitGID waits until find returns an index. Otherwise find returns the table. what describes the GID.
func awaitGID(t *testing.T, find func() (index, table string), what string, args ...any) string {
	t.Helper()
	var index, table string
	if !assert.Eventually(t, func() bool {
		index, table = find()
		return index != ""
	}, patience, poll) {
		require.FailNow(t, "no GID", "%s; the table is\n%s", fmt.Sprintf(what, args...), table)
	}
	return index
}

// TestEthernet runs IP with checked data and statistics, RoCE v1, RoCE v2 and the connection manager between the
// ConnectX-3 Pro of two guests.
func TestEthernet(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	p := bootEthernet(t, ctx, model.Config{Pro: true})
	assert.Contains(t, run(t, ctx, p.guests[1], "busybox", "ping", "-c", "3", cardAddr(0).String()), " 0% packet loss")
	t.Run("TCP", func(t *testing.T) { p.transfer(t, ctx) })
	for _, typ := range []string{"IB/RoCE v1", "RoCE v2"} {
		index := gidIndex(t, ctx, p.guests[0], cardAddr(0), typ)
		require.Equal(t, index, gidIndex(t, ctx, p.guests[1], cardAddr(1), typ), "the tables are alike")
		for _, kind := range []string{"rc", "uc", "ud", "srq"} {
			t.Run(typ+" "+kind, func(t *testing.T) {
				p.pingPong(t, ctx, kind, 1000, 100, "-g", index)
				if kind != "ud" {
					p.pingPong(t, ctx, kind, 10_000, 100, "-g", index, "-e")
				}
			})
		}
	}
	t.Run("ib_write_bw", func(t *testing.T) {
		index := gidIndex(t, ctx, p.guests[0], cardAddr(0), "RoCE v2")
		_, out := p.run(t, ctx, pingPongPort, "ib_write_bw", "-d", device, "-x", index, "-s", "65536", "-n", "100")
		require.Regexp(t, `(?m)^\s*65536\s+100\s`, out)
	})
	t.Run("rping", func(t *testing.T) { p.rping(t, ctx, cardAddr(0)) })
	p.requireQuiet(t, ctx)
}

// awaitListener waits until a program of the guest listens for connections of the connection manager.
func awaitListener(t *testing.T, ctx context.Context, g *guest.Guest) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := g.Run(ctx, "rdma", "resource", "show", "cm_id")
		return err == nil && strings.Contains(r.Stdout, "LISTEN")
	}, patience, poll, "rping listens")
}

// rping runs a verifying rping between the guests: the connection manager resolves the address of the first one.
func (p *pair) rping(t *testing.T, ctx context.Context, server netip.Addr) {
	t.Helper()
	args := []string{"rping", "-a", server.String(), "-C", "10", "-S", "5000", "-v"}
	s, err := p.guests[0].Start(ctx, append(args, "-s")...)
	require.NoError(t, err)
	awaitListener(t, ctx, p.guests[0])
	c, err := p.guests[1].Run(ctx, append(args, "-V", "-c")...)
	require.NoError(t, err)
	// The programs end in a race of their threads, and may report an error of the closed event channel.
	require.Contains(t, c.Stdout, "ping data: rdma-ping-9:", "%+v", c)
	require.NotContains(t, c.Stdout+c.Stderr, "mismatch")
	r, err := s.Wait()
	require.NoError(t, err)
	require.Contains(t, r.Stdout, "server ping data: rdma-ping-9:", "%+v", r)
}
