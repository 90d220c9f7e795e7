package main

import (
	"ciddk/bus/usb"
	"ciddk/bus/usb/crspace"
	"ciddk/bus/usb/u2c"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/u2cfake"
	"ciddk/link/direct"
)

// fakeSerial is the serial number of the adapter in software.
const fakeSerial = 0xfa4e0001

// A fake is one adapter in software, and the model behind it.
type fake struct{ model *model.Model }

func newFake() (*fake, error) {
	port, err := direct.New(direct.NewLink(), direct.Config{})
	if err != nil {
		return nil, err
	}
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: port}}})
	if err != nil {
		return nil, err
	}
	return &fake{m}, nil
}

func (f *fake) list() ([]usb.Info, error) { return []usb.Info{{Bus: 0, Address: 1}}, nil }

func (f *fake) open(p *program, at usb.Info) (*u2c.Adapter, error) {
	if at != (usb.Info{Bus: 0, Address: 1}) {
		return nil, usb.ErrNotFound
	}
	return u2c.Open(p.ctx, u2cfake.New(u2cfake.Config{Serial: fakeSerial, Targets: map[uint8]u2cfake.Target{
		crspace.Address: u2cfake.CRSpace(u2cfake.Registers(f.model, prm.BARControl)),
	}}), p.config())
}

func (f *fake) close() error { return f.model.Close() }
