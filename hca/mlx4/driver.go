package mlx4

import (
	"context"
	"errors"
	"fmt"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/hca/mlx4/prm"
)

// IDs are the functions that the driver drives: ConnectX-3 and ConnectX-3 Pro.
var IDs = []bus.ID{{Vendor: prm.VendorID, Device: prm.DeviceConnectX3}, {Vendor: prm.VendorID,
	Device: prm.DeviceConnectX3Pro}}

// Driver returns the driver for a bus. Each adapter that it starts is registered at r, and deregistered before it goes
// (SAS-2.2-02, -05, -07).
func Driver(r ci.Registrar, c Config) bus.Driver {
	return bus.Driver{Name: "mlx4", IDs: IDs, Probe: func(ctx context.Context, f bus.Function) (bus.Instance, error) {
		h, err := New(ctx, f, c)
		if err != nil {
			return nil, err
		}
		if err := r.Register(h); err != nil {
			return nil, errors.Join(fmt.Errorf("mlx4: registration of %v: %w", h.info.GUID, err), h.Close())
		}
		return &instance{h, r}, nil
	}}
}

// instance is an adapter of a bus.
type instance struct {
	hca *HCA
	r   ci.Registrar
}

// InstanceHCA returns the adapter of an instance of the driver, or nil.
func InstanceHCA(i bus.Instance) *HCA {
	if x, ok := i.(*instance); ok {
		return x.hca
	}
	return nil
}

// Remove implements bus.Instance. The consumers receive EventResetForRemove, or EventLocalFatal if the function has
// gone. The removal waits until they have closed the CA.
func (i *instance) Remove(gone bool) error {
	t := ci.EventResetForRemove
	if gone {
		i.hca.dev.Fail(bus.ErrGone)
		t = ci.EventLocalFatal
	}
	i.hca.notifyRemoval(ci.Event{Type: t})
	return errors.Join(i.r.Deregister(i.hca.info.GUID), i.hca.Close(), i.hca.f.Close())
}
