package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInstall runs a program with what --install writes and prints, without ddkrun, before and after the daemon has got
// another adapter.
func TestInstall(t *testing.T) {
	useDirs(t)
	dir, err := os.MkdirTemp("", "ddkrun") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket, to := filepath.Join(dir, "s"), filepath.Join(dir, "a", "b")
	require.ErrorContains(t, installTo(nil, options{socket: socket, install: to}), socket)
	for _, adapters := range [][]string{{simulated}, {simulated, "link=network,address=127.0.0.2"}} {
		args := []string{daemonArg, "serve", "--socket", socket}
		for _, a := range adapters {
			args = append(args, "--adapter", a)
		}
		server := exec.Command(os.Args[0], args...)
		require.NoError(t, server.Start())
		var env bytes.Buffer
		err := installTo(&env, options{socket: socket, install: to, wait: time.Minute, share: shareAuto})
		require.NoError(t, err)
		program := exec.Command("/bin/ls", "/sys/class/infiniband")
		program.Env = strings.Split(strings.TrimSpace(env.String()), "\n")
		out, err := program.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, "rxe_ddk0\nrxe_ddk1\n"[:9*len(adapters)], string(out))
		require.NoError(t, server.Process.Signal(os.Interrupt))
		require.NoError(t, server.Wait())
		found, err := filepath.Glob(filepath.Join(to, "*"))
		require.NoError(t, err)
		assert.Equal(t, []string{filepath.Join(to, installedLibrary), filepath.Join(to, installedTree)}, found)
	}
	for _, args := range [][]string{{"--install=d", "true"}, {"--install=d", "--stop"}, {"--install=d", "--compile"}} {
		_, _, err := parse(args)
		assert.ErrorContains(t, err, "--install", args)
	}
}
