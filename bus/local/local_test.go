package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/bus/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFunction(t *testing.T) {
	bustest.Run(t, func(_ *testing.T, d *bustest.Device) (bus.Function, func()) {
		f := local.New(d, "slot 1")
		return f, f.Unplug
	})
}
