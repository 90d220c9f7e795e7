package verbs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestDevices lists the devices.
func TestDevices(t *testing.T) {
	r := newRig(t)
	assert.Contains(t, r.run("ibv_devices"), "rxe_ddk0")
	out := r.run("ibv_devinfo", "-v")
	for _, want := range []string{"hca_id:\trxe_ddk0", "phys_port_cnt:\t\t\t1", "PORT_ACTIVE (4)",
		"link_layer:\t\tEthernet",
		"::ffff:10.0.0.1, RoCE v2"} {
		assert.Contains(t, out, want)
	}
}

// TestPingpong runs the ping-pongs of rdma-core: polling, with events, with validation of the data, and with messages
// of several packets.
func TestPingpong(t *testing.T) {
	testenv.Long(t)
	for i, x := range testenv.Sample(t, []string{
		"ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_rc_pingpong -e -c -s 100000", "ibv_rc_pingpong -c -r 3",
		"ibv_rc_pingpong -s 1 -m 4096", "ibv_uc_pingpong", "ibv_uc_pingpong -e -c", "ibv_ud_pingpong -s 1024",
		"ibv_ud_pingpong -s 1024 -e -c", "ibv_srq_pingpong", "ibv_srq_pingpong -e -c", "ibv_srq_pingpong -q 3 -r 100",
	}, 2) {
		t.Run(x, func(t *testing.T) {
			args := append(strings.Fields(x), "-g", "0", "-n", "100")
			r := newRig(t)
			r.flags = alternate(i)
			assert.Contains(t, r.pair(args...), "100 iters in")
		})
	}
}

// TestPerftest runs the programs of perftest with every operation and service. ib_send_lat -e is left out: up to
// release 4.5, it waits for both CQs on one completion channel, and hangs if a reply overtakes the completion of the
// message (perftest's commit 2209cf8 of 2023).
func TestPerftest(t *testing.T) {
	testenv.Long(t)
	list := []string{
		"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat",
		"ib_atomic_lat", "ib_send_bw -c UD", "ib_send_lat -c UD", "ib_write_bw -c UC", "ib_send_lat -c UC",
		"ib_write_bw -b", "ib_send_bw -e", "ib_read_lat -e", "ib_write_bw -q 16", "ib_write_bw -l 32 -s 64",
		"ib_send_bw -a -n 5", "ib_atomic_bw -A CMP_AND_SWAP", "ib_send_lat -I 64 -s 64",
	}
	if testing.Short() {
		list = list[:8]
	}
	for i, x := range testenv.Sample(t, list, 3) {
		t.Run(x, func(t *testing.T) {
			args := append(strings.Fields(x), "-F")
			if !slices.Contains(args, "-n") {
				args = append(args, "-n", "64")
			}
			r := newRig(t)
			r.flags = alternate(i)
			assert.Contains(t, r.pair(args...), "#bytes")
		})
	}
}

// TestHidden runs programs that do not use RDMA, and one that inherits the library and looks at the files.
func TestHidden(t *testing.T) {
	r := newRig(t)
	r.run("true")
	out := r.run("sh", "-c", "cat /sys/class/infiniband/rxe_ddk0/node_type; exec ibv_devices")
	assert.Contains(t, out, "rxe_ddk0")
	assert.Contains(t, out, "1: CA", "the children of a program use the tree, too")
	cmd, _ := r.command("sh", "-c", "exit 7")
	err := cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 7, exit.ExitCode())
}

// TestExplain prints what a program would find.
func TestExplain(t *testing.T) {
	r := newRig(t)
	cmd := exec.Command(ddkrun, "--explain")
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "rxe_ddk0, /dev/infiniband/uverbs0")
	assert.Contains(t, string(out), "GID 0: 0000:0000:0000:0000:0000:ffff:0a00:0001")
	assert.Contains(t, string(out), "carrier:  preload")
	assert.Contains(t, string(out), "memory:   the daemon copies from and to memory that is not shared")
	assert.Contains(t, string(out), "(--share-memory=auto)")
}

// TestErrors checks the exit status and the messages of ddkrun's own errors.
func TestErrors(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		args []string
		code int
		text string
	}{
		{nil, 2, "no program (see ddkrun --help)"},
		{[]string{"--nonsense"}, 2, "nonsense"},
		{[]string{"--share-memory=some", "true"}, 2, "want one of auto, always, never"},
		{[]string{"--share-memory", "never", "true"}, 2, "write --share-memory=never"},
		{[]string{"/no/such/program"}, 127, "/no/such/program"},
		{[]string{"--socket", "/no/such/socket", "true"}, 125, "is the daemon running?"},
	} {
		cmd := exec.Command(ddkrun, x.args...)
		cmd.Env = r.env
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%v", x.args)
		assert.Equal(t, x.code, exit.ExitCode(), "%v", x.args)
		assert.Contains(t, string(out), x.text)
	}
}
