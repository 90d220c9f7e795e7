package mlx4

import (
	"context"
	"fmt"
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

// TestOpenSM manages a subnet of two guests with the OpenSM of one of them. The switch is that of a fabric.
func TestOpenSM(t *testing.T) {
	testenv.OneOf(t, 4, numTurns)
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
	p.requireQuiet(t, ctx)
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
