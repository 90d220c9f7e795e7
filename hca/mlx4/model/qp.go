package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// qp is a queue pair outside Reset.
type qp struct {
	m       *Model
	num     uint32
	service uint8
	typ     ci.QPType
	port    uint8 // of a special QP; else 0
	gsiPort uint8 // of a UD QP that sends the RoCE v2 packets of QP1; else 0
	pdn     uint32
	uar     uint32 // page of its doorbells
	face    ci.QP
	engine  *rvt.QP
	context [prm.QPContextSize]byte // as the driver has set it

	hasAlternate bool // the context has an alternate path that the transport has not migrated to; guarded by Model.mu

	send *sendRing
	recv *recvRing // nil with an SRQ
	avs  avCache

	checksIP bool // received datagrams are taken for IP over InfiniBand

	// hasReservedKey reports whether work requests may use the reserved L_Key.
	hasReservedKey bool
}

func (q *qp) isDatagram() bool { return q.typ != ci.RC && q.typ != ci.UC }

// newQP makes the QP of a context, which is in Reset.
func (c *command) newQP(num uint32, ctx []byte) (*qp, prm.Status) {
	q := &qp{m: c.Model, num: num, service: uint8(prm.QPCService.Get(ctx)), pdn: uint32(prm.QPCPD.Get(ctx)),
		uar: uint32(prm.QPCUAR.Get(ctx)), hasReservedKey: prm.QPCReservedLKey.Has(ctx)}
	copy(q.context[:], ctx)
	switch q.service {
	case prm.ServiceRC:
		q.typ = ci.RC
	case prm.ServiceUC:
		q.typ = ci.UC
	case prm.ServiceUD:
		q.typ = ci.UD
		q.checksIP = prm.HCAFlags.Get(c.layout.mailbox)>>prm.InitChecksum&1 != 0
	case prm.ServiceMLX:
		if !c.setSpecial(q) && !c.setGSI(q) {
			return nil, prm.BadParam
		}
	default:
		return nil, prm.BadParam
	}
	if status := q.makeQueues(); status != prm.OK {
		return nil, status
	}
	sendCQ, recvCQ := c.cq(uint32(prm.QPCSendCQN.Get(ctx))), c.cq(uint32(prm.QPCRecvCQN.Get(ctx)))
	if sendCQ == nil || recvCQ == nil {
		return nil, prm.BadResource
	}
	if sendCQ.hasFailed.Load() || recvCQ.hasFailed.Load() {
		return nil, prm.BadResState
	}
	create := ci.QPCreate{Type: q.typ, SendCQ: sendCQ.face, RecvCQ: recvCQ.face, OnEvent: q.event, Context: q}
	create.SendDepth, create.SendSGE, create.MaxInline = q.send.Depth(), q.send.sges(), q.send.inlineBytes()
	if prm.QPCHasSRQ.Has(ctx) {
		s := c.srqs[uint32(prm.QPCSRQN.Get(ctx))]
		if s == nil {
			return nil, prm.BadResource
		}
		create.SRQ = s.face
		if q.hasReservedKey {
			s.hasReservedKey.Store(true)
		}
	} else {
		create.RecvDepth, create.RecvSGE = q.recv.Depth(), q.recv.sges()
	}
	return q, c.createQP(q, create)
}

// createQP makes the QP of the transport.
func (c *command) createQP(q *qp, create ci.QPCreate) prm.Status {
	pd, status := c.takePD(q.pdn)
	if status != prm.OK {
		return status
	}
	c.making.qp = q
	defer func() { c.making.qp = nil }()
	var err error
	if q.port != 0 {
		q.face, err = pd.CreateSpecialQP(q.port, create)
	} else {
		q.face, err = pd.CreateQP(create)
	}
	if err != nil {
		c.dropPD(q.pdn)
		return statusOf(err)
	}
	q.engine, _ = ci.As[*rvt.QP](q.face)
	q.avs.pd = pd
	return prm.OK
}

// setSpecial sets type and port of a QP whose service is that of QP0, QP1 and raw packets. It reports false if the
// number is none of CONF_SPECIAL_QP.
func (c *command) setSpecial(q *qp) bool {
	i := q.num - c.specialQPs
	if c.specialQPs == 0 || i >= 2*maxPorts {
		return false
	}
	q.typ = ci.QP0 + ci.QPType(i/maxPorts)
	q.port = uint8(i%maxPorts) + 1
	return int(q.port) <= len(c.ports)
}

