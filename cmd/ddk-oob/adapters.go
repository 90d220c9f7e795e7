package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ciddk/bus/usb"
	"ciddk/bus/usb/crspace"
	"ciddk/bus/usb/u2c"
)

// place returns an adapter's place on the USB.
func (o options) place() (usb.Info, error) {
	bus, addr, ok := strings.Cut(o.USB, ":")
	b, err1 := strconv.ParseUint(bus, 10, 8)
	a, err2 := strconv.ParseUint(addr, 10, 8)
	if !ok || err1 != nil || err2 != nil {
		return usb.Info{}, fmt.Errorf("--usb %q: want BUS:ADDRESS, such as 1:5", o.USB)
	}
	return usb.Info{Bus: int(b), Address: int(a)}, nil
}

// serial returns the serial number of --serial.
func (o options) serial() (uint32, error) {
	v, err := strconv.ParseUint(strings.TrimPrefix(o.Serial, "0x"), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("--serial %q: want up to 8 hexadecimal digits", o.Serial)
	}
	return uint32(v), nil
}

// config returns the configuration of an adapter.
func (o options) config() u2c.Config { return u2c.Config{Speed: o.Speed, BatchReads: o.Batch} }

// A source lists and opens adapters: those of the USB, or the fake.
type source interface {
	list() ([]usb.Info, error)
	open(p *program, at usb.Info) (*u2c.Adapter, error)
	close() error
}

// source returns what the options select.
func (p *program) source() (source, error) {
	if p.Fake {
		return newFake()
	}
	return real{}, nil
}

// real is the USB.
type real struct{}

func (real) list() ([]usb.Info, error) { return usb.List() }

func (real) open(p *program, at usb.Info) (*u2c.Adapter, error) {
	pipe, err := usb.Open(p.ctx, at)
	if err != nil {
		return nil, err
	}
	return u2c.Open(p.ctx, pipe, p.config())
}

func (real) close() error { return nil }

// errSeveral is returned if the options do not select one of several adapters.
var errSeveral = errors.New("several USB adapters: select one with --serial or --usb (ddk-oob list)")

// adapter opens the adapter that the options select.
func (p *program) adapter(s source) (*u2c.Adapter, error) {
	if p.USB != "" {
		at, err := p.place()
		if err != nil {
			return nil, err
		}
		return s.open(p, at)
	}
	l, err := s.list()
	switch {
	case err != nil:
		return nil, err
	case len(l) == 0:
		return nil, fmt.Errorf("%w (0abf:3370)", usb.ErrNotFound)
	case p.Serial != "":
		return p.bySerial(s, l)
	case len(l) > 1:
		return nil, errSeveral
	}
	return s.open(p, l[0])
}

// bySerial opens the adapter with the serial number of --serial. Adapters that cannot be opened are skipped.
func (p *program) bySerial(s source, l []usb.Info) (*u2c.Adapter, error) {
	want, err := p.serial()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, at := range l {
		a, err := s.open(p, at)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case a.Info().Serial == want:
			return a, nil
		}
		errs = append(errs, a.Close())
	}
	return nil, errors.Join(append(errs, fmt.Errorf("%w: serial number %08x", usb.ErrNotFound, want))...)
}

// withAdapter calls f with the selected adapter, and closes it.
func (p *program) withAdapter(f func(*u2c.Adapter) error) (err error) {
	s, err := p.source()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a, err := p.adapter(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return f(a)
}

// withSpace calls f with the registers of the card.
func (p *program) withSpace(c crspace.Config, f func(*crspace.Space, crspace.ID) error) error {
	c.Address = p.Address
	return p.withAdapter(func(a *u2c.Adapter) error {
		s, id, err := crspace.Find(p.ctx, a, c)
		if err != nil {
			return err
		}
		return f(s, id)
	})
}
