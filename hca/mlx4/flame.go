package mlx4

import "sync"

// flames are the BlueFlame registers of the adapter's page of doorbells. A register has two buffers, which take turns.
type flames struct {
	isUsable bool
	half     uint32 // bytes of a buffer

	mu   sync.Mutex
	next uint32 // offset of the next buffer
}

func (x *flames) start(h *HCA) {
	x.half = h.caps.BlueFlameSize / 2
	x.isUsable = h.caps.HasBlueFlame && x.half >= 64
}

// write writes a work queue entry. It reports false if the entry is too long, or if another goroutine uses the
// register; then the doorbell is the way.
func (x *flames) write(h *HCA, wqe []byte) bool {
	if uint32(len(wqe)) > x.half || !x.mu.TryLock() {
		return false
	}
	defer x.mu.Unlock()
	if h.uar.BlueFlame(x.next, wqe) != nil {
		return false
	}
	x.next ^= x.half
	return true
}
