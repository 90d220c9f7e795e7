package verbs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDeviceName runs programs with a device whose name belongs to another provider, with both carriers. The library
// finds the provider by the number of its driver, over netlink.
func TestDeviceName(t *testing.T) { withCarriers(t, testDeviceName) }

func testDeviceName(t *testing.T, flags []string) {
	if skip != "" {
		t.Skip(skip)
	}
	r := newRigWithout(t, "link=network,address=10.0.0.1", "--device-name", "mlx5_")
	r.flags = flags
	out := r.run("ibv_devices")
	assert.Contains(t, out, "mlx5_0")
	assert.NotContains(t, out, "rxe_ddk0")
	assert.Contains(t, r.run("rdma", "link"), "link mlx5_0/1 state ACTIVE")
	assert.Contains(t, r.pair("ibv_rc_pingpong", "-d", "mlx5_0", "-g", "0", "-n", "100", "-e"), "100 iters in")
}

// TestGIDTables lists GID tables like those of other adapters, on both ports of an adapter, and sends messages from and
// to each entry of the second one, with both carriers.
func TestGIDTables(t *testing.T) { withCarriers(t, testGIDTables) }

func testGIDTables(t *testing.T, flags []string) {
	const script = `d=/sys/class/infiniband/rxe_ddk0/ports
for p in 1 2; do for i in $(ls $d/$p/gids); do echo $p $i $(cat $d/$p/gids/$i $d/$p/gid_attrs/types/$i); done; done`
	const local, mapped = "fe80:0000:0000:0000:0000:5efe:0a00:000", "0000:0000:0000:0000:0000:ffff:0a00:000"
	for table, want := range map[string][]struct{ gid, typ string }{
		"rxe":  {{local, "RoCE v2"}, {mapped, "RoCE v2"}},
		"mlx5": {{local, "IB/RoCE v1"}, {local, "RoCE v2"}, {mapped, "IB/RoCE v1"}, {mapped, "RoCE v2"}},
	} {
		r := newRigOf(t, "link=network,address=10.0.0.1+10.0.0.2,gids="+table)
		r.flags = flags
		var lines strings.Builder
		for port := 1; port <= 2; port++ {
			for i, e := range want {
				fmt.Fprintf(&lines, "%d %d %s%d %s\n", port, i, e.gid, port, e.typ)
			}
		}
		assert.Equal(t, lines.String(), r.run("sh", "-c", script), table)
		assert.Contains(t, r.run("rdma", "link"), "link rxe_ddk0/2 state ACTIVE")
		for i := range want {
			for _, program := range []string{"ibv_rc_pingpong", "ibv_ud_pingpong"} {
				out := r.pair(program, "-i", "2", "-g", strconv.Itoa(i), "-n", "20", "-e")
				assert.Contains(t, out, "20 iters in", "%s %d", table, i)
			}
		}
	}
}

// TestRDMATool queries devices, links and resources with the command of iproute2, with both carriers.
func TestRDMATool(t *testing.T) { withCarriers(t, testRDMATool) }

func testRDMATool(t *testing.T, flags []string) {
	r := newRig(t)
	r.flags = flags
	assert.Contains(t, r.run("rdma", "dev"), "0: rxe_ddk0: node_type ca")
	assert.Contains(t, r.run("rdma", "link"), "link rxe_ddk0/1 state ACTIVE physical_state LINK_UP")
	assert.Contains(t, r.run("rdma", "resource"), "0: rxe_ddk0: pd 0 cq 0 qp 0")
	cmd, _ := r.command("ibv_asyncwatch") // a program that has the device open
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }() // it was killed
	defer func() { _ = cmd.Process.Kill() }()
	require.Eventually(t, func() bool {
		show, text := r.command("rdma", "resource", "show", "ctx")
		return show.Run() == nil && len(text.String()) > 0 && assert.Contains(t, text.String(), "comm ibv_asyncwatch")
	}, patience, 50*time.Millisecond)
	set, text := r.command("rdma", "dev", "set", "rxe_ddk0", "name", "other")
	require.Error(t, set.Run())
	assert.Contains(t, text.String(), "Operation not permitted")
}
