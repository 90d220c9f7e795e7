// Package bustest tests back ends of package bus: a small device, and what every bus.Function must do with it.
package bustest

import (
	"sync"
	"sync/atomic"

	"ciddk/bus"
)

// Registers of BAR 0 of a Device.
const (
	RegSource  = 0x00 // 64 bits: address
	RegTarget  = 0x08 // 64 bits: address
	RegLength  = 0x10 // 32 bits: bytes, at most MaxCopy
	RegGo      = 0x14 // 32 bits: a write copies, and raises the vector written
	RegStatus  = 0x18 // 32 bits, read only: CopyOK or CopyFailed
	RegScratch = 0x40
)

// Values of RegStatus.
const (
	CopyNone = iota
	CopyOK
	CopyFailed
)

// MaxCopy is the longest copy.
const MaxCopy = 1 << 16

// Vectors is the number of interrupt vectors of a Device.
const Vectors = 20

// Device is a device that copies memory. BAR 0 has its registers, BAR 2 is memory of 64 KiB.
type Device struct {
	config *bus.ConfigSpace

	// Resets and Attached count.
	Resets, Attached, Detached atomic.Int32

	mu     sync.Mutex
	host   bus.Host
	regs   [0x100]byte
	memory [1 << 16]byte
	sizes  []int // of the writes to BAR 2
}

// expressAt is the offset of the PCI Express capability.
const expressAt = 0x60

// ID is the device's.
var ID = bus.ID{Vendor: 0x1d1d, Device: 0x0042}

// New returns a device.
func New() *Device {
	d := new(Device)
	d.config = bus.NewConfigSpace(bus.Identity{ID: ID, SubVendor: 0x1d1e, SubDevice: 7, Class: 0x088000, Revision: 3},
		d.BARs())
	// The power state does not reset the device (No_Soft_Reset), and a function level reset does.
	d.config.AddCapability(0x40, bus.CapPower, []byte{3, 0, 8, 0}, []byte{0, 0, 3, 0})
	express := make([]byte, 0x3a)
	express[0], express[5] = 2, 0x10 // version 2, endpoint; function level reset
	d.config.AddCapability(expressAt, bus.CapExpress, express, []byte{6: 0xff, 7: 0x7f})
	d.config.AddMSIX(0x9c, Vectors, 0, 0x800, 0xc00)
	return d
}

// Config returns the configuration space.
func (d *Device) Config() *bus.ConfigSpace { return d.config }

// BARs describes BAR 0 and BAR 2.
func (d *Device) BARs() [bus.NumBARs]bus.BAR {
	return [bus.NumBARs]bus.BAR{0: {Size: 4096, Is64: true}, 2: {Size: 1 << 16, Is64: true, Prefetchable: true}}
}

// NumVectors returns Vectors.
func (d *Device) NumVectors() int { return Vectors }

// Attach sets the device's host.
func (d *Device) Attach(h bus.Host) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host = h
	d.Attached.Add(1)
}

// Detach takes the host away.
func (d *Device) Detach() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host = nil
	d.Detached.Add(1)
}

// Reset clears registers and memory.
func (d *Device) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.regs[:])
	clear(d.memory[:])
	d.sizes = nil
	d.Resets.Add(1)
}

// WriteSizes returns the sizes of the writes to BAR 2 since the last reset.
func (d *Device) WriteSizes() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]int(nil), d.sizes...)
}

// ReadBAR reads a register.
func (d *Device) ReadBAR(bar int, off uint64, size int) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bar == 2 {
		return bus.Number(d.memory[off:][:size])
	}
	if off+uint64(size) > uint64(len(d.regs)) {
		return 0
	}
	return bus.Number(d.regs[off:][:size])
}

// WriteBAR writes a register.
func (d *Device) WriteBAR(bar int, off uint64, size int, v uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bar == 2 {
		bus.PutNumber(d.memory[off:][:size], v)
		d.sizes = append(d.sizes, size)
		return
	}
	if off+uint64(size) > uint64(len(d.regs)) || off == RegStatus {
		return
	}
	bus.PutNumber(d.regs[off:][:size], v)
	if off == RegGo {
		status := uint64(CopyFailed)
		if d.copy() {
			status = CopyOK
		}
		bus.PutNumber(d.regs[RegStatus:][:4], status)
		d.host.Interrupt(int(uint32(v)))
	}
}

// copy copies memory as the registers state. mu is held.
func (d *Device) copy() bool {
	reg := func(off, size int) uint64 { return bus.Number(d.regs[off:][:size]) }
	n := reg(RegLength, 4)
	if n > MaxCopy {
		return false
	}
	b := make([]byte, n)
	m := d.host.Memory()
	return m.Read(reg(RegSource, 8), b) && m.Write(reg(RegTarget, 8), b)
}
