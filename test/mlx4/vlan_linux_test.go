package mlx4

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// vlanPings is the number of frames that the tests of VLANs send.
const vlanPings = 20

// vlanAddr returns the address of guest i in a VLAN.
func vlanAddr(id, i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 89, byte(id), byte(i + 1)}) }

// vlanName returns the name of an interface of a VLAN.
func vlanName(id int) string { return fmt.Sprint("vlan", id) }

// addVLAN adds an interface of a VLAN to a guest, with a route to the other guest that needs no ARP.
func (p *pair) addVLAN(t *testing.T, ctx context.Context, i, id int, proto string) {
	t.Helper()
	g := p.guests[i]
	run(t, ctx, g, "ip", "link", "add", "link", netdev, "name", vlanName(id), "type", "vlan", "proto", proto, "id",
		strconv.Itoa(id))
	run(t, ctx, g, "ip", "addr", "add", netip.PrefixFrom(vlanAddr(id, i), 24).String(), "dev", vlanName(id))
	run(t, ctx, g, "ip", "link", "set", vlanName(id), "up")
	mac := cardMAC(1 - i)
	run(t, ctx, g, "ip", "neigh", "add", vlanAddr(id, 1-i).String(), "dev", vlanName(id), "lladdr",
		fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]))
}

// pingReplies is what busybox prints at the end.
var pingReplies = regexp.MustCompile(`(\d+) packets transmitted, (\d+) packets received`)

// ping sends frames in a VLAN from the second guest to the first, and returns how many were answered.
func (p *pair) ping(t *testing.T, ctx context.Context, id int) int {
	t.Helper()
	r, err := p.guests[1].Run(ctx, "busybox", "ping", "-c", strconv.Itoa(vlanPings), "-i", "0.05", "-W", "1",
		vlanAddr(id, 0).String())
	require.NoError(t, err)
	m := pingReplies.FindStringSubmatch(r.Stdout)
	require.NotNil(t, m, "%s%s", r.Stdout, r.Stderr)
	require.Equal(t, strconv.Itoa(vlanPings), m[1])
	n, err := strconv.Atoi(m[2])
	require.NoError(t, err)
	return n
}

// received returns how many frames the card of a guest has passed to its driver.
func received(t *testing.T, ctx context.Context, g *guest.Guest) int {
	t.Helper()
	text := run(t, ctx, g, "agent", "cat", "/sys/class/net/"+netdev+"/statistics/rx_packets")
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}

// offload turns an offload of a guest's card on or off, and requires that the driver did.
func offload(t *testing.T, ctx context.Context, g *guest.Guest, name, state string) {
	t.Helper()
	run(t, ctx, g, "ethtool", "-K", netdev, name, state)
	require.Contains(t, run(t, ctx, g, "ethtool", "-k", netdev), name+": "+state+"\n")
}

// requireFiltered sends frames in a VLAN that the receiver has not, and requires that its card drops them. Its driver
// receives at most what the kernels send by themselves.
func (p *pair) requireFiltered(t *testing.T, ctx context.Context, id int) {
	t.Helper()
	before := received(t, ctx, p.guests[0])
	require.Zero(t, p.ping(t, ctx, id))
	require.Less(t, received(t, ctx, p.guests[0])-before, vlanPings/2)
}

// requirePasses sends frames in a VLAN that both guests have, and requires that the receiver's driver gets them. A busy
// machine may answer later than ping waits.
func (p *pair) requirePasses(t *testing.T, ctx context.Context, id int) {
	t.Helper()
	before := received(t, ctx, p.guests[0])
	require.Eventually(t, func() bool { return p.ping(t, ctx, id) > 0 }, patience, poll, "VLAN %d", id)
	require.GreaterOrEqual(t, received(t, ctx, p.guests[0])-before, vlanPings)
}

// TestVLAN sends frames in VLANs between the interfaces of two cards. The card of the receiver filters by the VLANs of
// its driver.
func TestVLAN(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	if len(installed(netPrograms)) == 0 {
		t.Skip("ethtool is not installed")
	}
	p := bootEthernet(t, ctx, model.Config{Pro: true})
	for _, g := range p.guests {
		require.NoError(t, g.Load(ctx, "8021q"))
		// The kernels send no frames of their own for IPv6.
		require.NoError(t, g.Put(ctx, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))
		require.NoError(t, g.Put(ctx, "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))
	}
	features := run(t, ctx, p.guests[0], "ethtool", "-k", netdev)
	// The driver offers no way to turn its filter off.
	require.Contains(t, features, "rx-vlan-filter: on [fixed]")
	const mine, other, service, otherService = 5, 6, 7, 8
	for i := range p.guests {
		p.addVLAN(t, ctx, i, mine, "802.1Q")
		p.addVLAN(t, ctx, i, service, "802.1ad")
	}
	p.addVLAN(t, ctx, 1, other, "802.1Q")
	p.addVLAN(t, ctx, 1, otherService, "802.1ad")
	both := func(t *testing.T) {
		p.requirePasses(t, ctx, mine)
		p.requirePasses(t, ctx, service)
		p.requireFiltered(t, ctx, other)
		p.requireFiltered(t, ctx, otherService)
	}
	t.Run("tags in completions", func(t *testing.T) {
		require.Contains(t, features, "rx-vlan-offload: on\n")
		require.Contains(t, features, "tx-vlan-offload: on\n")
		both(t)
	})
	t.Run("tags in received frames", func(t *testing.T) {
		offload(t, ctx, p.guests[0], "rx-vlan-offload", "off")
		both(t)
		offload(t, ctx, p.guests[0], "rx-vlan-offload", "on")
		both(t)
	})
	t.Run("tags in sent frames", func(t *testing.T) {
		offload(t, ctx, p.guests[1], "tx-vlan-offload", "off")
		both(t)
	})
	t.Run("the filter follows the driver", func(t *testing.T) {
		p.addVLAN(t, ctx, 0, other, "802.1Q")
		p.requirePasses(t, ctx, other)
		run(t, ctx, p.guests[0], "ip", "link", "del", vlanName(other))
		p.requireFiltered(t, ctx, other)
	})
	p.requireQuiet(t, ctx)
}
