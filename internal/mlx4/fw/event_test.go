package fw_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// TestCompletions passes completion events to the functions of CQs on all event queues.
func TestCompletions(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		d := open(t, newFunction(t, newModel(t, model.Config{})), c)
		n := 2 * d.NumCompletionEQs()
		calls := make([]atomic.Int32, n)
		cqs := make([]*testCQ, n)
		for i := range n {
			cqs[i] = newCQ(t, d, i, func() { calls[i].Add(1) })
		}
		assert.ErrorIs(t, d.HandleCQ(cqs[0].num, nil, nil), fw.ErrInvalid)
		assert.ErrorIs(t, d.HandleQP(d.Caps().NumQPs, nil), fw.ErrInvalid)
		assert.ErrorIs(t, d.HandleSRQ(d.Caps().NumSRQs, nil), fw.ErrInvalid)
		for i, q := range cqs {
			q.complete(t)
			eventually(t, func() bool { return calls[i].Load() == 1 }, "CQ %d", i)
			q.arm() // an entry is there, so that the event follows at once
			eventually(t, func() bool { return calls[i].Load() == 2 }, "CQ %d", i)
		}
		for i, q := range cqs {
			assert.EqualValues(t, 2, calls[i].Load())
			q.destroy(t)
		}
		assert.Zero(t, d.Stats().BadEvents)
	})
}

// TestCommandInHandlers executes commands from the functions that handle events.
func TestCommandInHandlers(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		m := newModel(t, model.Config{})
		d := open(t, newFunction(t, m), c)
		results := make(chan error, 2)
		d.OnEvent(func(fw.Event) {
			results <- d.Cmd(t.Context(), prm.CmdNOP, fw.Args{})
		}, prm.EventPortChange)
		q := newCQ(t, d, 0, func() { results <- d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}) })
		q.complete(t)
		require.NoError(t, <-results)
		require.NoError(t, d.InitPort(t.Context(), 1))
		require.NoError(t, m.SetLink(1, false))
		require.NoError(t, <-results)
		d.OnEvent(nil, prm.EventPortChange)
	})
}

// TestUnknownCQ checks that the event of a CQ without functions is counted, and harmless.
func TestUnknownCQ(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		d := open(t, newFunction(t, newModel(t, model.Config{})), c)
		q := newCQ(t, d, 0, func() { assert.Fail(t, "the functions have been removed") })
		d.ReleaseCQ(q.num)
		q.complete(t)
		eventually(t, func() bool { return d.Stats().BadEvents == 1 }, "the event is counted")
		require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
	})
}
