package model

// Dwords of the host's memory by which driver and adapter pass ownership: owner bits of WQEs, CQEs and EQEs, and
// doorbell records. They are read and written as a whole, in order with what they pass.

const dwordSize = 4

// readDword reads a dword. An address that is not aligned is read in pieces, as a driver that errs must expect.
func (m *Model) readDword(addr uint64) (v [dwordSize]byte, ok bool) {
	h := m.host.Load()
	if h == nil {
		return v, false
	}
	view := h.Memory().Begin()
	b := view.Slice(addr, dwordSize, false)
	if len(b) == dwordSize && isDwordAligned(b) {
		v = loadDword(b)
		view.End()
		return v, true
	}
	view.End()
	return v, m.readHost(addr, v[:])
}

// writeDword writes a dword.
func (m *Model) writeDword(addr uint64, v [dwordSize]byte) bool {
	h := m.host.Load()
	if h == nil {
		return false
	}
	view := h.Memory().Begin()
	b := view.Slice(addr, dwordSize, true)
	if len(b) == dwordSize && isDwordAligned(b) {
		storeDword(b, v)
		view.End()
		return true
	}
	view.End()
	return m.writeHost(addr, v[:])
}
