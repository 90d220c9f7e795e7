package bus

// A Device is a model of a PCI function. A back end calls its methods; those for accesses may be called concurrently.
type Device interface {
	// Config returns the configuration space.
	Config() *ConfigSpace
	// BARs describes the base address registers.
	BARs() [NumBARs]BAR
	// NumVectors returns the number of interrupt vectors (MSI-X).
	NumVectors() int

	// Attach sets the device's host. It is called before the first access, and after each Detach.
	Attach(h Host)
	// Detach takes the host away: the driver has gone, or the device is being removed. The device uses the host no more
	// when Detach returns.
	Detach()
	// Reset brings the device into its initial state, as a function level reset does.
	Reset()

	// ReadBAR reads a register of 1, 2, 4 or 8 bytes at an aligned offset within the BAR. The number is that of a
	// little-endian register.
	ReadBAR(bar int, off uint64, size int) uint64
	// WriteBAR writes a register.
	WriteBAR(bar int, off uint64, size int, v uint64)
}

// NumBARs is the number of base address registers of a function (PCI local bus 3.0, 6.2.5).
const NumBARs = 6

// A BAR describes a base address register. Size 0 is none.
type BAR struct {
	Size         uint64 // a power of two, at least 16
	Is64         bool   // it occupies the next number, too
	Prefetchable bool
}

// A Host is what a Device uses.
type Host interface {
	// Memory returns the memory that the device can reach, by I/O virtual address.
	Memory() *Map
	// Interrupt raises an interrupt vector. It does not block, and may be called from any goroutine.
	Interrupt(vector int)
}
