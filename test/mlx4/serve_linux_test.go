package mlx4

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bus"
	"ciddk/bus/vfiouser"
	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bootTime is the longest time of one test, on a machine that is busy with others.
const bootTime = 8 * time.Minute

// needGuests skips the test if no guest with devices of ours can run here.
func needGuests(t *testing.T, providers ...string) context.Context {
	t.Helper()
	testenv.Linux(t, nil)
	testenv.Linux(t, guest.AvailableVFIOUser(providers...))
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	t.Cleanup(cancel)
	return ctx
}

// serve serves a device, and returns its socket.
func serve(t *testing.T, d bus.Device) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dev")
	l, err := vfiouser.Listen(path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- vfiouser.Serve(ctx, l, d, vfiouser.Config{Logger: slog.New(slog.DiscardHandler)}) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return path
}

// build compiles a program of the project for the guest.
func build(t *testing.T, ctx context.Context, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(pkg))
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	c.Env = append(c.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	text, err := c.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

// boot boots a guest on a network of its own.
func boot(t *testing.T, ctx context.Context, c guest.Config) *guest.Guest {
	t.Helper()
	n, err := guest.NewNetwork(ctx, guest.NetworkConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	g, err := n.Boot(ctx, c)
	require.NoError(t, err)
	return g
}

// run runs a program of a guest, which has to succeed, and returns its output.
func run(t *testing.T, ctx context.Context, g *guest.Guest, args ...string) string {
	t.Helper()
	r, err := g.Run(ctx, args...)
	require.NoError(t, err)
	require.Zero(t, r.Code, "%v: %s%s", args, r.Stdout, r.Stderr)
	return r.Stdout
}
