package fw_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
)

// newModel returns a model with one port on a link of its own.
func newModel(t testing.TB, c model.Config) *model.Model {
	p, err := direct.New(new(direct.Link), direct.Config{})
	require.NoError(t, err)
	c.Ports = []model.PortConfig{{Link: p}}
	m, err := model.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// newFunction returns the function of a model in the process.
func newFunction(t testing.TB, m *model.Model) *local.Function {
	f := local.New(m, t.Name())
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// quick makes a configuration wait as little as a model needs.
func quick(c fw.Config) fw.Config {
	c.ResetDelay = time.Nanosecond
	return c
}

// open opens a device that the test's end closes.
func open(t testing.TB, f bus.Function, c fw.Config) *fw.Device {
	d, err := fw.Open(t.Context(), f, quick(c))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// modes are the ways in which a device can learn of events and of the completion of commands.
var modes = map[string]fw.Config{
	"interrupts":       {},
	"polling":          {Polling: true},
	"polled commands":  {PolledCommands: true},
	"polling, all":     {Polling: true, PolledCommands: true},
	"one queue, small": {CompletionEQs: 1, LogEQSize: 4},
	"many queues":      {CompletionEQs: 20},
}

// waitTime is a generous deadline.
const waitTime = testenv.Patience

// stuckTime is the command timeout of tests whose commands do not complete. Commands of a model complete in less time,
// on a busy machine, too.
const stuckTime = 3 * time.Second

// eventually waits for a condition.
func eventually(t testing.TB, is func() bool, text string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, is, waitTime, time.Millisecond, text, args...)
}
