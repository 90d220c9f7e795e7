package ci

import (
	"io"
	"os"
	"runtime"
)

// Memory is storage that can be registered. The consumer makes it and owns the storage: it must stay mapped, and its size constant,
// until the Destroy of the last region over it has returned. A driver holds the Memory (which keeps Go memory alive) for that
// time. Implementations: Bytes here; mappings of a memfd and another process's memory in the proxy; guest memory in device models.
//
// A software HCA moves data through Slice, and where that gives nil, through ReadAt and WriteAt. A hardware driver takes Slice for
// the IOMMU, File if the memory has one, and refuses the rest with InvalidParameter. Remote atomics need Slice.
//
// Bytes written by the HCA may be read when the completion that covers them has been polled, which orders them (as a channel
// receive does); bytes lent for sending may not be changed before. Spinning on memory needs sync/atomic.
type Memory interface {
	// Addr is the owner's virtual address of byte 0: a number, valid in the owner's process, and the default IOVA.
	Addr() uint64
	Len() uint64
	// Slice is a direct view of the bytes from off, at most n, fewer where the extent ends; nil if this process cannot address them.
	// The caller has checked off+n <= Len(). It neither allocates nor blocks, and a view stays good until the region's Destroy, so a
	// driver may take the views once, at registration.
	Slice(off, n uint64) []byte
	// ReadAt and WriteAt copy; they may make a system call. They fail, and never fault, once the storage is gone.
	io.ReaderAt
	io.WriterAt
	// Pin keeps the storage resident and in place for a device until unpin, called once. Memory that came pinned (an MDL) does nothing.
	Pin() (unpin func(), err error)
}

// FileMemory is Memory that has a descriptor (memfd, dma-buf), for a driver to map or import. The file stays the memory's.
type FileMemory interface {
	Memory
	File() (f *os.File, off int64)
}

// DMA is storage mapped into an HCA's DMA space. Destroy unmaps. Context of Destroy: thread. Status: ResourceBusy while registered.
type DMA interface {
	Object
	Ranges() []DMARange // in order; read only
}

// DMARange is a run of DMA addresses of one HCA.
type DMARange struct{ Addr, Size uint64 }

// Bytes is memory of this process: Go's heap (never a stack: passing it here moves it to the heap) or a mapping.
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
