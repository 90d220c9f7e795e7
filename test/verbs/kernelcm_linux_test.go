package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// build builds a program of the kit that is linked with the C library.
func build(t *testing.T, args ...string) string {
	bin := filepath.Join(t.TempDir(), "program")
	last := len(args) - 1
	cmd := exec.Command("go", slices.Concat(args[:last], []string{"-o", bin}, args[last:])...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if cache != "" {
		cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+cache) // where what was built before is kept
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// TestKernelCM runs the tests of package kernelcm on the daemon's adapter.
func TestKernelCM(t *testing.T) {
	r := newRig(t)
	out := r.run("-carrier", "seccomp", build(t, "test", "-c", "ciddk/kernelcm"), "-test.v", "-test.timeout=3m")
	assert.Contains(t, out, "--- PASS: TestDatagrams")
	assert.NotContains(t, out, "no RDMA device")
}

// TestKernelCMWithC connects a Go program over kernelcm to a C program over librdmacm, in both roles.
func TestKernelCMWithC(t *testing.T) {
	r := newRig(t)
	nic := []string{"-carrier", "seccomp", build(t, "build", "-tags", "nic", "ciddk/examples/rping")}
	stock := []string{"rping"}
	for name, ends := range map[string][2][]string{"server": {nic, stock}, "client": {stock, nic}} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.t = t
			port := strconv.Itoa(freePort(t))
			args := []string{"-a", "10.0.0.1", "-p", port, "-C", "5", "-v"}
			server, serverOut := r.command(slices.Concat(ends[0], []string{"-s"}, args)...)
			require.NoError(t, server.Start())
			out := r.run(slices.Concat([]string{"-wait-port", port}, ends[1], []string{"-c", "-V"}, args)...)
			assert.Contains(t, out, "ping data: rdma-ping-4")
			_ = server.Wait() // that of C reports the end of the connection as an error
			assert.Contains(t, serverOut.String(), "server ping data: rdma-ping-4")
		})
	}
}
