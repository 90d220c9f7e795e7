package mlx4

import "ciddk/ci"

// NextFlame returns the offset of the next BlueFlame buffer, which changes with each write to BlueFlame.
func (h *HCA) NextFlame() uint32 { return h.flames.next }

// HoldFlames takes the lock of the BlueFlame register, as a post on another goroutine does.
func (h *HCA) HoldFlames() (release func()) {
	h.flames.mu.Lock()
	return h.flames.mu.Unlock
}

// PutEntry writes an entry to the next place of a CQ as the adapter does.
func PutEntry(o ci.CQ, entry []byte) {
	q := o.(*cq)
	q.mu.Lock()
	defer q.mu.Unlock()
	slots := uint32(1) << q.ring.Log()
	size := uint32(q.hca.caps.CQESize)
	n := q.ring.Consumer()
	b := q.memory.Bytes[(n&(slots-1)+1)*size-uint32(len(entry)):]
	copy(b, entry)
	owner := &b[len(entry)-1]
	*owner &^= 0x80
	if n&slots != 0 {
		*owner |= 0x80
	}
}

// Hardware returns the number of a QP in the adapter.
func Hardware(q ci.QP) uint32 { return q.(*qp).hw }

// HardwareCQ returns the number of a CQ in the adapter.
func HardwareCQ(q ci.CQ) uint32 { return q.(*cq).num }

// Slots returns the number of entries that the ring of a CQ has.
func Slots(o ci.CQ) int { return 1 << o.(*cq).ring.Log() }

// Consumer returns the number of entries that were taken from the ring of a CQ.
func Consumer(o ci.CQ) uint32 {
	q := o.(*cq)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ring.Consumer()
}

// RecoveryDelay is recoveryDelay.
var RecoveryDelay = recoveryDelay
