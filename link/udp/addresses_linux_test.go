package udp

import (
	"net/netip"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
)

// TestFollowNetlink checks, in a network namespace, that a port has the addresses of its interface as they are added
// and removed: the IPv4 and IPv6 ones, an IPv6 one with duplicate address detection, and none when the interface is
// gone.
func TestFollowNetlink(t *testing.T) {
	if testenv.Namespace(t, `ip link set lo up
		ip link add v0 type veth peer name v1
		ip addr add 10.77.0.1/24 dev v0
		ip link set v0 addrgenmode none
		ip link set v0 up
		ip link set v1 up`) {
		followNetlink(t)
	}
}

func followNetlink(t *testing.T) {
	ip := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
		require.NoError(t, err, "ip %v: %s", args, out)
	}
	p := mustNew(t, Config{Interface: "v0"})
	r := linktest.NewCollector()
	require.NoError(t, linktest.Start(p, r))
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	first, second := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")
	v6, none := netip.MustParseAddr("fd77::1"), netip.Addr{}
	waitTable(t, r, p, first)
	require.Equal(t, "v0", p.Attr().GIDs[0].Interface)
	ip("addr", "add", "10.77.0.2/24", "dev", "v0")
	waitTable(t, r, p, first, second)
	ip("addr", "add", "fd77::1/64", "dev", "v0") // usable when duplicate address detection is over
	waitTable(t, r, p, first, second, v6)
	ip("addr", "del", "10.77.0.2/24", "dev", "v0")
	waitTable(t, r, p, first, none, v6)
	ip("link", "del", "v0")
	waitTable(t, r, p, none, none, none)
	require.NoError(t, p.Close())
}
