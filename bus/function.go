package bus

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ID identifies a kind of function.
type ID struct{ Vendor, Device uint16 }

// String returns the form that lspci -n prints.
func (i ID) String() string { return fmt.Sprintf("%04x:%04x", i.Vendor, i.Device) }

// A Function is a PCI function as its driver sees it. All methods may be called concurrently.
type Function interface {
	// ID returns vendor and device ID.
	ID() ID
	// Location returns where the function is, for messages: "0000:03:00.0", or the path of a socket.
	Location() string
	// Config returns the configuration space, of 256 or 4096 bytes.
	Config() Space
	// BAR returns the memory of a base address register. A 64-bit BAR has the lower one of its two numbers. Errors:
	// ErrNoBAR.
	BAR(n int) (Space, error)
	// AllocDMA allocates zeroed memory that the device can reach. It is a whole number of pages, and contiguous in the
	// device's addresses.
	AllocDMA(size int) (*DMA, error)
	// MapDMA makes memory of the process reachable for the device. Memory of a file is mapped with its descriptor by a
	// back end that needs one. DMA.IOVA is the address of the first byte, and has the same offset in its page. If the
	// memory is not whole pages, the device may reach the rest of its first and last page, too. Errors: ErrNotMappable.
	MapDMA(m Memory) (*DMA, error)
	// EnableVectors enables the interrupt vectors 0 to n-1, and replaces those that were enabled. fn is called with the
	// number of the vector, one call at a time for each vector, and never again after the vectors were disabled. One
	// call may stand for several interrupts. n 0 disables all; the call then waits until no fn runs, so that fn must
	// not call it. Errors: ErrNoVectors.
	EnableVectors(n int, fn func(vector int)) error
	// NumVectors returns how many vectors the function has.
	NumVectors() int
	// Reset resets the function (function level reset). Vectors are disabled and the configuration space has its
	// initial values afterwards.
	Reset() error
	// Gone is closed when the function has gone.
	Gone() <-chan struct{}
	// Close releases the function: vectors and DMA memory are released. It is idempotent.
	Close() error
}

// Errors of functions.
var (
	ErrNoBAR       = errors.New("bus: the function has no such BAR")
	ErrNoVectors   = errors.New("bus: the function has fewer interrupt vectors")
	ErrNotMappable = errors.New("bus: the device cannot be given this memory")
	ErrGone        = errors.New("bus: the function has gone")
)

// A Space is a range of registers or memory of a function: a BAR, or the configuration space.
//
// An access must be aligned to its size and within the space; otherwise a read returns all ones and a write has no
// effect, as after the function has gone.
type Space interface {
	Size() uint64
	Read8(off uint64) uint8
	Read16(off uint64) uint16
	Read32(off uint64) uint32
	Read64(off uint64) uint64
	Write8(off uint64, v uint8)
	Write16(off uint64, v uint16)
	Write32(off uint64, v uint32)
	// Write64 is one access of 8 bytes where the back end has such accesses.
	Write64(off, v uint64)
	// Copy writes bytes in order of their addresses, in pieces of 8 bytes where alignment permits.
	Copy(off uint64, b []byte)
}

// A Mappable is a Space that other processes can map, so that they reach registers without the driver.
type Mappable interface {
	// File returns a descriptor and the offset of the space in it. The descriptor remains the space's. ok is false if
	// the back end cannot map this space.
	File() (f *os.File, off int64, ok bool)
}

// Memory is memory of the process for MapDMA. It stays in place while it is mapped. If File is set, Bytes are whole
// pages and a shared mapping of it at Offset.
//
// If Remote is set, the process reaches the memory by copies only, and Bytes is nil. Only the devices of back ends that
// access memory through a Map can use it; others return ErrNotMappable.
type Memory struct {
	Bytes  []byte
	File   *os.File
	Offset int64

	Remote     Remote
	Length     uint64 // bytes of Remote
	PageOffset uint64 // of the first byte of Remote in its page
}

// Len returns the number of bytes.
func (m *Memory) Len() uint64 {
	if m.Remote != nil {
		return m.Length
	}
	return uint64(len(m.Bytes))
}

// Remote is memory that is reached by copies, such as that of another process. All methods may be called concurrently.
// They return in time, because the end of a mapping waits for them. The atomic ones are atomic to each other; off is a
// multiple of 8, and words are in the byte order of the processor.
type Remote interface {
	io.ReaderAt
	io.WriterAt
	CompareSwap(off, compare, swap uint64) (old uint64, err error)
	FetchAdd(off, n uint64) (old uint64, err error)
}

// DMA is memory that a device reaches at IOVA. Close ends that; the caller ensures that the device no longer uses it.
type DMA struct {
	Memory
	IOVA uint64

	release func() error
}

// NewDMA returns a DMA of a back end. release is called once.
func NewDMA(m Memory, iova uint64, release func() error) *DMA {
	return &DMA{Memory: m, IOVA: iova, release: release}
}

// Close releases the memory. It is idempotent, and must not be called concurrently.
func (d *DMA) Close() error {
	if d.release == nil {
		return nil
	}
	f := d.release
	d.release = nil
	return f()
}
