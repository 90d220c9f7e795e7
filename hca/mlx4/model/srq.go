package model

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// srq is a shared receive queue that the hardware owns: the list of WQEs in the host's memory, as the transport's ring.
type srq struct {
	m       *Model
	num     uint32
	face    ci.SRQ
	pdn     uint32
	buf     queueBuffer
	log     uint8
	stride  uint8  // log2 of the bytes of a WQE
	record  uint64 // address of the doorbell record
	context [0x30]byte

	// The transport serialises what follows.
	next  uint16 // the WQE to take
	taken uint16 // count
	wqe   [maxRecvWQE]byte

	hasReservedKey atomic.Bool // a QP that may use the reserved L_Key is attached
}

var _ rvt.RecvRing = (*srq)(nil)

func (c *command) sw2hwSRQ() prm.Status {
	b, ok := c.inbox(prm.SRQCState.Layout.Size)
	switch {
	case !ok:
		return prm.BadParam
	case c.mod >= 1<<c.layout.logSRQs:
		return prm.BadIndex
	case c.srqs[c.mod] != nil:
		return prm.BadResState
	}
	s := &srq{m: c.Model, num: c.mod, pdn: uint32(prm.SRQCPD.Get(b)), log: uint8(prm.SRQCLogSize.Get(b)),
		stride: uint8(prm.SRQCLogStride.Get(b)) + 4, record: prm.SRQCDoorbell.Get(b)}
	s.context = [0x30]byte(b)
	if s.log > logMaxSRQSize {
		return prm.ExceedLim
	}
	mtt := prm.SRQCMTTHigh.Get(b)<<32 | prm.SRQCMTTLow.Get(b)
	if s.buf.buffer, ok = c.newBuffer(mtt, uint8(prm.SRQCLogPage.Get(b))+12, 1<<(s.log+s.stride)); !ok {
		return prm.BadParam
	}
	pd, status := c.takePD(s.pdn)
	if status != prm.OK {
		return status
	}
	c.making.srq = s
	defer func() { c.making.srq = nil }()
	sges := min(max(1<<s.stride/prm.DataSegment-1, 0), maxRecvSGE)
	var err error
	s.face, err = pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1 << s.log, MaxSGE: sges}, OnEvent: s.event})
	if err != nil {
		c.dropPD(s.pdn)
		return statusOf(err)
	}
	c.srqs[s.num] = s
	return prm.OK
}

func (c *command) hw2swSRQ() prm.Status {
	s := c.srqs[c.mod]
	if s == nil {
		return prm.BadIndex
	}
	return c.destroySRQ(s)
}

func (m *Model) destroySRQ(s *srq) prm.Status {
	if err := s.face.Destroy(); err != nil {
		return statusOf(err)
	}
	m.dropPD(s.pdn)
	delete(m.srqs, s.num)
	return prm.OK
}

func (c *command) querySRQ() prm.Status {
	s := c.srqs[c.mod]
	if s == nil {
		return prm.BadIndex
	}
	a, err := s.face.Query()
	if err != nil {
		return statusOf(err)
	}
	b := s.context
	prm.SRQCLimit.Put(b[:], uint64(a.Limit))
	return c.outbox(b[:])
}

// armSRQ sets the limit at which the event is raised once.
func (c *command) armSRQ() prm.Status {
	s := c.srqs[c.mod]
	if s == nil {
		return prm.BadIndex
	}
	if err := s.face.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: int(uint16(c.in))}); err != nil {
		return statusOf(err)
	}
	return prm.OK
}

// event reports an event of the queue.
func (s *srq) event(e ci.Event) {
	t := uint8(prm.EventSRQLimit)
	if e.Type == ci.EventSRQFatal {
		t = prm.EventSRQCatastrophic
	}
	s.m.raise(t, 0, func(b []byte) { prm.EQESRQN.Put(b, uint64(s.num)) })
}

// Next implements rvt.RecvSource. The first segment of a WQE has the index of the next one.
func (s *srq) Next(w *rvt.RecvWork) bool {
	posted, ok := s.m.readCounter(s.record)
	if !ok || posted == s.taken {
		return false
	}
	wqe := s.wqe[:1<<s.stride]
	at := uint64(s.next&(1<<s.log-1)) << s.stride
	w.ID, w.Bad = uint64(s.next&(1<<s.log-1)), !s.buf.read(at, wqe)
	s.taken++
	if w.Bad {
		return true
	}
	s.next = uint16(prm.NextIndex.Get(wqe))
	parseRecv(wqe[prm.NextIndex.Layout.Size:], w, s.hasReservedKey.Load())
	return true
}

// Depth returns the number of slots.
func (s *srq) Depth() int { return 1 << s.log }

// Len returns the number of posted WQEs.
func (s *srq) Len() int {
	posted, ok := s.m.readCounter(s.record)
	if !ok {
		return 0
	}
	return int(posted - s.taken)
}

// Reset is not called: an SRQ has no Reset.
func (s *srq) Reset() {}

// Post is not called: the driver posts.
func (s *srq) Post([]ci.RecvWR) int { return 0 }

// Resize is not called: the adapter does not announce it.
func (s *srq) Resize(int) error { return ci.Unsupported }
