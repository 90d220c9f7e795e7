package u2cfake

import (
	"encoding/binary"
	"math/bits"

	"ciddk/bus"
)

// A RegisterFile is 32-bit registers by address.
type RegisterFile interface {
	Read(addr uint32) uint32
	Write(addr, v uint32)
}

// Registers returns the big-endian registers that a model of a PCI function has in a BAR.
func Registers(d bus.Device, bar int) RegisterFile { return registers{d, bar} }

type registers struct {
	device bus.Device
	bar    int
}

func (r registers) Read(addr uint32) uint32 {
	if !r.isValid(addr) {
		return 0
	}
	return bits.ReverseBytes32(uint32(r.device.ReadBAR(r.bar, uint64(addr), 4)))
}

func (r registers) Write(addr, v uint32) {
	if r.isValid(addr) {
		r.device.WriteBAR(r.bar, uint64(addr), 4, uint64(bits.ReverseBytes32(v)))
	}
}

func (r registers) isValid(addr uint32) bool { return uint64(addr) < r.device.BARs()[r.bar].Size }

// CRSpace returns the I2C target of a Mellanox adapter with the registers.
func CRSpace(r RegisterFile) Target { return &crSpace{registers: r} }

// A crSpace takes four address bytes, and then registers.
type crSpace struct {
	registers RegisterFile
	addr      uint32
	buf       []byte // address or register that is not complete
	hasAddr   bool
}

// Start implements Target. A read continues at the address of the write before it.
func (c *crSpace) Start(isRead bool) {
	c.buf = c.buf[:0]
	if !isRead {
		c.hasAddr = false
	}
}

// Put implements Target.
func (c *crSpace) Put(b byte) bool {
	c.buf = append(c.buf, b)
	if len(c.buf) < 4 {
		return true
	}
	v := binary.BigEndian.Uint32(c.buf)
	c.buf = c.buf[:0]
	if !c.hasAddr {
		c.addr, c.hasAddr = v&^3, true
		return true
	}
	c.registers.Write(c.addr, v)
	c.addr += 4
	return true
}

// Get implements Target.
func (c *crSpace) Get() byte {
	if len(c.buf) == 0 {
		c.buf = binary.BigEndian.AppendUint32(c.buf, c.registers.Read(c.addr))
		c.addr += 4
	}
	b := c.buf[0]
	c.buf = c.buf[1:]
	return b
}
