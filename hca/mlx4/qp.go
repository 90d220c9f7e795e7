package mlx4

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

type qp struct {
	ci.UnimplementedQP
	refs       driver.Refs
	pd         *pd
	hca        *HCA
	send, recv *cq
	srq        *srq // or nil
	create     ci.QPCreate
	num        ci.QPN // 0 and 1 of special QPs
	hw         uint32 // number in the adapter
	service    uint8
	notify     driver.Notifier
	memory     *fw.Queue
	record     *fw.Record
	layout     layout
	rules      wrrules.Rules
	timeWait   atomic.Int64
	onEthernet atomic.Bool
	onPort     atomic.Int32
	user       *userQP // of queues in shared memory; then sq and rq are nil

	drained, migrated, lastWQE awaited

	modify sync.Mutex
	attr   ci.QPAttr    // as set last; the adapter may be in another state
	state  atomic.Int32 // ci.QPState that posts check

	sqMu    sync.Mutex // of posts
	sq      *queue.SendRing
	extra   queue.Extra
	lists   []list // of fast registrations, by slot
	flame   []byte
	binding queue.Bind // of the request that is being posted
	bind    *bindPost  // from the first BindMW on
	rqMu    sync.Mutex

	rq *queue.RecvRing // nil with an SRQ

	hasFailed bool // the adapter has failed; it changes with sqMu and rqMu

	// binds has the windows of bind requests by slot, from the first bind on. Elements of outstanding requests belong
	// to the goroutine that polls, all others to the one that posts.
	binds queue.Binds
}

// layout is the arrangement of the two queues in memory.
type layout struct {
	sendLog, sendShift uint8
	recvLog, recvShift uint8
	sendAt, recvAt     int
	size               int
	hasRecv            bool
}

func (q *qp) isDatagram() bool { return q.service != prm.ServiceRC && q.service != prm.ServiceUC }

// port returns the port of the QP. modify is held, or the port does not change any more.
func (q *qp) port() *port { return q.hca.port(max(q.attr.Port, 1)) }

// isEthernet reports whether the QP's packets are RoCE. All ports of an adapter that has Ethernet ports count, because
// the port of a completion is that of its QP, which has one.
func (q *qp) isEthernet() bool { return q.onEthernet.Load() }

// CreateQP creates a QP in Reset. Status: Unsupported and InvalidServiceType (other services), InvalidMaxWRs,
// InvalidMaxSGE, InvalidSetting (inline data; Error.Most has the limits), InvalidParameter, InvalidCQHandle,
// InvalidSRQHandle, InvalidPDHandle, InsufficientResources.
func (p *pd) CreateQP(c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateQP"
	claims := p.hca.claims
	switch {
	case c.Type == ci.RD, c.Type == ci.UC && !claims.Has(ci.CapUC), c.Type == ci.UD && !claims.Has(ci.CapUD):
		return nil, fail(verb, ci.Unsupported, c.Type.String())
	case c.Type != ci.RC && c.Type != ci.UC && c.Type != ci.UD:
		return nil, fail(verb, ci.InvalidServiceType, "CreateSpecialQP creates special and raw QPs")
	}
	if err := p.hca.checkQP(verb, &c, false); err != nil {
		return nil, err
	}
	q, err := p.newQP(verb, c, 0)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// checkQP compares a QPCreate with the limits of the adapter. For special QPs, all sizes above a limit are
// InvalidSetting.
func (h *HCA) checkQP(verb string, c *ci.QPCreate, special bool) error {
	const flags = ci.QPSignalAll | ci.QPClientSyncSend | ci.QPClientSyncRecv | ci.QPNoOverflow
	wrs, sges := h.maxWRs(), h.maxSGEs()
	most := ci.QPCaps{SendDepth: min(c.SendDepth, wrs), RecvDepth: min(c.RecvDepth, wrs),
		SendSGE: min(c.SendSGE, sges), RecvSGE: min(c.RecvSGE, sges), MaxInline: min(c.MaxInline, maxInline)}
	switch {
	case c.Flags&^flags != 0:
		return fail(verb, ci.InvalidParameter, "unknown flag")
	case c.RDD != nil:
		return fail(verb, ci.InvalidParameter, "an RDD belongs to an RD QP")
	case c.SRQ != nil && c.RecvDepth != 0:
		return fail(verb, ci.InvalidParameter, "RecvDepth must be 0 with an SRQ")
	case c.MaxInline < 0:
		return fail(verb, ci.InvalidParameter, "MaxInline is negative")
	case c.SendDepth < 0 || c.RecvDepth < 0:
		return fail(verb, ci.InvalidMaxWRs, "a depth is negative")
	case c.SendSGE < 0 || c.RecvSGE < 0:
		return fail(verb, ci.InvalidMaxSGE, "a number of entries is negative")
	case (special || c.MaxInline > maxInline) && most != c.QPCaps:
		return &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "a size is above the limit", Most: &most}
	case c.SendDepth > wrs || c.RecvDepth > wrs:
		return fail(verb, ci.InvalidMaxWRs, "above MaxWRs")
	case c.SendSGE > sges || c.RecvSGE > sges:
		return fail(verb, ci.InvalidMaxSGE, "above MaxSGEs")
	}
	return nil
}

