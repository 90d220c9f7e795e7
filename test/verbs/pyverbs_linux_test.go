package verbs

import (
	"compress/gzip"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// suiteDir contains rdma-core's own tests of the package rdma-core of Debian, of which large files are compressed.
const suiteDir = "/usr/share/doc/rdma-core/tests"

// python is the system's interpreter, for which the package python3-pyverbs is built.
const python = "/usr/bin/python3"

// suiteRunner runs the tests of rdma-core whose names its environment contains, except for the names in SKIP.
const suiteRunner = `import os, sys, unittest
sys.path[:0] = ['tests', '.']
from args_parser import parser
parser.parse_args()
skip = os.environ['SKIP'].split()
def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t
loaded = unittest.defaultTestLoader.loadTestsFromNames(['tests.' + m for m in os.environ['MODULES'].split()])
suite = unittest.TestSuite(t for t in flat(loaded) if t.id().split('.')[-1] not in skip)
sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
`

// suiteSkip are tests of rdma-core that do not apply, with the reason.
var suiteSkip = map[string]string{
	"test_qp_ex_rc_atomic_write": "the adapter has no atomic writes, for which the test does not ask",
	"test_qp_ex_rc_bind_mw":      "binds a window of as many bytes as the value of a key",
}

// TestPyverbs runs rdma-core's own tests of the verbs, in Python.
func TestPyverbs(t *testing.T) {
	testenv.Long(t)
	dir := copySuite(t)
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("rdma-core's tests look up addresses with ip, which is not installed (Debian: iproute2)")
	}
	r := newSocketRig(t) // they need the name of an interface, too
	names := make([]string, 0, len(suiteSkip))
	for name := range suiteSkip {
		names = append(names, name)
	}
	const modules = "test_device test_addr test_pd test_mr test_cq test_cq_events test_cqex test_qp test_qpex " +
		"test_atomic test_relaxed_ordering test_fork"
	r.flags = alternate(0)
	r.env = append(r.env, "MODULES="+modules, "SKIP="+strings.Join(names, " "))
	cmd, out := r.command(python, "run.py", "--dev", "rxe_ddk0", "--gid", "0")
	cmd.Dir = dir
	require.NoError(t, cmd.Run(), "%s", out)
	m := regexp.MustCompile(`Ran (\d+) tests`).FindStringSubmatch(out.String())
	require.NotNil(t, m, "%s", out)
	count, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	assert.Greater(t, count-strings.Count(out.String(), "... skipped"), 60, "%s", out)
}

// newSocketRig returns a rig whose adapter is on the loopback interface, at a free UDP port.
func newSocketRig(t *testing.T) *rig {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	port := c.LocalAddr().(*net.UDPAddr).Port
	require.NoError(t, c.Close())
	return newRigOf(t, "interface=lo,port="+strconv.Itoa(port))
}

// copySuite copies rdma-core's tests, and returns their directory.
func copySuite(t *testing.T) string {
	if exec.Command(python, "-c", "import pyverbs.device").Run() != nil {
		t.Skip("pyverbs is not installed (Debian: python3-pyverbs)")
	}
	files, err := filepath.Glob(filepath.Join(suiteDir, "*.py*"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("rdma-core's tests are not in %s (Debian: rdma-core; images of containers may lack documentation)",
			suiteDir)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tests"), 0o700))
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		in := io.Reader(f)
		if strings.HasSuffix(name, ".gz") {
			in, err = gzip.NewReader(f)
			require.NoError(t, err)
		}
		b, err := io.ReadAll(in)
		require.NoError(t, err)
		base := strings.TrimSuffix(filepath.Base(name), ".gz")
		if base == "__init__.py" {
			b = nil // it imports all tests, also those for adapters of vendors
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tests", base), b, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.py"), []byte(suiteRunner), 0o600))
	return dir
}
