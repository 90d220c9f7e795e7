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

// suiteRunner runs rdma-core's tests, except for those of vendors and of graphics memory. It ends without the garbage
// collector of Python, and does not use it before: it closes devices before their objects, and pyverbs of rdma-core 56
// then uses memory that it has freed.
const suiteRunner = `import gc, glob, os, sys, unittest
gc.disable()
sys.path[:0] = ['tests', '.']
from args_parser import parser
parser.parse_args()
names = sorted(os.path.basename(f)[:-3] for f in glob.glob('tests/test_*.py'))
names = [n for n in names if not any(v in n for v in ('mlx5', 'efa', 'irdma', 'cuda'))]
suite = unittest.defaultTestLoader.loadTestsFromNames(['tests.' + n for n in names])
is_ok = unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful()
sys.stderr.flush()
os._exit(not is_ok)
`

// TestPyverbs runs rdma-core's own tests of the verbs and of connections, in Python.
func TestPyverbs(t *testing.T) {
	testenv.Long(t)
	if exec.Command(python, "-c", "import pyverbs.device").Run() != nil {
		t.Skip("pyverbs is not installed (Debian: python3-pyverbs)")
	}
	dir := copySuite(t, "")
	r := newSocketRig(t) // they need the name of an interface, too
	r.flags = alternate(0)
	passed, _ := r.suite(dir)
	assert.Greater(t, passed, 60)
}

// suiteEnd matches the end of the runner's output.
var suiteEnd = regexp.MustCompile(`Ran (\d+) tests in .*\s+OK(?: \(skipped=(\d+)\))?`)

// suite runs rdma-core's tests in a directory, and returns how many have passed, and how many do not apply.
func (r *rig) suite(dir string) (passed, skipped int) {
	for _, program := range []string{"ip", "rdma"} {
		if !isInstalled(r.root, program) {
			r.t.Skipf("rdma-core's tests look up addresses with %s, which is not installed (Debian: iproute2)", program)
		}
	}
	out := r.run("sh", "-c", `cd "$0" && exec `+python+` run.py --dev rxe_ddk0 --gid 0`, dir)
	m := suiteEnd.FindStringSubmatch(out)
	require.NotNil(r.t, m, "%s", out)
	passed, err := strconv.Atoi(m[1])
	require.NoError(r.t, err)
	skipped, _ = strconv.Atoi(m[2]) // it is digits, or nothing
	return passed - skipped, skipped
}

// newSocketRig returns a rig whose adapter is on the loopback interface, at a free UDP port.
func newSocketRig(t *testing.T) *rig {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	port := c.LocalAddr().(*net.UDPAddr).Port
	require.NoError(t, c.Close())
	return newRigOf(t, "interface=lo,port="+strconv.Itoa(port))
}

// copySuite copies rdma-core's tests of a root directory, and returns their directory.
func copySuite(t *testing.T, root string) string {
	files, err := filepath.Glob(filepath.Join(root, suiteDir, "*.py*"))
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