// newQP creates a QP. number is that of a special QP in the adapter, and else 0.
func (p *pd) newQP(verb string, c ci.QPCreate, number uint32) (_ *qp, err error) {
	h := p.hca
	shared, err := p.library(verb, c.User, userabi.QPSize)
	if err != nil {
		return nil, err
	}
	ub := c.User
	c.User = nil
	q := &qp{pd: p, hca: h, create: c, hw: number, notify: driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}}
	q.service = services[c.Type]
	var u undo
	defer u.run(&err)
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	u.add(p.refs.Put)
	var ok bool
	if q.send, ok = ci.As[*cq](c.SendCQ); !ok || q.send.hca != h || !q.send.refs.Get() {
		return nil, fail(verb, ci.InvalidCQHandle, "SendCQ is not a CQ of this adapter")
	}
	u.add(q.send.refs.Put)
	if q.recv, ok = ci.As[*cq](c.RecvCQ); !ok || q.recv.hca != h || !q.recv.refs.Get() {
		return nil, fail(verb, ci.InvalidCQHandle, "RecvCQ is not a CQ of this adapter")
	}
	u.add(q.recv.refs.Put)
	if c.SRQ != nil {
		if q.srq, ok = ci.As[*srq](c.SRQ); !ok || q.srq.hca != h || !q.srq.refs.Get() {
			return nil, fail(verb, ci.InvalidSRQHandle, "SRQ is not an SRQ of this adapter")
		}
		u.add(q.srq.refs.Put)
	}
	if !q.hasUserQueues(shared != nil) {
		return nil, fail(verb, ci.InvalidCQHandle, "the user library has some of the queues, and not the others")
	}
	if err := h.qps.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.qps.Give)
	if err := q.allocate(verb, shared, &u); err != nil {
		return nil, err
	}
	q.rules = wrrules.Rules{Type: c.Type, Atomicity: h.atomicity(), Caps: h.claims, MaxReadSGEs: h.maxSGEs(),
		SendSGE: q.create.SendSGE, MaxInline: q.create.MaxInline}
	q.num = ci.QPN(q.hw)
	if number != 0 {
		q.num = ci.QPN(c.Type - ci.QP0)
	}
	q.attr = ci.QPAttr{Port: 1, APM: ci.APMMigrated}
	if e := h.dev.HandleQP(q.hw, q.event); e != nil {
		return nil, firmwareError(verb, e)
	}
	h.qpTable.set(q.hw, q)
	if q.user != nil {
		q.user.s.qps[q.user.doorbell].Store(q)
		answer(ub, q.describe())
	} else {
		nothing(ub)
	}
	return q, nil
}

var services = [...]uint8{ci.RC: prm.ServiceRC, ci.UC: prm.ServiceUC, ci.UD: prm.ServiceUD, ci.QP0: prm.ServiceMLX,
	ci.QP1: prm.ServiceMLX}

