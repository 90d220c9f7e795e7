package mlx4_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/link/direct"
)

// recovery is an adapter on a bus that has come back or not.
type recovery struct {
	bus      bus.Bus
	r        *registrar
	m        *model.Model
	f        *local.Function
	instance bus.Instance
	attempts chan [2]error // cause and error of each attempt
}

func newRecovery(t *testing.T) *recovery {
	o := &recovery{r: newRegistrar(), m: newModel(t, new(direct.Link)), attempts: make(chan [2]error, 16)}
	c := config
	c.OnRecovery = func(f bus.Function, cause, err error) {
		if assert.Same(t, o.f, f) {
			o.attempts <- [2]error{cause, err}
		}
	}
	require.NoError(t, o.bus.Register(mlx4.Driver(o.r, c)))
	o.f = local.New(o.m, "model 0")
	var err error
	o.instance, err = o.bus.Add(t.Context(), o.f)
	require.NoError(t, err)
	return o
}

// attempt returns the cause and the error of the next attempt.
func (o *recovery) attempt(t *testing.T) (cause, err error) {
	t.Helper()
	select {
	case a := <-o.attempts:
		return a[0], a[1]
	case <-time.After(time.Minute):
		require.Fail(t, "no attempt to start the adapter again")
		return nil, nil
	}
}

// TestRecovery checks that an adapter that fails is registered again, as often as it fails, and that its consumers are
// told of the failure.
func TestRecovery(t *testing.T) {
	t.Parallel() // the second attempt comes after a second
	o := newRecovery(t)
	old := mlx4.InstanceHCA(o.instance)
	for _, fail := range []func(){o.m.FailDevice, o.m.Reset} {
		fail()
		cause, err := o.attempt(t)
		require.NoError(t, err)
		require.ErrorIs(t, cause, fw.ErrFailed)
		o.r.wait(t, ci.EventLocalFatal)
		h := mlx4.InstanceHCA(o.instance)
		require.NotNil(t, h)
		require.NotSame(t, old, h)
		_, err = old.OpenCA(old.Info().GUID, func(ci.Event) {}, nil)
		require.ErrorIs(t, err, ci.InvalidState, "the old one is closed")
		pd, err := o.r.ca(h.Info().GUID).AllocatePD(ci.PDNormal)
		require.NoError(t, err)
		require.NoError(t, pd.Destroy())
		old = h
	}
	require.NoError(t, o.bus.Close())
	require.Empty(t, o.r.cas)
}

// TestRecoveryRepeated checks that an attempt that fails is followed by another one.
func TestRecoveryRepeated(t *testing.T) {
	t.Parallel() // the second attempt comes after a second
	o := newRecovery(t)
	o.r.setError(ci.InsufficientResources)
	o.m.FailDevice()
	_, err := o.attempt(t)
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Nil(t, mlx4.InstanceHCA(o.instance))
	o.r.setError(nil)
	for err != nil { // an attempt may have begun before
		_, err = o.attempt(t)
	}
	require.NotNil(t, mlx4.InstanceHCA(o.instance))
	require.NoError(t, o.bus.Close())
}

// TestRecoveryEnds checks that an adapter that waits for its next attempt can be removed, and that one that has gone is
// not started again.
func TestRecoveryEnds(t *testing.T) {
	for name, end := range map[string]func(*recovery) error{
		"removed": func(o *recovery) error { return o.bus.Remove(o.f) },
		"unplugged": func(o *recovery) error {
			o.f.Unplug()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newRecovery(t)
			o.r.setError(ci.InsufficientResources)
			o.m.FailDevice()
			_, err := o.attempt(t)
			require.ErrorIs(t, err, ci.InsufficientResources)
			require.NoError(t, end(o))
			require.NoError(t, o.bus.Close())
			require.Empty(t, o.bus.Functions())
			require.Nil(t, mlx4.InstanceHCA(o.instance))
		})
	}
}

// TestRecoveryDelay checks the delays before attempts.
func TestRecoveryDelay(t *testing.T) {
	for failures, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
		assert.Equal(t, want*time.Second, mlx4.RecoveryDelay(failures), "%d failures", failures)
	}
	assert.Equal(t, time.Minute, mlx4.RecoveryDelay(1<<40))
}
