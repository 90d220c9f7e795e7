package model

import (
	"sync"

	"ciddk/internal/mlx4/prm"
)

// BlueFlame: the driver writes a whole WQE to the adapter, in pieces of 8 bytes. The WQE is in the memory of the host,
// too, so that the model takes the end of such a write for a doorbell.

// flameBytes is the size of half a BlueFlame register, which takes a WQE.
const flameBytes = 1 << (logBlueFlame - 1)

// flame is a write in progress.
type flame struct {
	qpn  uint32
	next uint64 // offset in the BAR of the next piece
	end  uint64 // offset behind the WQE
}

// flames are the writes in progress, by page.
type flames struct {
	mu    sync.Mutex
	pages map[uint64]flame
}

// maxFlames bounds the pages with a write in progress: those of all UARs.
const maxFlames = 1 << logUARs

// write takes a piece. It reports the QP whose WQE is complete.
func (f *flames) write(off uint64, b []byte) (qpn uint32, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := off / prm.UARPageSize
	if page >= maxFlames || len(b) != 8 {
		return 0, false
	}
	if f.pages == nil {
		f.pages = map[uint64]flame{}
	}
	x := f.pages[page]
	switch {
	case off%flameBytes == 0:
		ctrl := append(b[:8:8], make([]byte, prm.CtrlSegment-8)...)
		size := max(prm.CtrlSize.Get(ctrl)*prm.CtrlSegment, prm.CtrlSegment)
		x = flame{qpn: uint32(prm.CtrlBFQPN.Get(ctrl)), next: off + 8, end: off + min(size, flameBytes)}
	case off == x.next:
		x.next += 8
	default:
		return 0, false
	}
	if x.next == x.end {
		delete(f.pages, page)
		return x.qpn, true
	}
	f.pages[page] = x
	return 0, false
}

// blueFlame executes a write to the BlueFlame pages.
func (m *Model) blueFlame(off uint64, b []byte) {
	if qpn, ok := m.flames.write(off, b); ok {
		m.sendDoorbell(uint32(off/prm.UARPageSize), qpn)
	}
}
