package model

import (
	"unsafe"

	"ciddk/rvt"
)

var _ rvt.FixedSizes = rings{}

// Sizes in bytes of what the queues of an object occupy in the process. Their entries are in the memory of the host.
// This file uses unsafe only for sizes: it creates no pointer.

// QPBytes implements rvt.FixedSizes.
func (rings) QPBytes() int64 {
	return int64(unsafe.Sizeof(qp{}) + unsafe.Sizeof(sendRing{}) + unsafe.Sizeof(recvRing{}))
}

// CQBytes implements rvt.FixedSizes.
func (rings) CQBytes() int64 { return int64(unsafe.Sizeof(cq{})) }

// SRQBytes implements rvt.FixedSizes.
func (rings) SRQBytes() int64 { return int64(unsafe.Sizeof(srq{})) }
