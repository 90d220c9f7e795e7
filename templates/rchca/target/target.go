// Package target opens the adapters on which the certifier runs, for go test and for a command of your own.
package target

import (
	"context"
	"errors"

	"ciddk/ci"
	"ciddk/templates/rchca"
	"ciddk/templates/rchca/soft"
	"ciddk/templates/rchca/userlib" // user.go
	"ciddk/validate"
)

// Driver returns the driver under test. Change open to open your own adapters.
func Driver() validate.Driver {
	return validate.Driver{
		Name:        "rchca",
		Description: "the driver of the template, on devices in software",
		// Only one process at a time can open the device. Without Exclusive, several workers are faster; each one then
		// needs adapters of its own (Options.Worker).
		Exclusive: true,
		Open:      open,
	}
}

func open(context.Context, validate.Options) (*validate.Target, error) {
	fabric := new(soft.Fabric)
	var adapters []*rchca.HCA
	// The devices in software copy messages in memory and lose none. A target with a cable does not set Lossless, or
	// has a Probe.
	t := &validate.Target{Version: "template", Lossless: true}
	t.UserLibrary = userlib.New() // user.go
	t.Close = func(context.Context) error {
		var errs []error
		for _, h := range adapters {
			errs = append(errs, h.Close())
		}
		return errors.Join(errs...)
	}
	t.Live = func() map[string]int {
		sum := map[string]int{}
		for _, h := range adapters {
			for kind, n := range h.Live() {
				sum[kind] += n
			}
		}
		return sum
	}
	t.Load = load
	for _, guid := range []ci.GUID{0x02ddcd0000007001, 0x02ddcd0000007002} {
		h, err := rchca.New(fabric.New(guid))
		if err != nil {
			return nil, errors.Join(err, t.Close(context.Background()))
		}
		adapters = append(adapters, h)
		t.HCAs = append(t.HCAs, h)
	}
	return t, nil
}

// load loads the driver on another device, as your operating system's part of the driver does: New, then Register, and
// Deregister before Close. A device in software cannot be pulled out.
func load(_ context.Context, r ci.Registrar) (unload func(gone bool) error, err error) {
	h, err := rchca.New(new(soft.Fabric).New(0x02ddcd0000007003))
	if err != nil {
		return nil, err
	}
	if err := r.Register(h); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return func(bool) error { return errors.Join(r.Deregister(h.Info().GUID), h.Close()) }, nil
}
