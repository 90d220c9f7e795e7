package mlx4

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/testenv"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
)

// subnetPrograms are the programs that the guests of TestOpenSM have besides those of every guest.
var subnetPrograms = []string{"opensm", "ibnetdiscover", "sminfo"}

// subnetText is a subnet of two adapters at a switch.
const subnetText = `Switch 4 "s1"
[1] "h1"[1]
[2] "h2"[1]

Ca 1 "h1"
[1] "s1"[1]

Ca 1 "h2"
[1] "s1"[2]
`

// TestOpenSM manages a subnet of two guests with the OpenSM of one of them. The switch is that of a fabric. IP over
// InfiniBand and the connection manager use it.
func TestOpenSM(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	for _, p := range subnetPrograms {
		if _, err := exec.LookPath(p); err != nil {
			testenv.Linux(t, fmt.Errorf("%s is not installed (apt-get install opensm infiniband-diags)", p))
		}
	}
	p := bootPair(t, ctx, model.Config{}, fabricLinks(t), "mlx4_ib")
	for _, g := range p.guests {
		require.Contains(t, run(t, ctx, g, "agent", "cat", portFile(1, "state")), "INIT", "before OpenSM")
	}
	startOpenSM(t, ctx, p.guests[0])
	for _, g := range p.guests {
		awaitActive(t, ctx, g, 1)
	}
	found := run(t, ctx, p.guests[1], "ibnetdiscover")
	require.Equal(t, 1, strings.Count(found, "\nSwitch"), found)
	require.Equal(t, 2, strings.Count(found, "\nCa"), found)
	require.Contains(t, run(t, ctx, p.guests[1], "sminfo"), "SMINFO_MASTER")
	p.pingPong(t, ctx, "rc", 5000, 100)
	p.pingPong(t, ctx, "ud", 1000, 100)
	t.Run("IPoIB", func(t *testing.T) { p.ipoib(t, ctx) })
	p.requireQuiet(t, ctx)
}

// ipoib runs IP over InfiniBand, whose multicast groups and paths are OpenSM's, and rping, whose connection manager
// resolves addresses by it.
func (p *pair) ipoib(t *testing.T, ctx context.Context) {
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 91, 0, byte(i + 1)}) }
	const ib = "ib0"
	for i, g := range p.guests {
		require.NoError(t, g.Load(ctx, "ib_ipoib"))
		run(t, ctx, g, "ip", "addr", "add", netip.PrefixFrom(addr(i), 24).String(), "dev", ib)
		run(t, ctx, g, "ip", "link", "set", ib, "up")
	}
	// The interface has no carrier before it has joined the broadcast group.
	var out string
	require.Eventually(t, func() bool {
		r, err := p.guests[1].Run(ctx, "busybox", "ping", "-c", "1", "-W", "2", addr(0).String())
		out = r.Stdout + r.Stderr
		return err == nil && strings.Contains(out, "1 packets received")
	}, patience, poll, "ping")
	const large = "5000" // several packets
	out = run(t, ctx, p.guests[1], "busybox", "ping", "-c", "3", "-s", large, addr(0).String())
	require.Contains(t, out, "3 packets received")
	if len(installed(netPrograms)) > 0 {
		features := run(t, ctx, p.guests[1], "ethtool", "-k", ib)
		for _, name := range []string{"rx-checksumming", "tx-checksum-ipv4", "tcp-segmentation-offload"} {
			require.Contains(t, features, name+": on")
		}
		p.copy(t, ctx, addr(0))
	}
	p.rping(t, ctx, addr(0))
}

// fabricLinks returns the ports of two adapters at a switch, which no subnet manager has configured.
func fabricLinks(t *testing.T) (ports [2]rvt.Port) {
	t.Helper()
	topo, err := topology.Read(strings.NewReader(subnetText), "subnet", nil)
	require.NoError(t, err)
	f, err := fabric.New(topo, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	for i := range ports {
		p, err := f.CAPort(fmt.Sprint("h", i+1), 0)
		require.NoError(t, err)
		ports[i] = p
	}
	return ports
}

// startOpenSM starts OpenSM in a guest, and waits until it has configured the subnet. It ends with the guest.
func startOpenSM(t *testing.T, ctx context.Context, g *guest.Guest) {
	t.Helper()
	for _, dir := range []string{"/var/log", "/var/cache/opensm"} { // its package has them
		require.NoError(t, g.Mkdir(ctx, dir))
	}
	p, err := g.Start(ctx, "opensm", "-f", "stdout")
	require.NoError(t, err)
	require.NoError(t, p.WaitOutput(ctx, "SUBNET UP"))
}
