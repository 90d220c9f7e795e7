package rvt

import (
	"unsafe"

	"ciddk/ci"
)

// Sizes in bytes of the engine's own objects. This file uses unsafe only for them: it creates no pointer.
const (
	qpSize        = int64(unsafe.Sizeof(QP{}))
	cqSize        = int64(unsafe.Sizeof(CQ{}))
	srqSize       = int64(unsafe.Sizeof(SRQ{}))
	entryBytes    = int64(unsafe.Sizeof(sendEntry{}))
	recvWorkBytes = int64(unsafe.Sizeof(RecvWork{}))
	sgeBytes      = int64(unsafe.Sizeof(ci.SGE{}))
	wcBytes       = int64(unsafe.Sizeof(ci.WC{}))
	responseBytes = int64(unsafe.Sizeof(response{}))
	packetBytes   = int64(unsafe.Sizeof(Packet{}))
)
