package model

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// cq is a completion queue that the hardware owns: the queue in the host's memory, as the transport's ring.
type cq struct {
	m         *Model
	num       uint32
	face      ci.CQ
	engine    *rvt.CQ // face
	eqn       uint32
	uar       uint32 // page of its doorbell
	record    uint64 // address of the doorbell record
	ignore    bool   // overruns
	collapsed bool   // all entries go to the first slot
	context   [0x40]byte

	mu        sync.Mutex
	buf       queueBuffer
	log       uint8
	entry     uint32 // bytes
	producer  uint32 // all 32 bits count
	consumer  uint32 // 24 bits, as last read
	frameQPs  int    // that use it; guarded by Model.mu
	solicited uint32 // producer index behind the last solicited entry
	armed     uint8  // prm.ArmSolicited, prm.ArmAny, or 0
	armedAt   uint32 // consumer index with which the driver armed it
	sequence  uint8  // number of the doorbell that armed it
	fired     uint8  // 1<<the number of the doorbell whose event was raised, or 0
	status    uint64 // prm.CQCStatusFull, prm.CQCStatusError, or 0; an error lasts as long as the queue

	isModerated bool // the transport delays events
	isStaging   bool // a batch holds mu; guarded by the engine's order of calls

	hasFailed atomic.Bool // status is not 0
}

var (
	_ rvt.SharedCompletionRing = (*cq)(nil)
	_ rvt.CompletionBatch      = (*cq)(nil)
)

// cqBuffer returns the buffer that a CQ context describes.
func (c *command) cqBuffer(b []byte) (buf queueBuffer, log uint8, status prm.Status) {
	log = uint8(prm.CQCLogSize.Get(b))
	if log > logMaxCQSize {
		return buf, 0, prm.ExceedLim
	}
	mtt := prm.CQCMTTHigh.Get(b)<<32 | prm.CQCMTTLow.Get(b)
	var ok bool
	buf.buffer, ok = c.newBuffer(mtt, uint8(prm.CQCLogPage.Get(b))+12, uint64(c.layout.cqeSize)<<log)
	if !ok {
		return buf, 0, prm.BadParam
	}
	return buf, log, prm.OK
}

func (c *command) sw2hwCQ() prm.Status {
	b, ok := c.inbox(prm.CQCState.Layout.Size)
	switch {
	case !ok:
		return prm.BadParam
	case c.mod >= 1<<c.layout.logCQs:
		return prm.BadIndex
	case c.cq(c.mod) != nil:
		return prm.BadResState
	}
	q := &cq{m: c.Model, num: c.mod, eqn: uint32(prm.CQCEQN.Get(b)), uar: uint32(prm.CQCUAR.Get(b)),
		record: prm.CQCDoorbell.Get(b), ignore: prm.CQCIgnoreFull.Has(b), collapsed: prm.CQCCollapsed.Has(b),
		entry: c.layout.cqeSize}
	q.context = [0x40]byte(b)
	var status prm.Status
	if q.buf, q.log, status = c.cqBuffer(b); status != prm.OK {
		return status
	}
	if c.opMod != prm.SW2HWCQInitialized && !q.fill(q.producer) {
		return prm.BadParam
	}
	c.making.cq = q
	defer func() { c.making.cq = nil }()
	var err error
	if q.face, err = c.pd.CreateCQ(ci.CQCreate{Size: 1, OnCompletion: q.moderated}); err != nil {
		return statusOf(err)
	}
	q.engine, _ = ci.As[*rvt.CQ](q.face)
	c.objects.Lock()
	defer c.objects.Unlock()
	c.cqs[q.num] = q
	return prm.OK
}

func (c *command) hw2swCQ() prm.Status {
	q := c.cq(c.mod)
	if q == nil {
		return prm.BadIndex
	}
	if q.frameQPs > 0 {
		return prm.ResourceBusy
	}
	if err := q.face.Destroy(); err != nil {
		return statusOf(err)
	}
	c.objects.Lock()
	defer c.objects.Unlock()
	delete(c.cqs, q.num)
	return prm.OK
}

func (c *command) queryCQ() prm.Status {
	q := c.cq(c.mod)
	if q == nil {
		return prm.BadIndex
	}
	q.mu.Lock()
	b := q.context
	states := [...]uint64{0: prm.CQFired, prm.ArmSolicited: prm.CQArmedSolicited, prm.ArmAny: prm.CQArmed}
	prm.CQCState.Put(b[:], states[q.armed])
	prm.CQCStatus.Put(b[:], q.status)
	prm.CQCLogSize.Put(b[:], uint64(q.log))
	prm.CQCProducer.Put(b[:], uint64(q.producer))
	prm.CQCConsumer.Put(b[:], uint64(q.consumer))
	prm.CQCSolicited.Put(b[:], uint64(q.solicited))
	q.mu.Unlock()
	return c.outbox(b[:])
}

