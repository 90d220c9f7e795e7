package model

// Dwords of the host's memory by which driver and adapter pass ownership: owner bits of WQEs, CQEs and EQEs, and
// doorbell records. They are read and written as a whole, in order with what they pass.

const dwordSize = 4

// readDword reads a dword. An address that is not aligned is read in pieces, as a driver that errs must expect.
func (m *Model) readDword(addr uint64) (v [dwordSize]byte, ok bool) {
	ok = m.readHost(addr, v[:])
	return v, ok
}

// writeDword writes a dword.
func (m *Model) writeDword(addr uint64, v [dwordSize]byte) bool { return m.writeHost(addr, v[:]) }
