package verbs

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/debian"
	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
	"ciddk/internal/verbsmatrix"
	"ciddk/validate"
)

var recordSpaces = flag.Bool("record-spaces", false, "TestSpaces writes its results to "+verbsmatrix.SpacesPath)

// ubuntu is the archive of Ubuntu. On other machines, the variable has its address.
var ubuntu = debian.Archive{Origin: "Ubuntu", Address: os.Getenv("CIDDK_UBUNTU"),
	Keyring: "ubuntu-archive-keyring.gpg", Components: "main universe"}

// spaces are the user spaces of releases of Debian and Ubuntu, by the name of their root.
var spaces = []struct {
	title  string
	set    debian.Set
	faults []string // cases that fail for faults of the user library (docs/verbs.md)
	// newCmtime is true if cmtime also connects QP numbers that it does not have, which the daemon refuses since others
	// may have them.
	newCmtime bool
}{
	{"Debian 12", newSpace("bookworm"), []string{nextPoll, inlineList}, false},
	{"Ubuntu 24.04", inArchive(ubuntu, newSpace("noble")), []string{nextPoll, inlineList}, false},
	{"Debian 13", newSpace("trixie"), []string{inlineList}, true},
	{"Debian sid", newSpace("sid", "gcc", "libc6-dev", "libibverbs-dev"), nil, true},
}

// Cases that find faults of the stock user library: rdma-core#1512 until release 54, and rdma-core#1751 until 63.
const (
	nextPoll   = "cq.poll.order"
	inlineList = "post.inline.exact"
)

// newSpace returns the packages of a suite's user space. Without more of them, it has no C compiler.
func newSpace(suite string, more ...string) debian.Set {
	return debian.Set{Name: "verbs-" + suite, Suite: suite, Packages: append([]string{"libc6", "libc-bin", "coreutils",
		"dash", "rdma-core", "ibverbs-utils", "ibverbs-providers", "perftest", "rdmacm-utils", "iproute2",
		"python3-pyverbs"}, more...)}
}

func inArchive(a debian.Archive, s debian.Set) debian.Set {
	s.Archive = a
	return s
}

// installTime is the longest time that a user space may take: 50 to 110 MB are downloaded.
const installTime = 8 * time.Minute

// space is a user space, and what runs in it.
type space struct {
	root   string
	ddkrun string   // a static program, which needs no library
	faults []string // what the certifier finds in the user library
}

// use has a rig run its programs in the user space, with a carrier.
func (s *space) use(r *rig, carrier string) *rig {
	r.root, r.program = s.root, s.ddkrun
	r.before = debian.Enter(s.root, os.TempDir())
	r.flags = []string{"--carrier", carrier}
	r.env = append(r.env, "PATH=/usr/sbin:/usr/bin", "HOME=/", "LC_ALL=C.UTF-8", "LD_LIBRARY_PATH=")
	return r
}

// TestSpaces runs programs in the user spaces of several releases of Debian and Ubuntu, with both carriers: the tools
// for devices and for RDMA netlink, rdma-core's own tests in Python, and with CIDDK_WHOLE the programs of the matrix.
func TestSpaces(t *testing.T) {
	testenv.Measurement(t) // it downloads 200 MB
	if os.Getuid() != 0 {
		t.Skip("another root directory takes root")
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "ciddk/cmd/ddkrun", "ciddk/cmd/"+certifier)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "XDG_CACHE_HOME="+cache)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	results := make([]verbsmatrix.Space, len(spaces))
	for i, x := range spaces {
		results[i].Name = x.title
		t.Run(x.set.Suite, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), installTime)
			defer cancel()
			x.set.Cache = cache
			root, err := x.set.Root(ctx, nil)
			if err != nil {
				t.Skip(err)
			}
			versions, err := debian.Versions(root)
			require.NoError(t, err)
			results[i] = verbsmatrix.Space{Name: x.title, Library: versions["rdma-core"],
				CLibrary: versions["libc6"], Perftest: versions["perftest"]}
			s := &space{root, filepath.Join(bin, "ddkrun"), x.faults}
			t.Run("faults", func(t *testing.T) { s.known(t, filepath.Join(bin, certifier)) })
			withCarriers(t, func(t *testing.T, flags []string) {
				carrier := flags[1]
				t.Run("tools", func(t *testing.T) { s.tools(t, carrier) })
				t.Run("pyverbs", func(t *testing.T) { results[i].Add(carrier+" pyverbs", s.pyverbs(t, carrier)) })
				if testenv.Whole() {
					t.Run("programs", func(t *testing.T) {
						results[i].Add(carrier+" programs", s.programs(t, i, carrier))
					})
				}
			})
		})
	}
	if *recordSpaces && !t.Failed() {
		dir, err := modroot.Find()
		require.NoError(t, err)
		require.NoError(t, verbsmatrix.WriteSpaces(dir, results))
	}
}