// allocate allocates number and memory, in shared memory if s is not nil.
func (q *qp) allocate(verb string, s *shared, u *undo) error {
	h := q.hca
	if q.hw == 0 {
		n, err := h.allocQPN()
		if err != nil {
			return firmwareError(verb, err)
		}
		q.hw = n
		u.add(func() { h.qpns.release(n) })
	}
	q.arrange()
	if s != nil {
		if err := q.allocateUser(s, u); err != nil {
			return userError(verb, err)
		}
		return nil
	}
	var err error
	if q.memory, err = h.dev.AllocQueue(h.ctx, q.layout.size); err != nil {
		return firmwareError(verb, err)
	}
	u.add(func() { _ = h.dev.FreeQueue(q.memory) }) // the error of the create is the one to return
	if q.record, err = h.dev.AllocRecord(); err != nil {
		return firmwareError(verb, err)
	}
	u.add(func() { h.dev.FreeRecord(q.record) })
	l := &q.layout
	b := q.memory.Bytes
	q.sq, err = queue.NewSendRing(b[l.sendAt:l.sendAt+1<<(l.sendLog+l.sendShift)], l.sendLog, l.sendShift,
		q.create.SendDepth)
	if err == nil && l.hasRecv {
		q.rq, err = queue.NewRecvRing(b[l.recvAt:l.recvAt+1<<(l.recvLog+l.recvShift)], q.record.Bytes, l.recvLog,
			l.recvShift, q.create.RecvDepth)
	}
	if err != nil {
		return firmwareError(verb, err)
	}
	return nil
}

// arrange sets the layout, and the sizes that are granted.
func (q *qp) arrange() {
	l, c := &q.layout, &q.create
	const header = prm.CtrlSegment + prm.RemoteSegment + prm.AtomicSegment // or the segment of a bind
	size := max(header+prm.DataSegment, prm.CtrlSegment+prm.FastRegSegment)
	head := header
	if q.isDatagram() {
		head = prm.CtrlSegment + prm.DatagramSegment
	}
	if q.service == prm.ServiceMLX {
		head = managementHeader
	}
	size = max(size, head+c.SendSGE*prm.DataSegment, head+queue.InlineSize(head, c.MaxInline),
		head-prm.AtomicSegment+queue.InlineSize(head-prm.AtomicSegment, c.MaxInline),
		prm.CtrlSegment+queue.InlineSize(prm.CtrlSegment, c.MaxInline))
	if c.Type == ci.UD && q.hca.claims.Has(ci.CapLSO) {
		size = max(size, head+queue.MaxLSO+c.SendSGE*prm.DataSegment)
	}
	l.sendShift = max(logOf(size), queue.MinSendShift)
	slots := max(c.SendDepth, 1) + queue.SpareSlots(l.sendShift)
	l.sendLog = logOf(slots)
	if c.SendDepth > 0 {
		c.SendDepth = 1<<l.sendLog - queue.SpareSlots(l.sendShift)
		c.SendDepth = min(c.SendDepth, q.hca.maxWRs())
	}
	sendBytes, recvBytes := 1<<(l.sendLog+l.sendShift), 0
	if q.srq == nil && c.RecvDepth > 0 {
		l.hasRecv = true
		l.recvShift = max(logOf(max(c.RecvSGE, 1)*prm.DataSegment), queue.MinRecvShift)
		l.recvLog = logOf(c.RecvDepth)
		c.RecvDepth = min(1<<l.recvLog, q.hca.maxWRs())
		recvBytes = 1 << (l.recvLog + l.recvShift)
		if l.recvShift > l.sendShift { // the queue with the larger stride is at the beginning
			l.sendAt = recvBytes
		} else {
			l.recvAt = sendBytes
		}
	}
	if q.srq != nil {
		c.RecvSGE = q.srq.attr.MaxSGE
	}
	l.size = sendBytes + recvBytes
}

