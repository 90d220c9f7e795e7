package model

import (
	"encoding/binary"
	"sync"

	"ciddk/internal/mlx4/prm"
)

// hcr is the command register.
type hcr struct {
	mu   sync.Mutex
	regs [4 * prm.HCRDwords]byte
}

func (h *hcr) read(i int) uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return binary.BigEndian.Uint32(h.regs[4*i:])
}

// write stores a dword, and reports whether that starts a command. A command that is pending is not disturbed.
func (h *hcr) write(i int, v uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if prm.HCRGo.Has(h.regs[:]) {
		return false
	}
	binary.BigEndian.PutUint32(h.regs[4*i:], v)
	return prm.HCRGo.Has(h.regs[:])
}

// posted returns the register as the driver wrote it.
func (h *hcr) posted() (regs [4 * prm.HCRDwords]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.regs
}

// done completes the command.
func (h *hcr) done(s prm.Status, out uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.regs[:]
	prm.HCROutHigh.Put(r, out>>32)
	prm.HCROutLow.Put(r, out)
	prm.HCRStatus.Put(r, uint64(s))
	prm.HCRGo.Put(r, 0)
}

func (h *hcr) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.regs = [4 * prm.HCRDwords]byte{}
}