// tools runs the programs that look for devices. If the root has a C compiler, the library is compiled there, and a
// program that finds faults of the user library.
func (s *space) tools(t *testing.T, carrier string) {
	r := s.use(newRig(t), carrier)
	assert.Contains(t, r.run("ibv_devinfo", "-v"), "rxe_ddk0")
	assert.Contains(t, r.run("rdma", "link", "-j"), `"ifname":"rxe_ddk0"`)
	assert.Contains(t, r.run("--explain", "ibv_devinfo"), "(rdma-core ")
	if _, err := os.Stat(filepath.Join(s.root, "usr/bin/gcc")); err != nil {
		return
	}
	dir := t.TempDir()
	b, err := os.ReadFile("testdata/extended.c")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "extended.c"), b, 0o600))
	const script = `cd "$0" && gcc -o extended extended.c -libverbs && ./extended`
	assert.Equal(t, "success\n", r.run("sh", "-c", script, dir))
	require.NoError(t, os.Symlink("/usr/bin/gcc", filepath.Join(dir, "cc"))) // the package's script makes it
	r.env = append(r.env, "PATH="+dir+":/usr/sbin:/usr/bin")
	r.flags = append(r.flags, "--compile")
	assert.Contains(t, r.run("ibv_devinfo"), "rxe_ddk0")
}

// pyverbs runs rdma-core's own tests, and returns how many have passed.
func (s *space) pyverbs(t *testing.T, carrier string) string {
	dir := copySuite(t, s.root)
	r := s.use(newSocketRig(t), carrier)
	passed, skipped := r.suite(dir)
	counts := fmt.Sprintf("%d, %d skipped", passed, skipped)
	t.Log(counts)
	return counts
}

// programs runs programs of the matrix, and returns their number.
func (s *space) programs(t *testing.T, i int, carrier string) string {
	list := cells(t, func(s verbsmatrix.Situation) bool { return s == verbsmatrix.Situations[0] })
	count := len(list)
	list = slices.DeleteFunc(testenv.Sample(t, append(list[i:count:count], list[:i]...), 12), func(c cell) bool {
		return spaces[i].newCmtime && strings.HasPrefix(c.Server, "cmtime")
	})
	for _, c := range list {
		t.Run(c.Server, func(t *testing.T) {
			r, address := c.rig(t)
			assert.Contains(t, c.runIn(s.use(r, carrier), address), c.Want)
		})
	}
	return fmt.Sprintf("%d of %d", len(list), count)
}

// certifier is the certifier of what libibverbs shows.
const certifier = "ddk-validate-verbs"

// known certifies the user library as it is, by the cases that find its known faults: with the extended calls, which
// have them, and with the plain ones, which have not.
func (s *space) known(t *testing.T, bin string) {
	for calls, want := range map[string][]string{"extended": s.faults, "plain": nil} {
		r := s.use(newRig(t), "preload")
		r.flags = append(r.flags, "--no-workarounds")
		report := filepath.Join(t.TempDir(), "report.json")
		cmd, out := r.command(bin, "run", "--device", "rxe_ddk0", "--set", "calls="+calls, "--json", report, "--quiet",
			"--timeout", "60s", "--case", nextPoll, "--case", inlineList)
		err := cmd.Run() // with an exit code if a case fails
		b, readErr := os.ReadFile(report)
		require.NoError(t, readErr, "%v: %s", err, out)
		var rep validate.Report
		require.NoError(t, json.Unmarshal(b, &rep))
		var found []string
		for _, c := range rep.Results {
			if c.Status != validate.Pass {
				found = append(found, c.Case)
			}
		}
		assert.ElementsMatch(t, want, found, "calls=%s: %s", calls, out)
		assert.Len(t, rep.Results, 2, "%s", out)
	}
}
