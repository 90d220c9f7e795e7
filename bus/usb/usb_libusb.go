//go:build usb && cgo

package usb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/gousb"

	"ciddk/bus/usb/u2c"
)

// interfaceNumber is that of the adapter's only interface.
const interfaceNumber = 0

// List returns the adapters on the USB, in the order of bus and address.
func List() (l []Info, err error) {
	c, err := newContext()
	if err != nil {
		return nil, fmt.Errorf("usb.List: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, err = c.OpenDevices(func(d *gousb.DeviceDesc) bool {
		if isAdapter(d) {
			l = append(l, Info{d.Bus, d.Address})
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("usb.List: %w", translate(err))
	}
	slices.SortFunc(l, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Address, b.Address))
	})
	return l, nil
}

func isAdapter(d *gousb.DeviceDesc) bool {
	return d.Vendor == u2c.VendorID && d.Product == u2c.ProductID
}

// newContext initializes libusb. Package gousb panics if that fails.
func newContext() (c *gousb.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("libusb cannot be initialized: %v", r)
		}
	}()
	return gousb.NewContext(), nil
}

// Open claims an adapter.
func Open(ctx context.Context, at Info) (u2c.Pipe, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("usb.Open %v: %w", at, err)
	}
	p := &pipe{}
	if err := p.open(at); err != nil {
		return nil, errors.Join(fmt.Errorf("usb.Open %v: %w", at, translate(err)), p.Close())
	}
	return p, nil
}

// A pipe is the endpoints of an adapter, and what they need.
type pipe struct {
	context *gousb.Context
	device  *gousb.Device
	config  *gousb.Config
	claim   *gousb.Interface
	in      *gousb.InEndpoint
	out     *gousb.OutEndpoint
}

// open claims the interface. After an error, Close releases what it has.
func (p *pipe) open(at Info) (err error) {
	if p.context, err = newContext(); err != nil {
		return err
	}
	devices, err := p.context.OpenDevices(func(d *gousb.DeviceDesc) bool {
		return isAdapter(d) && d.Bus == at.Bus && d.Address == at.Address
	})
	if len(devices) > 0 {
		p.device = devices[0] // a bus has one device of an address
	}
	switch {
	case err != nil:
		return err
	case p.device == nil:
		return ErrNotFound
	}
	if err := p.device.SetAutoDetach(true); err != nil {
		return fmt.Errorf("the kernel's driver cannot be detached (rmmod i2c-diolan-u2c): %w", err)
	}
	number, err := p.device.ActiveConfigNum()
	if err != nil {
		return err
	}
	if p.config, err = p.device.Config(number); err != nil {
		return err
	}
	if p.claim, err = p.config.Interface(interfaceNumber, 0); err != nil {
		return err
	}
	return p.openEndpoints()
}

// openEndpoints opens the first bulk endpoint of each direction.
func (p *pipe) openEndpoints() (err error) {
	for _, e := range p.claim.Setting.Endpoints {
		if e.TransferType != gousb.TransferTypeBulk {
			continue
		}
		switch {
		case e.Direction == gousb.EndpointDirectionIn && p.in == nil:
			p.in, err = p.claim.InEndpoint(e.Number)
		case e.Direction == gousb.EndpointDirectionOut && p.out == nil:
			p.out, err = p.claim.OutEndpoint(e.Number)
		}
		if err != nil {
			return err
		}
	}
	if p.in == nil || p.out == nil {
		return errors.New("the device has no pair of bulk endpoints")
	}
	return nil
}

// Write implements u2c.Pipe.
func (p *pipe) Write(ctx context.Context, b []byte) (int, error) {
	n, err := p.out.WriteContext(ctx, b)
	return n, inTime(ctx, err)
}

// Read implements u2c.Pipe.
func (p *pipe) Read(ctx context.Context, b []byte) (int, error) {
	n, err := p.in.ReadContext(ctx, b)
	return n, inTime(ctx, err)
}

// inTime replaces the error of a canceled transfer by the context's.
func inTime(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return translate(err)
}

// translate replaces errors of libusb by those that callers compare with.
func translate(err error) error {
	for _, x := range []struct{ from, to error }{
		{gousb.ErrorNoDevice, u2c.ErrUnplugged}, {gousb.TransferNoDevice, u2c.ErrUnplugged},
		{gousb.ErrorAccess, ErrAccess}, {gousb.ErrorBusy, ErrBusy}, {gousb.ErrorTimeout, u2c.ErrTimeout},
	} {
		if errors.Is(err, x.from) {
			return fmt.Errorf("%w (libusb: %w)", x.to, err)
		}
	}
	return err
}

// Close implements u2c.Pipe.
func (p *pipe) Close() error {
	var errs []error
	if p.claim != nil {
		p.claim.Close()
	}
	if p.config != nil {
		errs = append(errs, p.config.Close())
	}
	if p.device != nil {
		errs = append(errs, p.device.Close())
	}
	if p.context != nil {
		errs = append(errs, p.context.Close())
	}
	*p = pipe{}
	return errors.Join(errs...)
}
