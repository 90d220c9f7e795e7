package ci

import (
	"io"
	"os"
	"runtime"
)

// Memory is storage that can be registered. The consumer creates it and owns the storage. The storage must stay mapped,
// and its size constant, until the Destroy of the last region over it has returned. A driver holds the Memory for that
// time, which keeps Go memory alive. Implementations are Bytes in this package, mappings of a memfd and another
// process's memory in the proxy, and guest memory in device models.
//
// A software HCA moves data through Slice, and through ReadAt and WriteAt where Slice returns nil. A hardware driver
// uses Slice for the IOMMU, or File if the memory has one, and rejects other memory with InvalidParameter. Remote
// atomics need Slice, or an AtomicMemory.
//
// The consumer may read bytes that the HCA wrote when it has polled the completion that covers them; the poll orders
// the accesses, as a channel receive does. It must not change bytes that are being sent before the completion. Spinning
// on memory needs sync/atomic.
type Memory interface {
	// Addr returns the owner's virtual address of byte 0. It is a number that is valid in the owner's process, and the
	// default IOVA.
	Addr() uint64

	// Len returns the size in bytes.
	Len() uint64

	// Slice returns a direct view of up to n bytes from off, fewer where the extent ends. It returns nil if this
	// process cannot address the bytes. The caller has checked that off+n <= Len(). Slice neither allocates nor blocks.
	// A view is valid until the region's Destroy, so a driver may take the views once, at registration.
	Slice(off, n uint64) []byte

	// ReadAt and WriteAt copy bytes, and may make a system call. They return an error, and never fault, if the storage
	// no longer exists.
	io.ReaderAt
	io.WriterAt

	// Pin keeps the storage resident and in place for a device until unpin, which is called once. For memory that is
	// pinned already (an MDL), Pin does nothing.
	Pin() (unpin func(), err error)
}

// FileMemory is Memory that has a descriptor (memfd, dma-buf), which a driver can map or import. The file remains the
// memory's.
type FileMemory interface {
	Memory

	// File returns the descriptor, and the offset of byte 0 in it.
	File() (f *os.File, off int64)
}

// AtomicMemory is Memory that executes remote atomics itself, because this process cannot address the storage. Both
// methods work on the aligned 8 bytes at off, as numbers in host order, and return the old value. They are atomic with
// respect to each other on the same storage, and not to accesses of the storage's owner: an HCA with such memory has
// AtomicLocal.
type AtomicMemory interface {
	Memory

	// CompareSwap stores swap if the value is compare.
	CompareSwap(off, compare, swap uint64) (old uint64, err error)

	// FetchAdd adds n to the value.
	FetchAdd(off, n uint64) (old uint64, err error)
}

// PersistentMemory is Memory that outlives a loss of power. A region over it can have FlushPersistent.
type PersistentMemory interface {
	Memory

	// Persist returns when n bytes at off, as they are now, have reached the persistent storage. The caller has checked
	// that off+n <= Len(). A QP waits for it, so it takes no longer than a system call.
	Persist(off, n uint64) error
}

// BatchMemory is Memory whose Slice returns nil because each copy is a system call or a message, such as memory of
// another process. A software HCA copies several ranges at once.
type BatchMemory interface {
	Memory

	// Copier returns what copies. It is comparable: memories with equal copiers share calls.
	Copier() Copier
}

// A Copier copies ranges of BatchMemory.
type Copier interface {
	// CopySpans copies each span from its memory or, if write is set, to its memory, in the order of the list. It
	// returns how many spans it has copied whole; the error belongs to the one after them, a part of which may have
	// been copied. It does not keep the list.
	CopySpans(list []Span, write bool) (done int, err error)
}

// A Span is a range of a memory, which has the Copier that gets the span, and the bytes to copy to or from. Both are of
// the same length, at least 1.
type Span struct {
	Memory Memory
	Off    uint64
	Bytes  []byte
}

// DMA is storage mapped into an HCA's DMA space. Destroy unmaps it. Context of Destroy: thread. Status: ResourceBusy
// while registered.
type DMA interface {
	Object

	// Ranges returns the addresses in order. The caller must not change them.
	Ranges() []DMARange
}

// DMARange is a run of DMA addresses of one HCA.
type DMARange struct{ Addr, Size uint64 }

// Bytes returns b as Memory of this process. b is on Go's heap or in a mapping; it is never on a stack, since passing
// it here moves it to the heap. It is not inlined: in a function that only asks for the address, an inlined one would
// leave b on the stack, which moves when it grows.
//
//go:noinline
func Bytes(b []byte) Memory { return bytesMemory(b) }

type bytesMemory []byte

func (b bytesMemory) Len() uint64 { return uint64(len(b)) }

func (b bytesMemory) Slice(off, n uint64) []byte { return b[off : off+n] }

func (b bytesMemory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(b)) {
		return 0, InvalidParameter
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (b bytesMemory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || int64(len(p)) > int64(len(b))-off {
		return 0, InvalidParameter
	}
	return copy(b[off:], p), nil
}

func (b bytesMemory) Pin() (func(), error) {
	if len(b) == 0 {
		return func() {}, nil
	}
	p := new(runtime.Pinner)
	p.Pin(&b[0])
	return p.Unpin, nil
}