// allocQPN allocates a number. Those in quarantine are not free.
func (h *HCA) allocQPN() (uint32, error) {
	h.quarantine.expire(h)
	return h.qpns.take()
}

// Num returns the QP number.
func (q *qp) Num() ci.QPN { return q.num }

// TimeWait quarantines the number for d after Destroy.
func (q *qp) TimeWait(d time.Duration) {
	until := int64(0)
	if d > 0 {
		until = int64(q.hca.now() + d)
	}
	q.timeWait.Store(until)
}

// event handles an event of the adapter, and the loss of events.
func (q *qp) event(e fw.Event) {
	if uint8(e.Type) == prm.EventEQOverflow {
		q.resync()
		return
	}
	q.note(e)
	if int(e.Type) < len(qpEvents) && qpEvents[e.Type] != 0 {
		q.notify.Event(ci.Event{Type: qpEvents[e.Type], Vendor: uint64(e.Syndrome)})
	}
}

var qpEvents = [...]ci.EventType{prm.EventPathMigrated: ci.EventQPAPM, prm.EventCommEstablished: ci.EventQPComm,
	prm.EventSQDrained: ci.EventSQDrained, prm.EventWQCatastrophic: ci.EventQPFatal,
	prm.EventPathMigFailed: ci.EventQPAPMError, prm.EventWQInvalidReq: ci.EventWQReqError,
	prm.EventWQAccess: ci.EventWQAccessError, prm.EventSRQLastWQE: ci.EventLastWQE}

// Destroy destroys the QP. Status: ResourceBusy (attached to a group), InvalidQPHandle. Context: drain.
func (q *qp) Destroy() error {
	const verb = "QP.Destroy"
	if err := q.refs.BeginDestroy(verb, ci.InvalidQPHandle); err != nil {
		return err
	}
	h := q.hca
	q.stopPosts()
	q.modify.Lock()
	var err error
	if q.attr.State != ci.QPReset {
		err = h.release(prm.Cmd2RST, fw.Args{Modifier: q.hw, OpModifier: 2})
	}
	if err == nil {
		q.attr.State = ci.QPReset
	} else { // the memory stays allocated, because the adapter may still use it
		q.refs.Revive()
	}
	q.modify.Unlock()
	q.resumePosts()
	if err != nil {
		return firmwareError(verb, err)
	}
	q.settle()
	h.qpTable.set(q.hw, nil)
	q.send.forget(q)
	q.recv.forget(q)
	h.dev.ReleaseQP(q.hw)
	q.notify.Close()
	err = q.free()
	h.qps.Give()
	q.recv.refs.Put()
	q.send.refs.Put()
	if q.srq != nil {
		q.srq.refs.Put()
	}
	q.pd.refs.Put()
	if err != nil {
		return firmwareError(verb, err)
	}
	return nil
}

// free releases number and memory.
func (q *qp) free() error {
	h := q.hca
	q.stopPosts()
	m := q.memory
	q.memory, q.sq, q.rq = nil, nil, nil
	lists := q.lists
	q.lists = nil
	q.resumePosts()
	var err error
	if q.user != nil {
		err = q.freeUser()
	} else {
		err = h.dev.FreeQueue(m)
		h.dev.FreeRecord(q.record)
	}
	h.freeLists(lists)
	switch until := time.Duration(q.timeWait.Load()); {
	case q.num < 2:
		h.special[q.attr.Port-1][q.num].Store(nil)
	case until > h.now():
		h.quarantine.add(q.hw, until)
	default:
		h.qpns.release(q.hw)
	}
	return err
}

// settle keeps the completions of a QP that enters Reset, and ends its binds.
func (q *qp) settle() {
	q.send.save()
	if q.recv != q.send {
		q.recv.save()
	}
	q.discardBinds()
}

// stopPosts waits for posts in progress and holds up new ones until resumePosts.
func (q *qp) stopPosts()   { q.sqMu.Lock(); q.rqMu.Lock() }
func (q *qp) resumePosts() { q.rqMu.Unlock(); q.sqMu.Unlock() }
