package model

import (
	"math/bits"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// ReadBAR reads a register.
func (m *Model) ReadBAR(bar int, off uint64, size int) uint64 {
	if bar != prm.BARControl {
		return 0 // doorbells are write only
	}
	if size == 8 {
		return uint64(bits.ReverseBytes32(m.readControl(off))) |
			uint64(bits.ReverseBytes32(m.readControl(off+4)))<<32
	}
	v := uint64(bits.ReverseBytes32(m.readControl(off &^ 3)))
	return v >> (8 * (off & 3)) & (1<<(8*size) - 1)
}

// readControl returns the dword at an offset of the control BAR.
func (m *Model) readControl(off uint64) uint32 {
	switch {
	case off >= prm.RegHCR && off < prm.RegHCR+4*prm.HCRDwords:
		return m.hcr.read(int(off-prm.RegHCR) / 4)
	case off == prm.RegOwnership:
		return m.ownership.take()
	case off == prm.RegSemaphore:
		return m.semaphore.take()
	case off == prm.RegDeviceID && m.cfg.Pro:
		return prm.HardwareConnectX3Pro
	case off == prm.RegDeviceID:
		return prm.HardwareConnectX3
	case off >= prm.RegCatastrophic && off < prm.RegCatastrophic+prm.CatastrophicSize:
		return m.catastrophic[(off-prm.RegCatastrophic)/4].Load()
	}
	return 0
}

// WriteBAR writes a register.
func (m *Model) WriteBAR(bar int, off uint64, size int, v uint64) {
	switch bar {
	case prm.BARDoorbells:
		var b [8]byte
		bus.PutNumber(b[:size], v)
		m.writeDoorbell(off, b[:size])
	case prm.BARControl:
		switch size {
		case 8:
			m.writeControl(off, bits.ReverseBytes32(uint32(v)))
			m.writeControl(off+4, bits.ReverseBytes32(uint32(v>>32)))
		case 4:
			m.writeControl(off, bits.ReverseBytes32(uint32(v)))
		}
	}
}

// writeControl writes a dword of the control BAR.
func (m *Model) writeControl(off uint64, v uint32) {
	switch {
	case off >= prm.RegHCR && off < prm.RegHCR+4*prm.HCRDwords:
		m.writeHCR(int(off-prm.RegHCR)/4, v)
	case off == prm.RegOwnership && v == prm.OwnershipFree:
		m.ownership.release()
	case off == prm.RegSemaphore && v == prm.SemaphoreFree:
		m.semaphore.release()
	case off == prm.RegReset && v == prm.ResetValue:
		m.Reset()
	}
}
