package model

import (
	"ciddk/internal/mlx4/prm"
)

// writeDoorbell executes a write to the doorbell BAR. A process that maps a page of doorbells can ring those of the
// queues whose contexts name the page. Other doorbells in the page have no effect (facts: UAR page of QPC and CQC).
func (m *Model) writeDoorbell(off uint64, b []byte) {
	if off >= uarBytes {
		if !m.hasFailed() {
			m.blueFlame(off-uarBytes, b)
		}
		return
	}
	page, in := uint32(off/prm.UARPageSize), off%prm.UARPageSize
	switch {
	case in >= prm.UAREQDoorbell && in < prm.UAREQDoorbell+8*prm.EQDoorbellsPerUAR && in%8 == 0 && len(b) >= 4:
		if e := m.eqs.get(page*prm.EQDoorbellsPerUAR + uint32(in-prm.UAREQDoorbell)/8); e != nil {
			e.doorbell(uint32(prm.EQDoorbellConsumer.Get(b)), prm.EQDoorbellArm.Has(b))
		}
	case m.hasFailed():
	case in == prm.UARSendDoorbell && len(b) == 4:
		m.sendDoorbell(page, bigEndian.Uint32(b)>>8)
	case in == prm.UARCQDoorbell && len(b) == 8:
		m.armCQ(page, b)
	}
}
