package crspace

import (
	"context"
	"errors"
	"fmt"
)

// RegDeviceID is the register with the device ID.
const RegDeviceID = 0xf0014

// An ID identifies an adapter's generation. It is not the PCI device ID.
type ID struct {
	Device   uint16
	Revision uint8
}

// IDs of devices (mstflint hw_dev_id).
const (
	ConnectX3    = 0x1f5
	ConnectX3Pro = 0x1f7
)

var names = map[uint16]string{
	ConnectX3:    "ConnectX-3",
	ConnectX3Pro: "ConnectX-3 Pro",
	0x1ff:        "Connect-IB",
	0x209:        "ConnectX-4",
	0x20b:        "ConnectX-4 Lx",
	0x20d:        "ConnectX-5",
}

// String returns the name of the generation, or "unknown".
func (d ID) String() string {
	if n, ok := names[d.Device]; ok {
		return n
	}
	return "unknown"
}

// ID reads the device ID.
func (s *Space) ID(ctx context.Context) (ID, error) {
	v, err := s.Read32(ctx, RegDeviceID)
	if err != nil {
		return ID{}, fmt.Errorf("crspace.ID: %w", err)
	}
	return ID{Device: uint16(v), Revision: uint8(v >> 16 & 0xf)}, nil
}

// Find returns the space of the adapter on a bus, and its ID. It tries both I2C addresses if Config.Address is 0.
func Find(ctx context.Context, b Bus, c Config) (*Space, ID, error) {
	addrs := []uint8{Address, SecuredAddress}
	if c.Address != 0 {
		addrs = []uint8{c.Address}
	}
	var errs []error
	for _, a := range addrs {
		c.Address = a
		s := New(b, c)
		id, err := s.ID(ctx)
		if err == nil {
			return s, id, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, ID{}, errors.Join(errs...)
}
