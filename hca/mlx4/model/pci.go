package model

import (
	"encoding/binary"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// newConfigSpace returns the configuration space: power management, PCI Express and MSI-X.
func (m *Model) newConfigSpace() *bus.ConfigSpace {
	id := bus.ID{Vendor: prm.VendorID, Device: prm.DeviceConnectX3}
	if m.cfg.Pro {
		id.Device = prm.DeviceConnectX3Pro
	}
	c := bus.NewConfigSpace(bus.Identity{ID: id, SubVendor: prm.VendorID, SubDevice: 0x0050,
		Class: prm.DeviceClassNetwork}, bars)
	c.AddCapability(prm.ConfigCapPower, bus.CapPower, []byte{3, 0, 0, 0, 0, 0}, []byte{0, 0, 3, 0, 0, 0})
	express, writable := expressCapability()
	c.AddCapability(prm.ConfigCapExpress, bus.CapExpress, express, writable)
	c.AddMSIX(prm.ConfigCapMSIX, numVectors, prm.BARControl, prm.MSIXTable, prm.MSIXPending)
	return c
}

// expressCapability returns the PCI Express capability of an endpoint, version 2, without its first two bytes (PCI
// Express 3.0, 7.8), and its writable bits. The link is of 8 lanes at 8 GT/s.
func expressCapability() (body, writable []byte) {
	const (
		size         = 0x3c
		capabilities = 0x02 - 2 // offsets less those of ID and next pointer
		device       = 0x04 - 2
		deviceCtl    = 0x08 - 2
		link         = 0x0c - 2
		linkCtl      = 0x10 - 2
		linkStatus   = 0x12 - 2
		deviceCtl2   = 0x28 - 2
		link2        = 0x2c - 2
		linkCtl2     = 0x30 - 2
		speed8GT     = 3
		lanes8       = 8
	)
	le := binary.LittleEndian
	b, w := make([]byte, size-2), make([]byte, size-2)
	le.PutUint16(b[capabilities:], 0x0002) // version 2, endpoint
	le.PutUint32(b[device:], 0x10008000|2) // payload of 512 bytes, role based errors, function level reset
	le.PutUint32(b[link:], lanes8<<4|speed8GT)
	le.PutUint16(b[linkStatus:], lanes8<<4|speed8GT)
	le.PutUint32(b[link2:], 0x0e) // 2.5, 5 and 8 GT/s
	le.PutUint16(b[linkCtl2:], speed8GT)
	le.PutUint16(w[deviceCtl:], 0x7fff)
	le.PutUint16(w[linkCtl:], 0x0fff)
	le.PutUint16(w[deviceCtl2:], 0xffff)
	le.PutUint16(w[linkCtl2:], 0xffff)
	return b, w
}
