package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
	"ciddk/internal/verbsmatrix"
)

// applicationEnv lets Open MPI start ranks as root. More ranks than processors yield the processor to each other.
var applicationEnv = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
	"OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_btl_vader_single_copy_mechanism=none"}

// applicationWords are the placeholders of the list of applications that stand for words.
var applicationWords = map[string]string{
	"{ompi}": "mpirun.openmpi --oversubscribe -np 3",
	"{ucx}":  "UCX_NET_DEVICES=rxe_ddk0:1",
}

// builtPlaceholder matches a placeholder for a program or a file: {COMPILER FILE FLAGS}.
var builtPlaceholder = regexp.MustCompile(`\{(\S+) ([^}]+)\}`)

// TestApplications runs programs and libraries of the distribution that use verbs. The adapter has an address of the
// machine, since libfabric and librpma look for those of interfaces.
func TestApplications(t *testing.T) {
	testenv.Long(t)
	root, err := modroot.Find()
	require.NoError(t, err)
	list, err := verbsmatrix.Applications(root)
	require.NoError(t, err)
	address := interfaceAddress(t)
	b := &builder{built: map[string]string{}, dir: t.TempDir()}
	for i, a := range list {
		if a.Test != "" {
			continue
		}
		t.Run(a.Package+","+a.What, func(t *testing.T) { b.run(t, a, address, alternate(i)) })
	}
}

// run runs an application with a daemon of its own, and flags of ddkrun.
func (b *builder) run(t *testing.T, a *verbsmatrix.Application, address string, flags []string) {
	checkVersion(t, a)
	r := newRigAt(t, address)
	r.env, r.flags = append(r.env, applicationEnv...), flags
	port := strconv.Itoa(freePort(t))
	line := func(text string) []string {
		for word, is := range applicationWords {
			text = strings.ReplaceAll(text, word, is)
		}
		text = strings.NewReplacer("{a}", address, "{p}", port, "{rsocket}", rsocketLibrary()).Replace(text)
		return strings.Fields(builtPlaceholder.ReplaceAllStringFunc(text, func(p string) string {
			m := builtPlaceholder.FindStringSubmatch(p)
			return b.build(t, m[1], strings.Fields(m[2]))
		}))
	}
	if a.Client == "" {
		assert.Contains(t, r.run(line(a.Server)...), a.Want)
		return
	}
	server, serverOut := r.command(line(a.Server)...)
	require.NoError(t, server.Start())
	r.flags = append(r.flags, "--wait", patience.String(), "--wait-port", port)
	client, out := r.command(line(a.Client)...)
	err := client.Run()
	if err != nil || a.IsEndless {
		_ = server.Process.Kill() // it may have ended
	}
	serverErr := server.Wait()
	require.NoError(t, err, "client %s:\n%s\nserver:\n%s", a.Client, out, serverOut)
	if !a.IsEndless {
		require.NoError(t, serverErr, "server %s:\n%s", a.Server, serverOut)
	}
	assert.Contains(t, out.String(), a.Want)
}

// checkVersion skips the test without the package. It logs if the package has another version than the one of the list.
func checkVersion(t *testing.T, a *verbsmatrix.Application) {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", a.Package).Output()
	if err != nil || len(out) == 0 {
		t.Skipf("the package %s of Debian is not installed", a.Package)
	}
	if !strings.Contains(string(out), a.Version) {
		t.Logf("%s %s; the list has %s", a.Package, out, a.Version)
	}
}

// rsocketLibrary returns the library by which programs use rsockets.
func rsocketLibrary() string {
	if found, _ := filepath.Glob("/usr/lib/*/rsocket/librspreload.so"); len(found) > 0 { // the pattern is valid
		return found[0]
	}
	return "librspreload.so"
}

// A builder compiles programs, each once.
type builder struct {
	dir   string
	mu    sync.Mutex
	built map[string]string
}

// build returns the path of a program, which a compiler makes of a source with flags. The compiler "file" takes it as
// it is.
func (b *builder) build(t *testing.T, compiler string, args []string) string {
	source := args[0]
	if !filepath.IsAbs(source) {
		source = filepath.Join("testdata", "applications", source)
	}
	if compiler == "file" {
		return source
	}
	if _, err := os.Stat(source); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(append([]string{compiler}, args...), " ")
	if b.built[key] == "" {
		program := filepath.Join(b.dir, strconv.Itoa(len(b.built)))
		flags := append([]string{"-O1", "-o", program, source}, args[1:]...)
		out, err := exec.Command(compiler, flags...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		b.built[key] = program
	}
	return b.built[key]
}
