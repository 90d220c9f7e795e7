package verbs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
)

// restrictions are what a system can withhold from programs, as shell commands before them.
var restrictions = []struct {
	name, commands string
	needsRoot      bool
	env            []string
}{
	{name: "40 descriptors", commands: "ulimit -n 40"},
	{name: "no locked memory", commands: "ulimit -l 0"},
	{name: "a root that cannot be written", needsRoot: true,
		commands: "mount --make-rprivate / && mount --bind -o ro / / && ! touch /x 2>/dev/null",
		env:      []string{"XDG_RUNTIME_DIR=", "XDG_CACHE_HOME=", "HOME=/none"}},
	{name: "no directory for temporary files", env: []string{"XDG_RUNTIME_DIR=", "TMPDIR=/none"}},
}

// TestRestricted runs a program where the system withholds something, with both carriers.
func TestRestricted(t *testing.T) {
	for _, x := range restrictions {
		t.Run(x.name, func(t *testing.T) {
			if x.needsRoot && os.Getuid() != 0 {
				t.Skip("a mount takes root")
			}
			withCarriers(t, func(t *testing.T, flags []string) {
				r := newRig(t)
				r.flags = flags
				r.before = []string{"sh", "-ec", x.commands + "\nexec \"$@\"", "sh"}
				if x.needsRoot {
					r.before = append([]string{"unshare", "-m"}, r.before...)
				}
				r.env = append(r.env, x.env...)
				assert.Contains(t, r.pair("ibv_rc_pingpong", "-g", "0", "-n", "50", "-e"), "50 iters in")
			})
		})
	}
	t.Run("a user namespace", func(t *testing.T) {
		if err := exec.Command("unshare", "-Ur", "true").Run(); err != nil {
			t.Skip("the system permits no user namespaces: ", err)
		}
		withCarriers(t, func(t *testing.T, flags []string) {
			r := newRig(t)
			r.flags, r.before = flags, []string{"unshare", "-Ur"}
			assert.Contains(t, r.pair("ibv_rc_pingpong", "-g", "0", "-n", "50", "-e"), "50 iters in")
		})
	})
}
