package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// recvRing is the receive queue of a QP, in the memory of the host.
type recvRing struct {
	q       *qp
	buf     queueBuffer
	base    uint64 // of the first WQE in buf
	log     uint8
	stride  uint8  // log2 of the bytes of a WQE
	record  uint64 // address of the doorbell record
	head    uint16 // running index
	tail    uint16 // the counter of the doorbell record when it was read last
	isEmpty bool   // the QP has no receive queue
	wqe     [maxRecvWQE]byte
}

const maxRecvWQE = 1 << (4 + 7) // bytes

var (
	_ rvt.RecvRing  = (*recvRing)(nil)
	_ rvt.RecvBatch = (*recvRing)(nil)
)

// posted returns the number of WQEs that have been posted and not taken.
func (r *recvRing) posted() uint16 {
	if r.isEmpty {
		return 0
	}
	n, ok := r.q.m.readCounter(r.record)
	if !ok {
		return 0
	}
	return n - r.head
}

// readCounter returns the counter of the doorbell record of a receive queue.
func (m *Model) readCounter(record uint64) (uint16, bool) {
	b, ok := m.readDword(record)
	return uint16(prm.RQRecordCounter.Get(b[:])), ok
}

// Next implements rvt.RecvSource.
func (r *recvRing) Next(w *rvt.RecvWork) bool {
	if r.tail == r.head {
		if r.tail = r.head + r.posted(); r.tail == r.head {
			return false
		}
	}
	wqe := r.wqe[:1<<r.stride]
	at := r.base + uint64(r.head&(1<<r.log-1))<<r.stride
	w.ID, w.Bad = uint64(r.head), !r.buf.read(at, wqe)
	r.head++
	if !w.Bad {
		parseRecv(wqe, w, r.q.hasReservedKey)
	}
	return true
}

// Take implements rvt.RecvBatch: the accesses of one turn are one access to the memory of the host.
func (r *recvRing) Take(w *rvt.RecvWork) bool {
	r.buf.hold()
	if r.Next(w) {
		return true
	}
	r.buf.release() // without a buffer taken, there may be no call of Release
	return false
}

// Release implements rvt.RecvBatch.
func (r *recvRing) Release() { r.buf.release() }

// parseRecv decodes the data segments of a receive WQE, up to the one with an invalid key.
func parseRecv(b []byte, w *rvt.RecvWork, hasReservedKey bool) {
	w.SGL = w.SGL[:0]
	for ; len(b) >= prm.DataSegment; b = b[prm.DataSegment:] {
		if dataKey(b) == prm.InvalidKey {
			return
		}
		if len(w.SGL) == cap(w.SGL) {
			w.Bad = true
			return
		}
		w.SGL = append(w.SGL, dataSegment(b, hasReservedKey))
	}
}

// sges returns the most data segments of a WQE.
func (r *recvRing) sges() int {
	if r.isEmpty {
		return 0
	}
	return min(1<<r.stride/prm.DataSegment, maxSendSGE)
}

// Depth returns the number of slots.
func (r *recvRing) Depth() int {
	if r.isEmpty {
		return 0
	}
	return 1 << r.log
}

// Len returns the number of posted WQEs.
func (r *recvRing) Len() int { return int(r.posted()) }

// Reset empties the queue.
func (r *recvRing) Reset() { r.head, r.tail = 0, 0 }

// Post is not called: the driver posts.
func (r *recvRing) Post([]ci.RecvWR) int { return 0 }

// Resize is not called: the size is that of the context.
func (r *recvRing) Resize(int) error { return ci.Unsupported }
