package mlx4

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// maxSharedSGEs is the most entries of a receive in an SRQ, beside the segment of the list.
const maxSharedSGEs = 1<<queue.MaxRecvShift/prm.DataSegment - 1

type srq struct {
	ci.UnimplementedSRQ
	refs   driver.Refs
	pd     *pd
	hca    *HCA
	num    uint32
	attr   ci.SRQAttr // sizes
	notify driver.Notifier

	limitEvent awaited

	memory *fw.Queue
	record *fw.Record
	user   *userSRQ // of a queue in shared memory; then ring is nil

	mu   sync.Mutex
	ring *queue.SharedRing // nil: destroyed
}

var srqErrors = wrrules.NewErrors("SRQ.PostRecv", ci.InvalidSRQHandle)

// CreateSRQ creates a shared receive queue. Status: InvalidMaxWRs, InvalidMaxSGE, Unsupported, InvalidPDHandle,
// InsufficientResources.
func (p *pd) CreateSRQ(c ci.SRQCreate) (_ ci.SRQ, err error) {
	const verb = "PD.CreateSRQ"
	h := p.hca
	switch {
	case !h.claims.Has(ci.CapSRQ):
		return p.UnimplementedPD.CreateSRQ(c)
	case c.MaxWR < 1 || c.MaxWR > h.maxSharedWRs():
		return nil, fail(verb, ci.InvalidMaxWRs, "want 1 to MaxSRQWRs")
	case c.MaxSGE < 0 || c.MaxSGE > h.maxSharedSGEs():
		return nil, fail(verb, ci.InvalidMaxSGE, "want up to MaxSRQSGEs")
	case c.Limit < 0 || c.Limit > c.MaxWR:
		return nil, fail(verb, ci.InvalidParameter, "Limit is above MaxWR")
	}
	shared, err := p.library(verb, c.User, userabi.SRQSize)
	if err != nil {
		return nil, err
	}
	var u undo
	defer u.run(&err)
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	u.add(p.refs.Put)
	if err := h.srqs.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.srqs.Give)
	s := &srq{pd: p, hca: h, notify: driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}}
	log := max(logOf(c.MaxWR+1), 1)
	shift := max(logOf((max(c.MaxSGE, 1)+1)*prm.DataSegment), queue.MinRecvShift+1)
	s.attr = ci.SRQAttr{MaxWR: 1<<log - 1, MaxSGE: min(1<<shift/prm.DataSegment-1, h.maxSharedSGEs())}
	if e := s.allocate(shared, log, shift, &u); e != nil {
		return nil, userError(verb, e)
	}
	if c.Limit > 0 {
		if e := s.limit(c.Limit); e != nil {
			_ = s.Destroy() // the error of the create is the one to return
			u = nil
			return nil, firmwareError(verb, e)
		}
	}
	if s.user != nil {
		answer(c.User, s.describe(log, shift))
	} else {
		nothing(c.User)
	}
	return s, nil
}

func (h *HCA) maxSharedWRs() int  { return min(int(h.caps.MaxSRQSize), 1<<14) - 1 }
func (h *HCA) maxSharedSGEs() int { return min(int(h.caps.MaxRecvSGE), maxSharedSGEs) }

// allocate allocates number and memory, in shared memory if x is not nil, and passes the queue to the adapter.
func (s *srq) allocate(x *shared, log, shift uint8, u *undo) (err error) {
	h := s.hca
	if s.num, err = h.srqns.take(); err != nil {
		return err
	}
	u.add(func() { h.srqns.release(s.num) })
	if x != nil {
		err = s.allocateUser(x, log, shift, u)
	} else {
		err = s.allocateRing(log, shift, u)
	}
	if err != nil {
		return err
	}
	if err = h.dev.HandleSRQ(s.num, s.event); err != nil {
		return err
	}
	u.add(func() { h.dev.ReleaseSRQ(s.num) })
	var b [0x30]byte
	prm.SRQCLogSize.Put(b[:], uint64(log))
	prm.SRQCNumber.Put(b[:], uint64(s.num))
	prm.SRQCLogStride.Put(b[:], uint64(shift)-4)
	prm.SRQCMTTHigh.Put(b[:], s.memory.MTT.Offset()>>32)
	prm.SRQCMTTLow.Put(b[:], s.memory.MTT.Offset()&0xffffffff)
	prm.SRQCPD.Put(b[:], uint64(s.pd.num))
	prm.SRQCDoorbell.Put(b[:], s.record.IOVA)
	return h.cmd(prm.CmdSW2HWSRQ, fw.Args{In: b[:], Modifier: s.num})
}

// allocateRing allocates the queue in memory of the driver.
func (s *srq) allocateRing(log, shift uint8, u *undo) (err error) {
	h := s.hca
	if s.record, err = h.dev.AllocRecord(); err != nil {
		return err
	}
	u.add(func() { h.dev.FreeRecord(s.record) })
	if s.memory, err = h.dev.AllocQueue(h.ctx, 1<<(log+shift)); err != nil {
		return err
	}
	u.add(func() { _ = h.dev.FreeQueue(s.memory) }) // the error of the create is the one to return
	s.ring, err = queue.NewSharedRing(s.memory.Bytes[:1<<(log+shift)], s.record.Bytes, log, shift)
	return err
}

