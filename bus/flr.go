package bus

// Registers of the PCI Express capability (PCI Express 3.0, 7.8), by their offset in it.
const (
	ExpressDeviceCap     = 0x04 // 32 bits
	ExpressDeviceControl = 0x08 // 16 bits

	ExpressCapFLR      = 1 << 28 // of ExpressDeviceCap: the function has a function level reset
	ExpressInitiateFLR = 1 << 15 // of ExpressDeviceControl: reads as 0
)

// WriteConfig executes a driver's write to the configuration space of a device, for back ends. A write that initiates a
// function level reset resets the device (PCI Express 3.0, 6.6.2).
func WriteConfig(d Device, off uint64, b []byte) {
	c := d.Config()
	c.Write(off, b)
	if c.initiatesFLR(off, b) {
		d.Reset()
		c.Reset()
	}
}

// initiatesFLR reports whether a write sets the bit that initiates a function level reset, in a function that has one.
func (c *ConfigSpace) initiatesFLR(off uint64, b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.express == 0 || c.initial[c.express+ExpressDeviceCap+3]&(ExpressCapFLR>>24) == 0 {
		return false
	}
	at := uint64(c.express + ExpressDeviceControl + 1) // of the bit's byte
	return at >= off && at-off < uint64(len(b)) && b[at-off]&(ExpressInitiateFLR>>8) != 0
}
