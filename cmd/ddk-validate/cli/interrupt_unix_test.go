//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/fakehca"
)

// stubborn returns a driver that floods its output, ignores signals, and does not return from Open. When Open begins,
// it creates the file named by the setting.
func stubborn() []validate.Driver {
	return []validate.Driver{{
		Name: "stubborn", Settings: map[string]string{"file": "created when the driver is opened"},
		Open: func(_ context.Context, o validate.Options) (*validate.Target, error) {
			if o.Values["file"] == "" {
				return &validate.Target{HCAs: []ci.HCA{fakehca.New(0xabe, ci.LinkEthernet, fakehca.Faults{})}}, nil
			}
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
			if err := os.WriteFile(o.Values["file"], nil, 0o600); err != nil {
				return nil, err
			}
			for b := bytes.Repeat([]byte("x"), 1<<16); ; {
				if _, err := os.Stdout.Write(b); err != nil {
					select {}
				}
			}
		},
	}}
}

// TestSignals checks that SIGTERM and SIGINT end a run soon, with its report and exit status 3, whatever the driver
// does.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir := t.TempDir()
		program, began := filepath.Join(dir, "ddk-validate"), filepath.Join(dir, "began")
		// The program must be a copy, not a link: testscript.Main selects the command by the name of the file, and a
		// worker is started from the target of a link.
		b, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(program, b, 0o700))
		cmd := exec.CommandContext(
			t.Context(), program, "run", "stubborn", "--profile", "minimal", "--case", "open.guid", "--timeout", "5m",
			"--set", "file="+began,
		)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		hasBegun := func() bool { _, err := os.Stat(began); return err == nil }
		require.Eventually(t, hasBegun, testenv.Patience, 10*time.Millisecond)
		begin := time.Now()
		require.NoError(t, cmd.Process.Signal(sig))
		err = cmd.Wait()
		assert.Less(t, time.Since(begin), 20*time.Second)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 3, exit.ExitCode(), out.String())
		assert.Contains(t, out.String(), "stopped: interrupted")
	}
}
