package fw_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// TestCatastrophic reports an internal error of the adapter under traffic: commands end, the handler learns of it, and
// the device works again after Close and Open.
func TestCatastrophic(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		m := newModel(t, model.Config{})
		f := newFunction(t, m)
		c.WatchInterval = 10 * time.Millisecond
		d := open(t, f, c)
		told := make(chan fw.Event, 1)
		d.OnEvent(func(e fw.Event) { told <- e }, prm.EventLocalCatas)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}) == nil {
				}
			})
		}
		m.FailDevice()
		<-d.Failed()
		wait.Wait()
		assert.ErrorIs(t, d.Err(), fw.ErrFailed)
		assert.ErrorContains(t, d.Err(), "catastrophic")
		assert.EqualValues(t, prm.EventLocalCatas, (<-told).Type)
		require.NoError(t, d.Close())
		assert.Zero(t, f.Memory().Len())
		again := open(t, f, c)
		assert.NoError(t, again.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
	})
}

// TestOwnReset resets the adapter behind the driver's back, with and without commands in progress. The driver notices
// it long before a command could exceed its time, keeps the adapter for itself until Close, and can start it again.
func TestOwnReset(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		for _, numCommands := range []int{0, 8} {
			m := newModel(t, model.Config{})
			f := newFunction(t, m)
			c.WatchInterval, c.CommandTimeout = 10*time.Millisecond, 24*time.Hour
			d := open(t, f, c)
			var wait sync.WaitGroup
			for range numCommands {
				wait.Go(func() {
					for d.Err() == nil {
						_ = d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}) // those after the reset may fail in any way
					}
				})
			}
			m.Reset()
			<-d.Failed()
			wait.Wait()
			assert.ErrorIs(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}), fw.ErrFailed)
			assert.ErrorContains(t, d.Err(), "was reset")
			_, err := fw.Open(t.Context(), f, quick(fw.Config{}))
			assert.ErrorIs(t, err, fw.ErrOwned)
			require.NoError(t, d.Close())
			again := open(t, f, c)
			assert.NoError(t, again.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
			require.NoError(t, again.Close())
		}
	})
}

// TestUnplug takes the function away under traffic.
func TestUnplug(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		f := newFunction(t, newModel(t, model.Config{}))
		d := open(t, f, c)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}) == nil {
				}
			})
		}
		f.Unplug()
		<-d.Failed()
		wait.Wait()
		assert.ErrorIs(t, d.Err(), bus.ErrGone)
		assert.ErrorIs(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}), fw.ErrFailed)
		require.NoError(t, d.Close())
		assert.Zero(t, f.Memory().Len())
		_, err := fw.Open(t.Context(), f, quick(c))
		assert.ErrorIs(t, err, bus.ErrGone)
	})
}

// TestLostInterrupt drops the interrupt of a command's completion.
func TestLostInterrupt(t *testing.T) {
	m := newModel(t, model.Config{})
	d := open(t, newFunction(t, m), fw.Config{})
	for range 100 { // a lost interrupt does not matter while the queue is being served
		m.LoseInterrupts(0, 1)
		require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
		if d.Stats().LostInterrupts > 0 {
			return
		}
	}
	require.Fail(t, "no interrupt was lost")
}

// TestNoInterrupts opens a device whose interrupts do not arrive: it is polled.
func TestNoInterrupts(t *testing.T) {
	t.Parallel()
	m := newModel(t, model.Config{})
	f := newFunction(t, m)
	m.LoseInterrupts(0, 1<<30)
	d := open(t, f, fw.Config{CommandTimeout: stuckTime})
	assert.True(t, d.IsPolling())
	for range 20 {
		require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
	}
	require.NoError(t, d.InitPort(t.Context(), 1))
}

// recorder records events of ports, and overflows.
type recorder struct {
	mu  sync.Mutex
	all []fw.Event
}

func record(d *fw.Device) *recorder {
	r := new(recorder)
	d.OnEvent(func(e fw.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, e)
	}, prm.EventPortChange, prm.EventPortMgmtChange, prm.EventEQOverflow)
	return r
}

// count returns the number of events of a type and subtype.
func (r *recorder) count(kind fw.EventType, subtype uint8) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if e.Type == kind && e.Subtype == subtype {
			n++
		}
	}
	return n
}

// TestPolledLosesNoEvent takes the cable out and in again many times, in all modes. Each change must arrive: this is
// where a driver without interrupts, or with commands that are polled, loses events of the port.
func TestPolledLosesNoEvent(t *testing.T) {
	eachMode(t, func(t *testing.T, c fw.Config) {
		m := newModel(t, model.Config{})
		d := open(t, newFunction(t, m), c)
		r := record(d)
		require.NoError(t, d.InitPort(t.Context(), 1))
		const changes = 20
		for i := range changes {
			m.LoseInterrupts(0, i%2)
			require.NoError(t, m.SetLink(1, i%2 != 0))
			require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
			want := i/2 + 1
			arrived := func() bool { return r.count(prm.EventPortChange, prm.PortChangeDown) == want }
			eventually(t, arrived, "change %d", i)
		}
		assert.Zero(t, r.count(prm.EventEQOverflow, 0))
		assert.Zero(t, d.Stats().BadEvents)
	})
}

// TestOverflow has event queues lose events. The handlers of ports and of CQs learn of it.
func TestOverflow(t *testing.T) {
	for name, eqn := range map[string]uint32{"asynchronous": 8, "completions": 10} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, c fw.Config) {
				m := newModel(t, model.Config{})
				c.WatchInterval = 5 * time.Millisecond
				d := open(t, newFunction(t, m), c)
				require.EqualValues(t, 10, d.CompletionEQ(0))
				r := record(d)
				var wakes sync.WaitGroup
				wakes.Add(1)
				once := sync.OnceFunc(wakes.Done)
				cq := newCQ(t, d, 0, once)
				m.OverflowEQ(eqn, 1)
				switch name {
				case "asynchronous":
					require.NoError(t, d.InitPort(t.Context(), 1))
					require.NoError(t, m.SetLink(1, false))
				case "completions":
					cq.complete(t)
				}
				eventually(t, func() bool { return r.count(prm.EventEQOverflow, 0) > 0 }, "the loss is reported")
				wakes.Wait()
				require.NoError(t, m.SetLink(1, true))
				require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
				if name == "asynchronous" {
					down := r.count(prm.EventPortChange, prm.PortChangeDown)
					require.NoError(t, m.SetLink(1, false))
					eventually(t, func() bool { return r.count(prm.EventPortChange, prm.PortChangeDown) > down },
						"events arrive again")
				}
			})
		})
	}
}

// TestCommandOverflow loses the completion of a command. Its result is unknown, so that the device fails.
func TestCommandOverflow(t *testing.T) {
	t.Parallel()
	for _, c := range []fw.Config{{}, {Polling: true}} {
		m := newModel(t, model.Config{})
		c.CommandTimeout = stuckTime
		d := open(t, newFunction(t, m), c)
		m.OverflowEQ(9, 1)
		assert.ErrorIs(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}), fw.ErrFailed)
		assert.ErrorContains(t, d.Err(), "did not complete in time")
	}
}