func (c *command) modifyCQ() prm.Status {
	q := c.cq(c.mod)
	b, ok := c.inbox(prm.CQCState.Layout.Size)
	switch {
	case q == nil:
		return prm.BadIndex
	case !ok:
		return prm.BadParam
	}
	switch c.opMod {
	case prm.ModifyCQModeration:
		return q.moderate(prm.CQCMaxCount.Get(b), prm.CQCPeriod.Get(b))
	case prm.ModifyCQResize:
		buf, log, status := c.cqBuffer(b)
		if status != prm.OK {
			return status
		}
		return q.resize(buf, log)
	}
	return prm.BadOp
}

// moderate delays completion events until count completions wait, or until a period in microseconds has passed. Zero
// turns it off.
func (q *cq) moderate(count, period uint64) prm.Status {
	q.mu.Lock()
	prm.CQCMaxCount.Put(q.context[:], count)
	prm.CQCPeriod.Put(q.context[:], period)
	q.isModerated = count > 1 || period > 0
	q.mu.Unlock()
	m := ci.Moderation{Count: int(count), Period: time.Duration(period) * time.Microsecond}
	if err := q.face.Modify(m); err != nil {
		return statusOf(err)
	}
	return prm.OK
}

// resize continues in another buffer. An entry in the old one marks the end, and counts.
func (q *cq) resize(buf queueBuffer, log uint8) prm.Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.status != 0 {
		return prm.BadResState
	}
	if !q.readConsumer() {
		return prm.BadParam
	}
	if (q.producer-q.consumer)&indexMask >= 1<<log {
		return prm.BadSize
	}
	oldBuf, oldLog := q.buf, q.log
	q.buf, q.log = buf, log
	isFilled := q.fill(q.producer + 1) // the entry that ends the old buffer has an index, too
	q.buf, q.log = oldBuf, oldLog
	if !isFilled {
		return prm.BadParam
	}
	var e [prm.CQESize]byte
	prm.CQEOpcode.Put(e[:], prm.CQEOpcodeResize)
	ok := q.store(&e)
	q.buf, q.log = buf, log
	if !ok {
		return prm.BadParam
	}
	return prm.OK
}

// fill makes all entries of the buffer invalid, of which the first one to write has the index first.
func (q *cq) fill(first uint32) bool {
	e := make([]byte, q.entry)
	for i := range e {
		e[i] = prm.CQEFill
	}
	slots := uint32(1) << q.log
	at := uint64(first&(slots-1)) * uint64(q.entry)
	round := uint64(first >> q.log & 1)
	owner := e[q.entry-prm.CQESize:]
	prm.CQEOwner.Put(owner, 1-round)
	if !q.buf.fill(at, q.buf.size, e) {
		return false
	}
	prm.CQEOwner.Put(owner, round) // those of the next round
	return q.buf.fill(0, at, e)
}

// Put implements rvt.CompletionSink.
func (q *cq) Put(wc *ci.WC) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.put(wc)
}

// put appends a completion. mu is held.
func (q *cq) put(wc *ci.WC) bool {
	x, ok := wc.Context.(*qp)
	if !ok {
		return false
	}
	var e [prm.CQESize]byte
	x.encodeCQE(e[:], wc)
	return q.add(&e)
}

// Stage implements rvt.CompletionBatch. The first call of a batch takes mu and begins an access to the memory of the
// host, which Publish ends.
func (q *cq) Stage(wc *ci.WC) bool {
	if !q.isStaging { // only the engine writes it, and it serialises calls
		q.mu.Lock()
		q.isStaging = true
		q.buf.hold()
	}
	return q.put(wc)
}

// Publish implements rvt.CompletionBatch. The entries are visible already.
func (q *cq) Publish() {
	if q.isStaging {
		q.isStaging = false
		q.buf.release()
		q.mu.Unlock()
	}
}

// putRaw appends an entry of a QP of raw frames. Without room the entry is lost.
func (q *cq) putRaw(e *[prm.CQESize]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.add(e) {
		q.solicited = q.producer
		q.fireIfDue()
	}
}

// add appends an entry. If there is no room or no memory, the queue is in error from then on, and all entries are lost.
// mu is held.
func (q *cq) add(e *[prm.CQESize]byte) bool {
	if q.status != 0 {
		return false
	}
	if !q.ignore {
		switch hasRoom, isMapped := q.hasRoom(); {
		case !isMapped:
			q.fail(prm.CQCStatusError)
			return false
		case !hasRoom:
			q.fail(prm.CQCStatusFull)
			return false
		}
	}
	if !q.store(e) {
		q.fail(prm.CQCStatusError)
		return false
	}
	return true
}