// setGSI sets type and port of a QP that sends for the QP1 of an Ethernet port. The RoCE mode of a QP is fixed, so
// Linux has another QP for QP1's packets in RoCE v2. QP1 receives both.
func (c *command) setGSI(q *qp) bool {
	p := c.port(uint8(prm.PathPort.Get(prm.QPCPrimary.Bytes(q.context[:], prm.PathSize))) + 1)
	if !c.cfg.Pro || p == nil || !p.isEthernet() {
		return false
	}
	q.typ, q.gsiPort = ci.UD, p.num
	return true
}

// confSpecialQP sets the numbers of the special QPs: QP0 of both ports, and QP1 of both ports.
func (c *command) confSpecialQP() prm.Status {
	if c.mod > 1<<c.layout.logQPs-2*maxPorts {
		return prm.BadIndex
	}
	c.specialQPs = c.mod
	return prm.OK
}

// makeQueues reads the sizes of the queues. The one with the larger stride is at the beginning of the buffer.
func (q *qp) makeQueues() prm.Status {
	ctx := q.context[:]
	sendLog, sendStride := uint8(prm.QPCLogSendSize.Get(ctx)), uint8(prm.QPCLogSendStride.Get(ctx))+4
	recvLog, recvStride := uint8(prm.QPCLogRecvSize.Get(ctx)), uint8(prm.QPCLogRecvStride.Get(ctx))+4
	hasRecv := recvLog != prm.QPNoRecv
	if sendLog > logMaxQPSize || hasRecv && recvLog > logMaxQPSize {
		return prm.ExceedLim
	}
	sendBytes := uint64(1) << (sendLog + sendStride)
	var recvBytes, sendAt, recvAt uint64
	if hasRecv {
		recvBytes = uint64(1) << (recvLog + recvStride)
		if recvStride > sendStride {
			sendAt = recvBytes
		} else {
			recvAt = sendBytes
		}
	}
	mtt := prm.QPCMTTHigh.Get(ctx)<<32 | prm.QPCMTTLow.Get(ctx)
	b, ok := q.m.newBuffer(mtt, uint8(prm.QPCLogPage.Get(ctx))+12, sendBytes+recvBytes)
	if !ok {
		return prm.BadParam
	}
	buf := queueBuffer{buffer: b}
	q.send = &sendRing{q: q, buf: buf, base: sendAt, log: sendLog, stride: sendStride}
	if hasRecv {
		q.recv = &recvRing{q: q, buf: buf, base: recvAt, log: recvLog, stride: recvStride,
			record: prm.QPCDoorbell.Get(ctx)}
	} else {
		q.recv = &recvRing{q: q, buf: buf, isEmpty: true}
	}
	return prm.OK
}

// destroyQP ends a QP, which is in Reset afterwards.
func (m *Model) destroyQP(q *qp) prm.Status {
	m.leaveGroups(q)
	if err := q.face.Destroy(); err != nil {
		return statusOf(err)
	}
	q.avs.clear()
	m.dropPD(q.pdn)
	m.objects.Lock()
	defer m.objects.Unlock()
	delete(m.qps, q.num)
	return prm.OK
}

// qp returns a QP outside Reset, or nil.
func (m *Model) qp(num uint32) *qp {
	m.objects.RLock()
	defer m.objects.RUnlock()
	return m.qps[num&indexMask]
}

// sendDoorbell executes a send doorbell in a page of doorbells.
func (m *Model) sendDoorbell(page, num uint32) {
	if q := m.qp(num); q != nil {
		if q.uar == page {
			q.engine.Kick()
		}
	} else if f := m.frameQP(num); f != nil && f.uar == page {
		f.doorbell()
	}
}

var qpEvents = map[ci.EventType]uint8{
	ci.EventQPAPM: prm.EventPathMigrated, ci.EventQPComm: prm.EventCommEstablished,
	ci.EventSQDrained: prm.EventSQDrained,
	ci.EventQPFatal:   prm.EventWQCatastrophic, ci.EventRQError: prm.EventWQCatastrophic,
	ci.EventQPAPMError: prm.EventPathMigFailed, ci.EventWQReqError: prm.EventWQInvalidReq,
	ci.EventWQAccessError: prm.EventWQAccess, ci.EventLastWQE: prm.EventSRQLastWQE,
}

// event reports an event of the QP.
func (q *qp) event(e ci.Event) {
	q.m.diag.event(e.Type)
	if t, ok := qpEvents[e.Type]; ok {
		q.m.raise(t, 0, func(b []byte) { prm.EQEQPN.Put(b, uint64(q.num)) })
	}
}
