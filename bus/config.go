package bus

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// ConfigSize is the size of the configuration space of a PCI Express function.
const ConfigSize = 4096

// Offsets in the header of type 0 (PCI local bus 3.0, 6.1).
const (
	ConfigVendorID    = 0x00
	ConfigDeviceID    = 0x02
	ConfigCommand     = 0x04
	ConfigStatus      = 0x06
	ConfigRevision    = 0x08
	ConfigClass       = 0x09 // 24 bits
	ConfigHeaderType  = 0x0e
	ConfigBAR0        = 0x10
	ConfigSubVendor   = 0x2c
	ConfigSubDevice   = 0x2e
	ConfigCapPointer  = 0x34
	ConfigInterrupt   = 0x3c // line and pin
	commandWritable   = 0x0547
	statusCapList     = 0x0010
	barMemory64       = 0x4
	barMemoryPrefetch = 0x8
)

// Capability IDs (PCI local bus 3.0, appendix H).
const (
	CapPower   = 0x01
	CapVPD     = 0x03
	CapExpress = 0x10
	CapMSIX    = 0x11
)

// ConfigSpace is the configuration space of a model: bytes, and which of their bits can be written. All methods may be
// called concurrently.
type ConfigSpace struct {
	mu       sync.Mutex
	initial  [ConfigSize]byte
	now      [ConfigSize]byte
	writable [ConfigSize]byte // bits
	last     int              // offset of the last capability, 0 for none
	express  int              // offset of the PCI Express capability, 0 for none
}

// Identity is what the header says about a function.
type Identity struct {
	ID
	SubVendor, SubDevice uint16
	Class                uint32 // 24 bits: base class, subclass, interface
	Revision             uint8
}

// NewConfigSpace returns a configuration space with a header of type 0 and the BARs of a device. The function has no
// interrupt pin.
func NewConfigSpace(id Identity, bars [NumBARs]BAR) *ConfigSpace {
	c := new(ConfigSpace)
	le := binary.LittleEndian
	b := c.initial[:]
	le.PutUint16(b[ConfigVendorID:], id.Vendor)
	le.PutUint16(b[ConfigDeviceID:], id.Device)
	le.PutUint16(b[ConfigSubVendor:], id.SubVendor)
	le.PutUint16(b[ConfigSubDevice:], id.SubDevice)
	b[ConfigRevision] = id.Revision
	b[ConfigClass], b[ConfigClass+1], b[ConfigClass+2] = byte(id.Class), byte(id.Class>>8), byte(id.Class>>16)
	le.PutUint16(c.writable[ConfigCommand:], commandWritable)
	c.writable[0x0c] = 0xff            // cache line size
	c.writable[ConfigInterrupt] = 0xff // line
	for i, r := range bars {
		if r.Size == 0 {
			continue
		}
		at := ConfigBAR0 + 4*i
		mask := ^(r.Size - 1)
		le.PutUint32(c.writable[at:], uint32(mask))
		if r.Is64 {
			b[at] |= barMemory64
			le.PutUint32(c.writable[at+4:], uint32(mask>>32))
		}
		if r.Prefetchable {
			b[at] |= barMemoryPrefetch
		}
	}
	c.now = c.initial
	return c
}

// AddCapability adds a capability at an offset: its bytes after ID and next pointer, and which of their bits can be
// written; nil is none. It panics if the capability does not fit, which is a mistake in the model.
func (c *ConfigSpace) AddCapability(at int, id uint8, body, writable []byte) {
	if at < 0x40 || at%4 != 0 || at+2+len(body) > 0x100 || len(writable) > len(body) {
		panic(fmt.Sprintf("bus: a capability of %d bytes at %#x does not fit", 2+len(body), at))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.initial[:]
	if c.last == 0 {
		b[ConfigCapPointer] = byte(at)
		b[ConfigStatus] |= statusCapList
	} else {
		b[c.last+1] = byte(at)
	}
	c.last = at
	if id == CapExpress && len(body) >= ExpressDeviceControl {
		c.express = at
	}
	b[at] = id
	copy(b[at+2:], body)
	copy(c.writable[at+2:], writable)
	c.now = c.initial
}

// AddMSIX adds the MSI-X capability (PCI local bus 3.0, 6.8.2): n vectors, with table and pending bits in a BAR.
func (c *ConfigSpace) AddMSIX(at, n, bar int, table, pending uint32) {
	var b, w [10]byte
	le := binary.LittleEndian
	le.PutUint16(b[0:], uint16(n-1))
	le.PutUint32(b[2:], table|uint32(bar))
	le.PutUint32(b[6:], pending|uint32(bar))
	le.PutUint16(w[0:], 0xc000) // enable, mask
	c.AddCapability(at, CapMSIX, b[:], w[:])
}

// Reset sets all registers to their initial values.
func (c *ConfigSpace) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.initial
}

// Read reads bytes. Those beyond the end are all ones.
func (c *ConfigSpace) Read(off uint64, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	if off < ConfigSize {
		n = copy(b, c.now[off:])
	}
	for i := n; i < len(b); i++ {
		b[i] = 0xff
	}
}

// Write writes the bits that can be written. It ignores bytes beyond the end.
func (c *ConfigSpace) Write(off uint64, b []byte) {
	if off >= ConfigSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range b[:min(len(b), int(ConfigSize-off))] {
		at := int(off) + i
		w := c.writable[at]
		c.now[at] = c.now[at]&^w | v&w
	}
}

// ID returns vendor and device ID.
func (c *ConfigSpace) ID() ID {
	var b [4]byte
	c.Read(ConfigVendorID, b[:])
	return ID{binary.LittleEndian.Uint16(b[:]), binary.LittleEndian.Uint16(b[2:])}
}

// A Capability is an entry of the list of capabilities.
type Capability struct {
	ID uint8
	At uint64
}

// Capabilities returns the capabilities of a function, in the order of the list. A list that does not end is cut.
func Capabilities(config Space) []Capability {
	const maxCapabilities = 48 // of 4 bytes or more, from 0x40 to 0xff
	if config.Read16(ConfigStatus)&statusCapList == 0 {
		return nil
	}
	var list []Capability
	for at := config.Read8(ConfigCapPointer) &^ 3; at >= 0x40 && len(list) < maxCapabilities; {
		list = append(list, Capability{config.Read8(uint64(at)), uint64(at)})
		at = config.Read8(uint64(at)+1) &^ 3
	}
	return list
}
