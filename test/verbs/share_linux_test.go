package verbs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShareMemory runs a program that checks its memory after registrations, with and without --share-memory.
func TestShareMemory(t *testing.T) {
	for _, x := range []struct {
		name  string
		flags []string
	}{{"shared", []string{"--share-memory"}}, {"copied", nil}} {
		t.Run(x.name, func(t *testing.T) {
			program := compile(t, "share.c", "-pthread", "-l:libibverbs.so.1")
			r := newRig(t)
			r.flags = x.flags
			assert.Equal(t, "success\n", r.run(program, x.name))
		})
	}
}

// TestSharePrograms runs programs of Debian's packages with --share-memory.
func TestSharePrograms(t *testing.T) {
	for args, want := range map[string]string{"ib_write_bw -F -n 64": "#bytes", "ib_send_lat -F -n 64": "#bytes",
		"ibv_rc_pingpong -g 0 -n 100 -c": "100 iters in"} {
		t.Run(args, func(t *testing.T) {
			r := newRig(t)
			r.flags = []string{"--share-memory"}
			assert.Contains(t, r.pair(strings.Fields(args)...), want)
		})
	}
}

// TestShareMemoryCarrier checks that a carrier that cannot share memory says so.
func TestShareMemoryCarrier(t *testing.T) {
	r := newRig(t)
	cmd, out := r.command("--share-memory", "--carrier", "seccomp", "true")
	require.Error(t, cmd.Run())
	assert.Equal(t, 125, cmd.ProcessState.ExitCode())
	assert.Contains(t, out.String(), "--share-memory needs --carrier preload: --carrier seccomp")
}
