package verbs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// shareNever is the flag with which the daemon copies all memory.
const shareNever = "--share-memory=never"

// alternate returns flags of ddkrun for test i of several: half of them share memory as programs do by default, and the
// others do not.
func alternate(i int) []string {
	if i%2 == 0 {
		return nil
	}
	return []string{shareNever}
}

// TestShareMemory runs programs that check their memory after registrations, and in processes that they start, with
// each choice of --share-memory, where libibverbs prepares for forks, and with a daemon that has a small quota.
func TestShareMemory(t *testing.T) {
	for _, source := range []string{"share.c", "forks.c"} {
		for _, x := range testenv.Sample(t, []struct {
			name    string
			flags   []string // of ddkrun
			choice  string
			program []string
			env     []string
			daemon  []string // flags of the daemon
		}{
			{name: "default", choice: "auto"},
			{name: "auto", flags: []string{"--share-memory=auto"}, choice: "auto"},
			{name: "always", flags: []string{"--share-memory"}, choice: "always"},
			{name: "never", flags: []string{shareNever}, choice: "never"},
			{name: "environment", choice: "never", env: []string{"DDKRUN_SHARE_MEMORY=never"}},
			{name: "rdmav fork", choice: "auto", env: []string{"RDMAV_FORK_SAFE=1", "IBV_FORK_SAFE=1"}},
			{name: "quota", choice: "auto", daemon: []string{"--quota-mappings", "2"}},
		}, 3) {
			t.Run(source+" "+x.name, func(t *testing.T) {
				program := compile(t, source, "-pthread", "-l:libibverbs.so.1")
				r := newRigWithout(t, "link=network,address=10.0.0.1", x.daemon...)
				r.flags, r.env = x.flags, append(r.env, x.env...)
				assert.Equal(t, "success\n", r.run(program, x.choice))
			})
		}
	}
}

// TestSharePrograms runs programs of Debian's packages with each choice of --share-memory.
func TestSharePrograms(t *testing.T) {
	for args, want := range map[string]string{"ib_write_bw -F -n 64": "#bytes", "ib_send_lat -F -n 64": "#bytes",
		"ibv_rc_pingpong -g 0 -n 100 -c": "100 iters in"} {
		for _, choice := range testenv.Sample(t, []string{"always", "auto", "never"}, 3) { // alternate has the others
			t.Run(args+" "+choice, func(t *testing.T) {
				r := newRig(t)
				r.flags = []string{"--share-memory=" + choice}
				assert.Contains(t, r.pair(strings.Fields(args)...), want)
			})
		}
	}
}

// TestShareMemoryCarrier checks that a carrier that cannot share memory says so, and that programs run with it.
func TestShareMemoryCarrier(t *testing.T) {
	r := newSeccompRig(t)
	cmd, out := r.command("--share-memory", "--carrier", "seccomp", "true")
	require.Error(t, cmd.Run())
	assert.Equal(t, 125, cmd.ProcessState.ExitCode())
	assert.Contains(t, out.String(), "--share-memory=always needs --carrier preload: --carrier seccomp")
	for _, choice := range []string{"auto", "never"} {
		assert.Empty(t, r.run("--share-memory="+choice, "--carrier", "seccomp", "true"))
	}
	for flags, want := range map[string]string{
		"--carrier seccomp": "shared:   nothing, because only the carrier preload can share " +
			"(--share-memory=auto)",
		"--carrier seccomp --share-memory": "shared:   refused, because only the carrier preload can share " +
			"(--share-memory=always)",
		"--share-memory=never": "shared:   nothing (--share-memory=never)",
		"":                     "up to 64 MiB, and where it does not notice (--share-memory=auto)",
	} {
		assert.Contains(t, r.run(append(strings.Fields(flags), "--explain")...), want)
	}
}
