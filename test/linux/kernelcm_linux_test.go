package linux

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/test/linux/guest"
)

// Programs over package kernelcm for the guest: rping, and the tests of the package.
const (
	nicRPing = "rping-nic"
	nicTests = "kernelcm.test"
)

// TestKernelCM runs the tests of package kernelcm on Linux's Soft-RoCE, with the connection manager of the kernel.
func TestKernelCM(t *testing.T) {
	l := useLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := l.linux.Run(ctx, nicTests, "-test.v")
	require.NoError(t, err)
	assert.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
	assert.Contains(t, r.Stdout, "--- PASS: TestDatagrams")
}

// TestKernelCMWithOurs connects a program over kernelcm in the guest to one over the software adapter.
func TestKernelCMWithOurs(t *testing.T) {
	l := useLab(t)
	for _, v6 := range []bool{false, true} {
		for role, linuxServes := range map[string]bool{"linux is the server/": true, "linux is the client/": false} {
			p := pings{v6: v6, size: 1001, count: 5}
			t.Run(role+p.String(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				e := l.ends(v6)
				serving, pinging := []string{"-s", "-C", "5"}, []string{"-c", "-V", "-C", "5", "-S", "1001"}
				var s, c *guest.Process
				var err error
				if linuxServes {
					s = e.serveLinux(t, ctx, append([]string{nicRPing, "-a", e.theirs().String()}, serving...)...)
					c, err = l.net.Start(ctx, append([]string{l.rping, "-a", e.theirs().String()}, pinging...)...)
				} else {
					s = e.serveOurs(t, ctx, append([]string{l.rping, "-a", e.ours().String()}, serving...)...)
					c, err = l.linux.Start(ctx, append([]string{nicRPing, "-a", e.ours().String()}, pinging...)...)
				}
				require.NoError(t, err)
				succeed(t, cancel, s, c)
			})
		}
	}
}
