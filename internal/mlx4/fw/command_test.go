package fw_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// eachMode runs a test in all modes.
func eachMode(t *testing.T, f func(t *testing.T, c fw.Config)) {
	for name, c := range modes {
		t.Run(name, func(t *testing.T) { f(t, c) })
	}
}

func TestCommandError(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		m := newModel(t, model.Config{})
		d := open(t, newFunction(t, m), c)
		for s, want := range map[prm.Status]ci.Status{prm.BadParam: ci.InvalidParameter, prm.BadOp: ci.Unsupported,
			prm.ExceedLim: ci.InsufficientResources, prm.ResourceBusy: ci.ResourceBusy, prm.InternalErr: ci.ErrorStatus,
			prm.BadQPState: ci.InvalidQPState, prm.Status(0x77): ci.ErrorStatus} {
			m.FailCommand(prm.CmdNOP, s, 1)
			err := d.Cmd(t.Context(), prm.CmdNOP, fw.Args{})
			var e *fw.CommandError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, fw.CommandError{Op: prm.CmdNOP, Status: s}, *e)
			assert.Equal(t, want, ci.StatusOf(err))
			assert.ErrorIs(t, err, want)
		}
		assert.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
		assert.Equal(t, ci.Unsupported, ci.StatusOf(d.Cmd(t.Context(), 0x7ff, fw.Args{})), "unknown opcode")
		for _, a := range []fw.Args{{In: make([]byte, prm.MailboxSize+1)}, {Out: make([]byte, prm.MailboxSize+1)},
			{OpModifier: 16}} {
			assert.ErrorIs(t, d.Cmd(t.Context(), prm.CmdNOP, a), fw.ErrInvalid)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, d.Cmd(canceled, prm.CmdHW2SWCQ, fw.Args{}), context.Canceled)
		require.NoError(t, d.Err())
	})
}

// TestConcurrentCommands executes more commands at once than can be outstanding, while the mode changes.
func TestConcurrentCommands(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		d := open(t, newFunction(t, newModel(t, model.Config{})), c)
		var wait sync.WaitGroup
		for i := range 32 {
			wait.Go(func() {
				for k := range 20 {
					b := make([]byte, 4)
					assert.NoError(t, d.Cmd(t.Context(), prm.CmdQueryPort, fw.Args{Out: b, Modifier: 1}))
					assert.NotZero(t, prm.PortTypes.Get(b))
					if i == 0 && k%5 == 0 {
						assert.NoError(t, d.SetPolledCommands(t.Context(), k%2 == 0))
					}
				}
			})
		}
		wait.Wait()
		assert.Zero(t, d.Stats().BadEvents)
		assert.Zero(t, d.Stats().Overruns)
	})
}

// TestStuckCommand has a command never complete: its context ends it, and then the device fails.
func TestStuckCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		t.Parallel()
		m := newModel(t, model.Config{})
		f := newFunction(t, m)
		c.CommandTimeout = stuckTime
		d := open(t, f, c)
		m.HangCommand(prm.CmdNOP)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := d.Cmd(ctx, prm.CmdNOP, fw.Args{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, d.Err(), "the context ended the command, and the device may be well")
		err = d.Cmd(t.Context(), prm.CmdNOP, fw.Args{})
		require.ErrorIs(t, err, fw.ErrFailed)
		assert.ErrorContains(t, err, "command register is busy")
		<-d.Failed()
		assert.ErrorIs(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}), fw.ErrFailed)
		require.NoError(t, d.Close())
		assert.Zero(t, f.Memory().Len())
		again := open(t, f, c)
		assert.NoError(t, again.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
	})
}

// TestStuckCommandFails has a command never complete without a context that ends it.
func TestStuckCommandFails(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		t.Parallel()
		m := newModel(t, model.Config{})
		c.CommandTimeout = stuckTime
		d := open(t, newFunction(t, m), c)
		m.HangCommand(prm.CmdNOP)
		err := d.Cmd(t.Context(), prm.CmdNOP, fw.Args{})
		require.ErrorIs(t, err, fw.ErrFailed)
		assert.ErrorContains(t, err, "did not complete in time")
	})
}

