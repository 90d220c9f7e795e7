package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ual"
)

// TestMain makes the test's program the daemon that ddkrun starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == daemonArg {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

const (
	noAdapter  = "address=203.0.113.77" // reserved for documentation (RFC 5737), so that no machine has it
	simulated  = "link=network,address=127.0.0.1"
	noSettings = "link=nonsense"
)

// TestStartDaemon checks that the daemon of the user gets the first adapter that can be created.
func TestStartDaemon(t *testing.T) {
	if _, err := os.Stat(ual.DefaultPath); err == nil {
		t.Skip("a daemon runs on this machine, at " + ual.DefaultPath)
	}
	for _, x := range []struct {
		name     string
		adapters []string
		failures []string // in the log, or in the error
		isError  bool
	}{
		{name: "the first works", adapters: []string{simulated, noSettings}},
		{name: "the second works", adapters: []string{noAdapter, simulated}, failures: []string{"203.0.113.77"}},
		{name: "none works", adapters: []string{noAdapter, noSettings},
			failures: []string{"203.0.113.77", "nonsense"}, isError: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			base := t.TempDir()
			t.Setenv("XDG_RUNTIME_DIR", base)
			t.Setenv("DDKD_SOCKET", "")
			before := defaultAdapters
			t.Cleanup(func() { defaultAdapters = before })
			defaultAdapters = x.adapters
			d, err := findDaemon("", true)
			text, readErr := os.ReadFile(filepath.Join(base, "ddkrun", "log"))
			require.NoError(t, readErr)
			if x.isError {
				require.ErrorIs(t, err, errEnded)
				text = []byte(err.Error())
			} else {
				require.NoError(t, err)
				t.Cleanup(func() { endDaemon(t, d) })
				assert.NotEmpty(t, d.tree)
			}
			for _, want := range x.failures {
				assert.Contains(t, string(text), want)
			}
			assert.Equal(t, len(x.failures), strings.Count(string(text), "ddkrun -daemon: "), "%s", text)
		})
	}
}

// endDaemon ends a daemon, and waits until it no longer answers.
func endDaemon(t *testing.T, d *daemon) {
	require.NoError(t, syscall.Kill(d.pid, syscall.SIGTERM))
	require.Eventually(t, func() bool {
		_, err := reach(userSocket())
		return err != nil
	}, time.Minute, startPoll)
}