// hasRoom reports whether the queue has room. It reads the consumer index only if the queue seems to have none, and
// isMapped is false if that is not possible. mu is held.
func (q *cq) hasRoom() (hasRoom, isMapped bool) {
	slots := uint32(1) << q.log
	if (q.producer-q.consumer)&indexMask < slots {
		return true, true
	}
	if !q.readConsumer() {
		return false, false
	}
	return (q.producer-q.consumer)&indexMask < slots, true
}

// readConsumer reads the consumer index from the doorbell record. It reports false if the host has not mapped that.
func (q *cq) readConsumer() bool {
	b, ok := q.m.readDword(q.record)
	if ok {
		q.consumer = bigEndian.Uint32(b[:]) & indexMask
	}
	return ok
}

// store writes an entry, its owner bit last. mu is held.
func (q *cq) store(e *[prm.CQESize]byte) bool {
	slots := uint32(1) << q.log
	slot := q.producer & (slots - 1)
	if q.collapsed {
		slot = 0
	}
	putOwner(e[:], q.producer>>q.log&1)
	at := uint64(slot)*uint64(q.entry) + uint64(q.entry-prm.CQESize)
	if !q.buf.publish(at, e[:]) {
		return false
	}
	q.producer++
	q.m.diag.count(e[:])
	return true
}

// Fires implements rvt.SharedCompletionRing: it raises the completion event itself, unless the queue is moderated.
func (q *cq) Fires(solicited bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if solicited {
		q.solicited = q.producer
	}
	if q.isModerated {
		return q.isDue()
	}
	q.fireIfDue()
	return false
}

// moderated raises the completion event of a moderated queue, unless the driver has taken its entries meanwhile.
func (q *cq) moderated(any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fireIfDue()
}

// isDue reports whether the queue is armed and has an entry that the driver had not seen when it armed the queue.
// Without the last condition a driver that takes an entry and arms the queue, both before Fires, would get an event for
// that entry. mu is held.
func (q *cq) isDue() bool {
	var end uint32
	switch q.armed {
	case prm.ArmAny:
		end = q.producer
	case prm.ArmSolicited:
		end = q.solicited
	default:
		return false
	}
	ahead := (end - q.armedAt) & indexMask
	return ahead > 0 && ahead <= indexMask/2
}

// fireIfDue disarms the queue and raises its completion event if it is due. mu is held.
func (q *cq) fireIfDue() {
	if !q.isDue() {
		return
	}
	q.armed, q.fired = 0, 1<<q.sequence
	if e := q.m.eqs.get(q.eqn); e != nil {
		q.m.raiseTo(e, prm.EventCompletion, 0, func(b []byte) { prm.EQECQN.Put(b, uint64(q.num)) })
	}
}

// armCQ executes a doorbell in a page of doorbells that arms a CQ. If an entry is there that the driver has not seen,
// the event is raised at once, or in a moderated queue after the delay. A command that is not defined disarms the
// queue.
func (m *Model) armCQ(page uint32, b []byte) {
	q := m.cq(uint32(prm.CQDoorbellCQN.Get(b)))
	if q == nil || q.uar != page {
		return
	}
	q.request(uint8(prm.CQDoorbellCommand.Get(b)), uint8(prm.CQDoorbellSequence.Get(b)),
		uint32(prm.CQDoorbellConsumer.Get(b)))
}

// request arms the queue for a driver that has taken all entries before consumer. A doorbell with the number of the one
// whose event was raised comes from before that event, as drivers count their events in it, and does nothing.
func (q *cq) request(command, sequence uint8, consumer uint32) {
	q.mu.Lock()
	if q.fired == 1<<sequence {
		q.mu.Unlock()
		return
	}
	if q.armed, q.armedAt, q.sequence = command, consumer, sequence; command > prm.ArmAny {
		q.armed = 0
	}
	held := 0
	if q.isModerated && q.isDue() {
		held = int((q.producer - consumer) & indexMask)
	} else {
		q.fireIfDue()
	}
	q.mu.Unlock()
	if held > 0 {
		q.engine.Pend(held)
	}
}

// The driver takes the entries, so that the transport has nothing to get. These methods complete rvt.CompletionRing.

// Get returns 0.
func (q *cq) Get(_ []ci.WC) int { return 0 }

// Len returns 0.
func (q *cq) Len() int { return 0 }

// Cap returns the number of slots.
func (q *cq) Cap() int { return 1 << q.log }

// Resize is not called: MODIFY_CQ resizes the queue.
func (q *cq) Resize(int) error { return ci.Unsupported }

// cq returns a CQ, or nil.
func (m *Model) cq(num uint32) *cq {
	m.objects.RLock()
	defer m.objects.RUnlock()
	return m.cqs[num]
}