// event handles an event of the adapter, and the loss of events.
func (s *srq) event(e fw.Event) {
	t := ci.EventSRQLimit
	switch uint8(e.Type) {
	case prm.EventEQOverflow:
		s.resync()
		return
	case prm.EventSRQCatastrophic:
		t = ci.EventSRQFatal
	default:
		s.limitEvent.forget()
	}
	s.notify.Event(ci.Event{Type: t})
}

// complete releases the slot of a completion, and reports whether the message fits it.
func (s *srq) complete(c *queue.Completion) (id uint64, fits, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring == nil {
		return 0, false, false
	}
	fits = s.ring.Fits(c)
	id, ok = s.ring.Complete(c.Index)
	return id, fits, ok
}

// PostRecv writes requests to the queue, as QP.PostRecv. Context: data.
func (s *srq) PostRecv(wrs []ci.RecvWR) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring == nil || !s.refs.Alive() {
		if s.user != nil && s.refs.Alive() {
			return 0, errUserSRQ
		}
		return 0, srqErrors.Destroyed
	}
	if s.hca.dev.Err() != nil {
		return 0, errSharedFailed
	}
	room := s.ring.Room()
	for n < len(wrs) {
		if len(wrs[n].SGL) > s.attr.MaxSGE {
			err = srqErrors.Of(wrrules.SGEs)
			break
		}
		if n >= room {
			err = srqErrors.Full
			break
		}
		s.ring.Put(&wrs[n])
		n++
	}
	if n > 0 {
		s.ring.Publish()
	}
	return n, err
}

// Query returns the attributes. Status: InvalidSRQHandle.
func (s *srq) Query() (ci.SRQAttr, error) {
	const verb = "SRQ.Query"
	if !s.refs.Use() {
		return ci.SRQAttr{}, fail(verb, ci.InvalidSRQHandle, "")
	}
	defer s.refs.Done()
	var b [0x30]byte
	if err := s.hca.cmd(prm.CmdQuerySRQ, fw.Args{Out: b[:], Modifier: s.num}); err != nil {
		return ci.SRQAttr{}, firmwareError(verb, err)
	}
	a := s.attr
	a.Limit = int(prm.SRQCLimit.Get(b[:]))
	return a, nil
}

// Modify arms the limit. Status: InvalidParameter, Unsupported, InvalidSRQHandle.
func (s *srq) Modify(set ci.SRQField, a ci.SRQAttr) error {
	const verb = "SRQ.Modify"
	if !s.refs.Use() {
		return fail(verb, ci.InvalidSRQHandle, "")
	}
	defer s.refs.Done()
	switch {
	case set == 0 || set&^(ci.SRQFieldMaxWR|ci.SRQFieldLimit) != 0:
		return fail(verb, ci.InvalidParameter, "no field, or an unknown one")
	case set&ci.SRQFieldMaxWR != 0:
		return fail(verb, ci.Unsupported, "the adapter does not resize SRQs")
	case a.Limit < 0 || a.Limit > s.attr.MaxWR:
		return fail(verb, ci.InvalidParameter, "Limit is above MaxWR")
	}
	if err := s.limit(a.Limit); err != nil {
		return firmwareError(verb, err)
	}
	nothing(a.User)
	return nil
}

func (s *srq) limit(n int) error {
	if s.limitEvent.forget(); n > 0 {
		s.limitEvent.expect() // before the adapter can reach it
	}
	return s.hca.cmd(prm.CmdArmSRQ, fw.Args{Imm: uint64(n), Modifier: s.num})
}

// free releases the memory.
func (s *srq) free() error {
	if s.user != nil {
		return s.user.free()
	}
	err := s.hca.dev.FreeQueue(s.memory)
	s.hca.dev.FreeRecord(s.record)
	return err
}

// Destroy destroys the queue. Status: ResourceBusy (a QP uses it), InvalidSRQHandle.
func (s *srq) Destroy() error {
	const verb = "SRQ.Destroy"
	if err := s.refs.BeginDestroy(verb, ci.InvalidSRQHandle); err != nil {
		return err
	}
	h := s.hca
	if err := h.release(prm.CmdHW2SWSRQ, fw.Args{Modifier: s.num, OpModifier: 1}); err != nil {
		s.refs.Revive()
		return firmwareError(verb, err)
	}
	h.dev.ReleaseSRQ(s.num)
	s.notify.Close()
	s.mu.Lock()
	s.ring = nil
	s.mu.Unlock()
	err := s.free()
	h.srqns.release(s.num)
	h.srqs.Give()
	s.pd.refs.Put()
	if err != nil {
		return firmwareError(verb, err)
	}
	return nil
}
