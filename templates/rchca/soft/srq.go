package soft

import (
	"ciddk/ci"
	"ciddk/templates/rchca"
)

// An srq is a shared receive queue.
type srq struct {
	pd      uint32
	slots   []recvSlot
	written []int // slots that the driver has written, oldest first
	ready   int   // the first of them that were passed to the hardware
	limit   int
}

// CreateSRQ implements rchca.Device.
func (d *Device) CreateSRQ(c rchca.SRQConfig) (rchca.SRQN, error) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if d.srqs == nil {
		d.srqs = make(map[rchca.SRQN]*srq)
	}
	d.lastSRQ++
	s := &srq{pd: c.PD, slots: make([]recvSlot, c.Depth), written: make([]int, 0, c.Depth)}
	for i := range s.slots {
		s.slots[i].sgl = make([]ci.SGE, 0, c.SGEs)
	}
	d.srqs[d.lastSRQ] = s
	return d.lastSRQ, nil
}

// DestroySRQ implements rchca.Device.
func (d *Device) DestroySRQ(n rchca.SRQN) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	delete(d.srqs, n)
	return nil
}

// SetLimit implements rchca.Device.
func (d *Device) SetLimit(n rchca.SRQN, limit int) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if s := d.srqs[n]; s != nil {
		s.limit = limit
		d.checkLimit(n)
	}
	return nil
}

// Limit implements rchca.Device.
func (d *Device) Limit(n rchca.SRQN) int {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if s := d.srqs[n]; s != nil {
		return s.limit
	}
	return 0
}

// checkLimit raises the limit event once.
func (d *Device) checkLimit(n rchca.SRQN) {
	if s := d.srqs[n]; s.ready < s.limit {
		s.limit = 0
		d.raise(func() { d.h.SRQEvent(n, ci.EventSRQLimit) })
	}
}

// WriteShared implements rchca.Device.
func (d *Device) WriteShared(n rchca.SRQN, slot int, wr *ci.RecvWR) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if s := d.srqs[n]; s != nil {
		s.slots[slot].sgl = append(s.slots[slot].sgl[:0], wr.SGL...)
		s.written = append(s.written, slot)
	}
}

// RingShared implements rchca.Device.
func (d *Device) RingShared(n rchca.SRQN, count int) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if s := d.srqs[n]; s != nil {
		s.ready += count
		d.kick()
	}
}

// shared returns the shared receive queue of a QP, or nil.
func (q *qp) shared() *srq { return q.d.srqs[q.c.SRQ] }

// take removes the oldest receive from the shared queue of a QP.
func (q *qp) take() (slot int) {
	s := q.shared()
	slot = s.written[0]
	s.written = append(s.written[:0], s.written[1:]...)
	s.ready--
	q.d.checkLimit(q.c.SRQ)
	return slot
}
