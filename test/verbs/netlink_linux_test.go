package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDeviceName runs programs with a device whose name belongs to another provider. The library finds the provider by
// the number of its driver, over netlink.
func TestDeviceName(t *testing.T) {
	if skip != "" {
		t.Skip(skip)
	}
	r := newRigWithout(t, "link=network,address=10.0.0.1", "--device-name", "mlx5_")
	out := r.run("ibv_devices")
	assert.Contains(t, out, "mlx5_0")
	assert.NotContains(t, out, "rxe_ddk0")
	assert.Contains(t, r.run("rdma", "link"), "link mlx5_0/1 state ACTIVE")
	assert.Contains(t, r.pair("ibv_rc_pingpong", "-d", "mlx5_0", "-g", "0", "-n", "100", "-e"), "100 iters in")
}

// TestRDMATool queries devices, links and resources with the command of iproute2.
func TestRDMATool(t *testing.T) {
	r := newRig(t)
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