// TestClosingCommandFails checks that a device whose objects cannot be taken back counts as failed.
func TestClosingCommandFails(t *testing.T) {
	m := newModel(t, model.Config{})
	f := newFunction(t, m)
	d := open(t, f, fw.Config{})
	m.FailCommand(prm.CmdHW2SWMPT, prm.RegBound, 1)
	assert.Equal(t, ci.ResourceBusy, ci.StatusOf(d.Cmd(t.Context(), prm.CmdHW2SWMPT, fw.Args{OpModifier: 1})))
	require.NoError(t, d.Err())
	m.FailCommand(prm.CmdHW2SWCQ, prm.InternalErr, 1)
	var e *fw.CommandError
	require.ErrorAs(t, d.Cmd(t.Context(), prm.CmdHW2SWCQ, fw.Args{OpModifier: 1}), &e)
	require.ErrorIs(t, d.Err(), fw.ErrFailed)
	require.NoError(t, d.Close())
	open(t, f, fw.Config{})
}

// TestOpenFails has each command of the bring-up fail, and not complete: nothing is left behind, and the next Open
// succeeds.
func TestOpenFails(t *testing.T) {
	var tr trace
	m := newModel(t, model.Config{Trace: tr.add})
	f := newFunction(t, m)
	require.NoError(t, open(t, f, fw.Config{}).Close())
	seen := map[prm.Opcode]bool{}
	for _, x := range tr.ops() {
		if seen[x] || x == prm.CmdQueryEQ {
			continue
		}
		seen[x] = true
		m.FailCommand(x, prm.InternalErr, 1)
		d, err := fw.Open(t.Context(), f, quick(fw.Config{}))
		var e *fw.CommandError
		if err == nil { // a command of Close
			err = d.Close()
		}
		require.ErrorAs(t, err, &e, "%v", x)
		assert.Equal(t, x, e.Op)
		assert.Zero(t, f.Memory().Len(), "%v", x)

		m.HangCommand(x)
		d, err = fw.Open(t.Context(), f, quick(fw.Config{CommandTimeout: 20 * time.Millisecond}))
		if err == nil {
			err = d.Close()
		}
		require.ErrorIs(t, err, fw.ErrFailed, "%v", x)
		assert.Zero(t, f.Memory().Len(), "%v", x)
	}
	assert.Greater(t, len(seen), 20)
	require.NoError(t, open(t, f, fw.Config{}).Close())
}

func TestOwned(t *testing.T) {
	f := newFunction(t, newModel(t, model.Config{}))
	d := open(t, f, fw.Config{})
	_, err := fw.Open(t.Context(), f, quick(fw.Config{}))
	require.ErrorIs(t, err, fw.ErrOwned)
	assert.Equal(t, ci.ResourceBusy, ci.StatusOf(err))
	require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}), "the owner is not disturbed")
}

func TestConfig(t *testing.T) {
	f := newFunction(t, newModel(t, model.Config{}))
	for _, c := range []fw.Config{{PollInterval: -1}, {CommandTimeout: -1}, {ResetDelay: -1}, {WatchInterval: -1},
		{LogEQSize: 3}, {LogEQSize: 17}, {CompletionEQs: -1}, {CompletionEQs: 65}, {MaxMemory: -1}} {
		_, err := fw.Open(t.Context(), f, c)
		assert.ErrorIs(t, err, fw.ErrInvalid, "%+v", c)
	}
	_, err := fw.Open(t.Context(), f, quick(fw.Config{MaxMemory: 3 << 20}))
	assert.ErrorIs(t, err, fw.ErrExhausted)
	assert.Zero(t, f.Memory().Len())
}

// TestResetTakesTime checks in virtual time that the adapter is left alone after a reset.
func TestResetTakesTime(t *testing.T) {
	c := clock.NewVirtual(0)
	f := newFunction(t, newModel(t, model.Config{}))
	done := make(chan error, 1)
	go func() {
		d, err := fw.Open(t.Context(), f, fw.Config{Clock: c})
		if err == nil {
			err = d.Close()
		}
		done <- err
	}()
	eventually(t, func() bool { return c.Pending() > 0 }, "Open waits for the reset")
	c.Advance(time.Second - 1)
	select {
	case err := <-done:
		require.Failf(t, "Open did not wait", "%v", err)
	default:
	}
	c.Advance(1)
	require.NoError(t, <-done)
	assert.Equal(t, uint16(6), f.Config().Read16(bus.ConfigCommand)&6, "memory and bus mastering")
}
