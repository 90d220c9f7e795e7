package fw_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/vfiouser"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// TestAcrossSocket drives a model through vfio-user: events of all kinds, a catastrophic error, and a server that goes
// away under way.
func TestAcrossSocket(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		m := newModel(t, model.Config{})
		path := filepath.Join(t.TempDir(), "dev")
		l, err := vfiouser.Listen(path)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- vfiouser.Serve(ctx, l, m, vfiouser.Config{}) }()
		f, err := vfiouser.Dial(t.Context(), path)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, f.Close()) })

		d := open(t, f, c)
		var calls atomic.Int32
		q := newCQ(t, d, 1, func() { calls.Add(1) })
		q.complete(t)
		eventually(t, func() bool { return calls.Load() == 1 }, "the completion event")
		r := record(d)
		require.NoError(t, d.InitPort(t.Context(), 1))
		require.NoError(t, m.SetLink(1, false))
		eventually(t, func() bool { return r.count(prm.EventPortChange, prm.PortChangeDown) == 1 }, "the port event")
		m.FailDevice()
		<-d.Failed()
		require.NoError(t, d.Close())

		d = open(t, f, c)
		require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
		cancel()
		require.NoError(t, <-served)
		<-d.Failed()
		assert.ErrorIs(t, d.Err(), bus.ErrGone)
		require.NoError(t, d.Close())
	})
}
