package local_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/bus/local"
)

// instance records how it was removed.
type instance struct {
	f       bus.Function
	removed atomic.Int32
	gone    atomic.Bool
	err     error
	block   chan struct{}
}

func (i *instance) Remove(gone bool) error {
	if i.block != nil {
		<-i.block
	}
	i.removed.Add(1)
	i.gone.Store(gone)
	return errors.Join(i.err, i.f.Close())
}

var errTest = errors.New("test")

func driver(probe func(f bus.Function) (bus.Instance, error)) bus.Driver {
	return bus.Driver{Name: "test", IDs: []bus.ID{bustest.ID},
		Probe: func(_ context.Context, f bus.Function) (bus.Instance, error) { return probe(f) }}
}

func TestBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bus.Bus
		require.NoError(t,
			b.Register(driver(func(f bus.Function) (bus.Instance, error) { return &instance{f: f}, nil })))
		var fs [3]*local.Function
		var is [3]*instance
		for i := range fs {
			fs[i] = local.New(bustest.New(), "slot")
			x, err := b.Add(t.Context(), fs[i])
			require.NoError(t, err)
			is[i] = x.(*instance)
		}
		assert.Equal(t, []bus.Function{fs[0], fs[1], fs[2]}, b.Functions())
		require.NoError(t, b.Remove(fs[1]))
		require.ErrorIs(t, b.Remove(fs[1]), bus.ErrUnknown)
		assert.False(t, is[1].gone.Load())
		fs[0].Unplug()
		synctest.Wait()
		assert.True(t, is[0].gone.Load())
		assert.Equal(t, []bus.Function{fs[2]}, b.Functions())
		require.NoError(t, b.Close())
		require.NoError(t, b.Close(), "idempotent")
		for i, x := range is {
			assert.EqualValues(t, 1, x.removed.Load(), "instance %d", i)
		}
		_, err := b.Add(t.Context(), local.New(bustest.New(), "slot"))
		require.ErrorIs(t, err, bus.ErrClosed)
	})
}

func TestBusRegister(t *testing.T) {
	t.Parallel()
	var b bus.Bus
	d := driver(func(bus.Function) (bus.Instance, error) { return nil, errTest })
	require.NoError(t, b.Register(d))
	d.Name = "second"
	require.ErrorContains(t, b.Register(d), `drivers "test" and "second" are both for 1d1d:0042`)
	require.Error(t, b.Register(bus.Driver{Name: "x", IDs: []bus.ID{{}}}))
	require.Error(t, b.Register(bus.Driver{Name: "x", Probe: d.Probe}))
}

func TestBusErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported error
		b := bus.Bus{OnError: func(_ bus.Function, err error) { reported = err }}
		f := local.New(bustest.New(), "slot 7")
		_, err := b.Add(t.Context(), f)
		require.ErrorIs(t, err, bus.ErrNoDriver)
		require.ErrorContains(t, err, "1d1d:0042 slot 7")
		require.ErrorIs(t, f.Reset(), bus.ErrClosed, "the function is closed")

		fail := true
		require.NoError(t, b.Register(driver(func(f bus.Function) (bus.Instance, error) {
			if fail {
				return nil, errTest
			}
			return &instance{f: f, err: errTest}, nil
		})))
		f = local.New(bustest.New(), "slot")
		_, err = b.Add(t.Context(), f)
		require.ErrorIs(t, err, errTest)
		require.ErrorIs(t, f.Reset(), bus.ErrClosed)

		fail = false
		f = local.New(bustest.New(), "slot")
		_, err = b.Add(t.Context(), f)
		require.NoError(t, err)
		f.Unplug()
		synctest.Wait()
		require.ErrorIs(t, reported, errTest)
		require.NoError(t, b.Close())
	})
}

// TestBusCloseWhileProbing closes a bus during a probe, and during the removal of a function that has gone.
func TestBusCloseWhileProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bus.Bus
		begin, block := make(chan struct{}), make(chan struct{})
		var made *instance
		require.NoError(t, b.Register(driver(func(f bus.Function) (bus.Instance, error) {
			close(begin)
			<-block
			made = &instance{f: f}
			return made, nil
		})))
		added := make(chan error)
		go func() {
			_, err := b.Add(t.Context(), local.New(bustest.New(), "slot"))
			added <- err
		}()
		<-begin
		closed := make(chan error)
		go func() { closed <- b.Close() }()
		synctest.Wait()
		close(block)
		require.ErrorIs(t, <-added, bus.ErrClosed)
		require.NoError(t, <-closed)
		assert.EqualValues(t, 1, made.removed.Load())
	})
	synctest.Test(t, func(t *testing.T) {
		var b bus.Bus
		x := &instance{block: make(chan struct{})}
		require.NoError(t, b.Register(driver(func(f bus.Function) (bus.Instance, error) {
			x.f = f
			return x, nil
		})))
		f := local.New(bustest.New(), "slot")
		_, err := b.Add(t.Context(), f)
		require.NoError(t, err)
		f.Unplug()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- b.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			require.NoError(t, err)
			require.Fail(t, "Close returned before the removal has ended")
		default:
		}
		close(x.block)
		require.NoError(t, <-closed)
		assert.EqualValues(t, 1, x.removed.Load())
	})
}
