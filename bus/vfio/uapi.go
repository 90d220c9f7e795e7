//go:build linux

package vfio

import "encoding/binary"

// Numbers of ioctls: _IO(';', 100 + n).
const (
	getAPIVersion    = 0x3b00 + 100
	checkExtension   = 0x3b00 + 101
	setIOMMU         = 0x3b00 + 102
	groupGetStatus   = 0x3b00 + 103
	groupSetContain  = 0x3b00 + 104
	groupGetDeviceFD = 0x3b00 + 106
	deviceGetInfo    = 0x3b00 + 107
	deviceGetRegion  = 0x3b00 + 108
	deviceGetIRQ     = 0x3b00 + 109
	deviceSetIRQs    = 0x3b00 + 110
	deviceReset      = 0x3b00 + 111
	iommuMapDMA      = 0x3b00 + 113
	iommuUnmapDMA    = 0x3b00 + 114
)

const (
	apiVersion  = 0
	type1v2     = 3 // the IOMMU model
	groupViable = 1

	infoReset   = 1
	infoPCI     = 2
	regionRead  = 1
	regionWrite = 2
	regionMmap  = 4

	regionConfig = 7
	irqMSIX      = 2
	irqRequest   = 4 // the kernel wants the function back

	irqDataNone = 1
	irqDataFD   = 4
	irqTrigger  = 0x20

	dmaRead  = 1
	dmaWrite = 2
)

// Sizes of structures.
const (
	groupStatusSize = 8
	deviceInfoSize  = 16
	regionInfoSize  = 32
	irqInfoSize     = 16
	setIRQsSize     = 20
	dmaMapSize      = 32
	dmaUnmapSize    = 24
	dmaMapAddress   = 8 // offset of the address in the process
)

var native = binary.NativeEndian

// words returns a structure of 32-bit numbers. The first is its size.
func words(list ...uint32) []byte {
	var b []byte
	for _, v := range list {
		b = native.AppendUint32(b, v)
	}
	return b
}

// region is a part of VFIO_DEVICE_GET_REGION_INFO.
type region struct {
	flags     uint32
	size, off uint64
}

func parseRegion(b []byte) region {
	return region{native.Uint32(b[4:]), native.Uint64(b[16:]), native.Uint64(b[24:])}
}

// setIRQs returns the argument of VFIO_DEVICE_SET_IRQS with eventfds from vector 0 on.
func setIRQs(index uint32, fds ...int) []byte {
	flags := uint32(irqDataFD | irqTrigger)
	if len(fds) == 0 {
		flags = irqDataNone | irqTrigger
	}
	b := words(uint32(setIRQsSize+4*len(fds)), flags, index, 0, uint32(len(fds)))
	for _, fd := range fds {
		b = native.AppendUint32(b, uint32(fd))
	}
	return b
}
