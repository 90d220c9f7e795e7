package vfiouser_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/bus/vfiouser"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a device and returns its socket. stop ends the server.
func serve(t *testing.T, d bus.Device) (path string, stop func()) {
	path = filepath.Join(t.TempDir(), "dev")
	l, err := vfiouser.Listen(path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- vfiouser.Serve(ctx, l, d, vfiouser.Config{}) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return path, cancel
}

func TestFunction(t *testing.T) {
	bustest.Run(t, func(t *testing.T, d *bustest.Device) (bus.Function, func()) {
		path, stop := serve(t, d)
		f, err := vfiouser.Dial(t.Context(), path)
		require.NoError(t, err)
		return f, stop
	})
}
