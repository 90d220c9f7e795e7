package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// sendRing is the send queue of a QP, in the memory of the host.
type sendRing struct {
	q      *qp
	buf    queueBuffer
	base   uint64 // of the first WQE in buf
	log    uint8
	stride uint8  // log2 of the bytes of a slot
	head   uint32 // running index of the next slot to decode
	taken  int    // WQEs decoded and not retired
	wqe    [maxSendWQE]byte
	ahead  []byte // of wqe: WQEs that have been copied and not decoded

	// inline has the inline data of each slot in use, which the engine refers to until the request retires.
	inline [][]byte
}

// maxSendWQE is the size of the longest WQE: the control segment counts up to 63 units of 16 bytes.
const maxSendWQE = 63 * prm.CtrlSegment

var _ rvt.SharedSendRing = (*sendRing)(nil)

// Next implements rvt.WorkSource.
func (r *sendRing) Next(w *rvt.Work) bool {
	b, ok := r.fetch()
	if !ok {
		return false
	}
	opcode := ctrlOpcode(b)
	*w = rvt.Work{ID: sendID(uint16(r.head), opcode), SGL: w.SGL[:0]}
	slot := r.head & (1<<r.log - 1)
	r.head += r.slotsOf(b)
	r.taken++
	w.Flags = ctrlFlags(b)
	d := decoder{q: r.q, w: w, b: b[prm.CtrlSegment:], ring: r, slot: slot}
	if len(b) < prm.CtrlSegment || !d.decode(opcode, b) {
		w.Bad = ci.WCLocalOpErr
	}
	if d.inline != nil {
		r.inline[slot] = d.inline
	}
	if w.IsInl {
		w.Inline = d.inline
	}
	return true
}

// fetch copies the next WQE, if the driver has passed its slot to the hardware. A WQE may continue at the beginning of
// the queue.
func (r *sendRing) fetch() ([]byte, bool) {
	if b, ok := r.next(); ok {
		return b, true
	}
	slots := uint32(1) << r.log
	at := uint64(r.head&(slots-1)) << r.stride
	if b, isPosted, ok := r.fetchDirect(at, uint64(slots)<<r.stride-at); ok {
		return b, isPosted
	}
	ctrl := r.wqe[:prm.CtrlSegment]
	first, ok := r.buf.readDword(r.base + at)
	copy(ctrl, first[:])
	if !ok || ctrlOwner(ctrl) != r.head>>r.log&1 || !r.buf.read(r.base+at, ctrl) {
		return nil, false
	}
	n := ctrlBytes(ctrl)
	if n <= prm.CtrlSegment {
		return ctrl[:max(n, prm.CtrlSegment)], true
	}
	if n > uint64(slots)<<r.stride {
		return ctrl, true // which no operation accepts that needs more
	}
	// The rest is read again from the beginning: the driver may have written it after the control segment was read.
	b := r.wqe[:n]
	whole := min(n, uint64(slots)<<r.stride-at)
	if !r.buf.read(r.base+at, b[:whole]) || !r.buf.read(r.base, b[whole:]) {
		return ctrl, true
	}
	prm.CtrlSize.Put(b, n/prm.CtrlSegment)
	return b, true
}

// fetchDirect is fetch for a WQE that is contiguous in memory: it copies it once, and those that follow it as well, as
// far as they are posted and find room. left is the number of bytes to the end of the queue. ok is false for other
// WQEs.
func (r *sendRing) fetchDirect(at, left uint64) (b []byte, isPosted, ok bool) {
	s := r.buf.direct(r.base+at, min(left, maxSendWQE), false)
	if s == nil {
		return nil, false, false
	}
	defer r.buf.end()
	round := r.head >> r.log & 1 // of all that follow: the end of the queue comes later
	var first, end uint64        // bytes of the first WQE; of all of them
	for end+prm.CtrlSegment <= uint64(len(s)) {
		owner := loadDword(s[end:])
		if ctrlOwner(owner[:]) != round {
			break
		}
		ctrl := r.wqe[end : end+prm.CtrlSegment]
		copy(ctrl, s[end:])
		n := ctrlBytes(ctrl)
		if n < prm.CtrlSegment || n > uint64(len(s))-end {
			if end == 0 {
				return nil, false, false
			}
			break
		}
		copy(r.wqe[end+prm.CtrlSegment:end+n], s[end+prm.CtrlSegment:])
		if end == 0 {
			first = n
		}
		end += uint64(r.slotsOf(r.wqe[end:end+n])) << r.stride
	}
	if len(s) < prm.CtrlSegment {
		return nil, false, false
	}
	if end == 0 {
		return nil, false, true
	}
	r.ahead = r.wqe[min(uint64(r.slotsOf(r.wqe[:first]))<<r.stride, maxSendWQE):min(end, maxSendWQE)]
	return r.wqe[:first], true, true
}

// next returns the next one of the WQEs that fetchDirect has copied.
func (r *sendRing) next() ([]byte, bool) {
	if len(r.ahead) == 0 {
		return nil, false
	}
	b := r.ahead[:ctrlBytes(r.ahead)] // which fetchDirect has checked
	r.ahead = r.ahead[min(int(r.slotsOf(b))<<r.stride, len(r.ahead)):]
	return b, true
}

// inlineOf returns the memory for the inline data of a slot, empty.
func (r *sendRing) inlineOf(slot uint32) []byte {
	if r.inline == nil {
		r.inline = make([][]byte, 1<<r.log)
	}
	return r.inline[slot][:0]
}

// Retire implements rvt.WorkSource.
func (r *sendRing) Retire(n int) { r.taken -= n }

// sges returns the most data segments of a WQE in one slot.
func (r *sendRing) sges() int { return min(max(1<<r.stride/prm.DataSegment-1, 1), maxSendSGE) }

// inlineBytes returns the most inline data.
func (r *sendRing) inlineBytes() int { return min(1<<r.stride, maxSendDesc) }

// Depth returns the number of slots.
func (r *sendRing) Depth() int { return 1 << r.log }

// Len returns the number of WQEs decoded and not retired.
func (r *sendRing) Len() int { return r.taken }

// Reset empties the queue.
func (r *sendRing) Reset() {
	r.head, r.taken = 0, 0
	r.inline, r.ahead = nil, nil
}

// Post is not called: the driver posts.
func (r *sendRing) Post([]ci.SendWR, rvt.Resolver) int { return 0 }

// SetState does nothing: the driver queries the state.
func (r *sendRing) SetState(ci.QPState) {}
