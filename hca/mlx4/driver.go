package mlx4

import (
	"context"
	"errors"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// IDs are the functions that the driver drives: ConnectX-3 and ConnectX-3 Pro.
var IDs = []bus.ID{{Vendor: prm.VendorID, Device: prm.DeviceConnectX3}, {Vendor: prm.VendorID,
	Device: prm.DeviceConnectX3Pro}}

// Driver returns the driver for a bus. Each adapter that it starts is registered at r, and deregistered before it goes
// (SAS-2.2-02, -05, -07). An adapter that fails without having gone is deregistered, reset, and registered again.
func Driver(r ci.Registrar, c Config) bus.Driver {
	return bus.Driver{Name: "mlx4", IDs: IDs, Probe: func(ctx context.Context, f bus.Function) (bus.Instance, error) {
		if r == nil {
			return nil, errors.New("mlx4: no access layer: Driver was given a nil ci.Registrar [SAS-2.2-03]")
		}
		i := newInstance(f, r, c)
		if err := i.start(ctx); err != nil {
			return nil, err
		}
		i.watching.Add(1)
		go i.watch(context.WithoutCancel(ctx))
		return i, nil
	}}
}

// InstanceHCA returns the adapter of an instance of the driver. It returns nil for other instances, and while an
// adapter that has failed is not registered again.
func InstanceHCA(i bus.Instance) *HCA {
	if x, ok := i.(*instance); ok {
		return x.current()
	}
	return nil
}
