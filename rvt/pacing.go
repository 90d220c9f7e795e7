package rvt

import (
	"time"

	"ciddk/wire"
)

// Pacing limits the bursts of a UC QP on a link without flow control (Hints.Window). UC has no acknowledgements to open
// a window. So the QP sends at most one window of bytes and packets, and the next burst follows after the time in which
// a receiver at paceRate takes in the last one.

// paceRate is the rate of UC on links without flow control, in bytes per second: 8 Gb/s.
const paceRate = 1e9

// pacing is the burst in progress.
type pacing struct {
	paceAt       time.Duration // when the next burst may begin; 0: now
	burstAt      time.Duration // when this one began
	burstBytes   int64
	burstPackets uint32
}

// pace returns how many of the next n packets may be sent now. If none may, paceAt is set.
func (r *requester) pace(n uint32) uint32 {
	h := &r.port.hints
	if r.service != wire.UC || h.Window == 0 {
		return n
	}
	window := max(int64(h.Window), int64(r.mtu))
	packets := r.packetWindow()
	now := r.dev.clock.Elapsed()
	end := r.burstAt + time.Duration(window)*time.Second/paceRate
	switch {
	case now >= end:
		r.burstAt, r.burstBytes, r.burstPackets = now, 0, 0
	case r.burstBytes+int64(r.mtu) > window || r.burstPackets >= packets:
		r.paceAt = end
		return 0
	}
	return max(min(n, packets-r.burstPackets, uint32((window-r.burstBytes)/int64(r.mtu))), 1)
}

// congested is called for each congestion notification of the peer. It is the place of a reaction point: an algorithm,
// such as DCQCN, that lowers the rate of pace. There is none: notifications are counted.
func (r *requester) congested() { r.origin.count.Notified++ }

// paced counts packets that have been sent.
func (r *requester) paced(n, size uint32) {
	r.burstPackets += n
	r.burstBytes += int64(size)
}
