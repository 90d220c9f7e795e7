package verbs

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
	"ciddk/internal/verbsmatrix"
)

// cell is a program in a situation.
type cell struct {
	*verbsmatrix.Program
	situation verbsmatrix.Situation
}

// name returns the name of a subtest.
func (c cell) name() string { return c.situation.String() + "," + c.Server }

// cells returns the cells of the matrix in wanted situations.
func cells(t *testing.T, isWanted func(verbsmatrix.Situation) bool) []cell {
	root, err := modroot.Find()
	require.NoError(t, err)
	m, err := verbsmatrix.Read(root)
	require.NoError(t, err)
	var list []cell
	for _, p := range m.Programs {
		for _, s := range verbsmatrix.Situations {
			if isWanted(s) && p.Left(s) == "" {
				list = append(list, cell{p, s})
			}
		}
	}
	return list
}

// TestMatrix runs each program of the matrix through one daemon and through two, also under load and over a link that
// impairs packets. CI runs a core of them.
func TestMatrix(t *testing.T) {
	parts := 40
	if testing.Short() {
		parts = 80
	}
	list := cells(t, func(s verbsmatrix.Situation) bool { return s.Where != verbsmatrix.Linux })
	for i, c := range testenv.Sample(t, list, parts) {
		t.Run(c.name(), func(t *testing.T) { c.run(t, alternate(i)) })
	}
}

// run runs the program with daemons of its own, and flags of ddkrun.
func (c cell) run(t *testing.T, flags []string) {
	r, address := c.rig(t)
	r.flags, r.client().flags = flags, flags
	if c.situation.Condition == verbsmatrix.Load {
		r.load()
	}
	assert.Contains(t, c.runIn(r, address), c.Want)
}

// runIn runs the program with a rig, and returns the client's output.
func (c cell) runIn(r *rig, address string) string {
	server, client := c.Lines(address)
	if c.Client == "" {
		args := strings.Fields(server)
		return r.pair(slices.Concat(args, gidOption(args[0]))...)
	}
	return r.connect(server, client, c.IsEndless)
}

// rig returns the daemons, and the address of the server's adapter.
func (c cell) rig(t *testing.T) (r *rig, address string) {
	switch {
	case c.situation.Where == verbsmatrix.One:
		const address = "10.0.0.1"
		return newRigAt(t, address), address
	case c.situation.Condition == verbsmatrix.Loss:
		return newPair(t, "impair=1%")
	}
	return newPair(t)
}

// gidOption returns the option of a program that needs to be told which GID of a RoCE port it shall use.
func gidOption(program string) []string {
	if strings.HasPrefix(program, "ibv_") {
		return []string{"-g", "0"}
	}
	return nil
}

// load keeps the daemons and the processors busy until the test ends: a client writes to a server without end.
func (r *rig) load() {
	port := freePort(r.t)
	args := []string{"ib_write_bw", "-F", "-s", "4096", "-D", "3600", "-p", strconv.Itoa(port)}
	server, out := r.command(args...)
	start(r.t, server)
	awaitListener(r.t, port, nil, waiting{r, server.Process.Pid, out})
	client, _ := r.client().command(append(args, "127.0.0.1")...)
	start(r.t, client)
	listening := fmt.Sprintf(":%04X", port)
	// The server has no listener any more when the client has connected.
	require.Eventually(r.t, func() bool { return !isListening(listening) }, patience, 5*time.Millisecond)
}

// start starts a program, which is killed at the end of the test.
func start(t *testing.T, c *exec.Cmd) {
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
}
