package rvt

import (
	"fmt"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/wire"
)

// paths are the compiled addresses of a Modify.
type paths struct {
	port, altPort *port
	route, altRt  Route
}

// Modify changes the state and attributes. If it fails, nothing has changed.
func (q *QP) Modify(set ci.QPField, a ci.QPAttr) error {
	const verb = "QP.Modify"
	q.pd.process.settle()
	if set&ci.QPFieldState != 0 && a.State == ci.QPReset { // posts in progress end before the queues are emptied
		q.sqMu.Lock()
		defer q.sqMu.Unlock()
		q.rqMu.Lock()
		defer q.rqMu.Unlock()
	}
	q.mu.Lock()
	defer q.unlock()
	if q.destroyed.Load() {
		return fail(verb, ci.InvalidQPHandle)
	}
	from := q.current()
	to, err := driver.CheckModify(q.typ, q.dev.attr.Caps, from, set, &a)
	if err != nil {
		return err
	}
	given := set &^ ci.QPFieldState
	p := paths{port: q.port, altPort: q.altPort, route: q.route, altRt: q.altRt}
	if err := q.checkValues(verb, given, &a, &p); err != nil {
		return err
	}
	if err := q.checkAPM(verb, given, &a, &p); err != nil {
		return err
	}
	if given&ci.QPFieldRespRes != 0 {
		more := responderBytes(a.RespRes) - responderBytes(q.attr.RespRes)
		if err := q.dev.reserve(verb, "RespRes", more); err != nil {
			return err
		}
		q.bytes += more
	}
	q.apply(given, &a, &p)
	q.enter(from, to, given, &a)
	nothingForUser(a.User)
	return nil
}

// checkValues validates each value against its range and the attributes of the HCA, and compiles the addresses.
func (q *QP) checkValues(verb string, set ci.QPField, a *ci.QPAttr, p *paths) error {
	at := &q.dev.attr
	bad := func(what string) error { return failf(verb, ci.InvalidParameter, what) }
	if set&ci.QPFieldPort != 0 {
		if p.port = q.dev.port(a.Port); p.port == nil || q.num < 2 && a.Port != q.attr.Port {
			return q.dev.noPort(verb, a.Port)
		}
		if q.current() == ci.QPSQD && a.Port != q.attr.Port && !at.Caps.Has(ci.CapChangePrimaryPort) {
			return failf(verb, ci.Unsupported, "change of the primary port")
		}
	} else if p.port == nil {
		p.port = q.dev.port(q.attr.Port)
	}
	if set&ci.QPFieldPKeyIndex != 0 {
		if _, ok := p.port.pkey(a.Primary.PKeyIndex); !ok {
			return fail(verb, ci.InvalidPKey)
		}
	}
	access := ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite | ci.BindWindow
	if at.Caps.Has(ci.CapFlush) {
		access |= ci.FlushRights
	}
	switch {
	case set&ci.QPFieldAccess != 0 && a.Access&^access != 0:
		return bad("unknown right in Access")
	case set&ci.QPFieldDestNum != 0 && a.DestNum > psnMask:
		return bad("DestNum has more than 24 bits")
	case set&ci.QPFieldRQPSN != 0 && a.RQPSN > psnMask, set&ci.QPFieldSQPSN != 0 && a.SQPSN > psnMask:
		return bad("a PSN has more than 24 bits")
	case set&ci.QPFieldMTU != 0 && (a.MTU.Bytes() == 0 || a.MTU > p.port.attr.Load().MTU):
		return bad(fmt.Sprintf("MTU code %d: want %d to the port's %d", a.MTU, ci.MTU256, p.port.attr.Load().MTU))
	case set&ci.QPFieldPrimary != 0 && // also with each new MTU
		q.pathMTU(set, a) > p.port.attr.Load().MTUOf(a.Primary.AV.SL):
		return bad(fmt.Sprintf("MTU code %d: want at most %d, the port's MTU of service level %d", q.pathMTU(set, a),
			p.port.attr.Load().MTUOf(a.Primary.AV.SL), a.Primary.AV.SL))
	case set&ci.QPFieldMinRNRTimer != 0 && a.MinRNRTimer > 31:
		return bad("MinRNRTimer is above 31")
	case set&ci.QPFieldRetryCount != 0 && a.RetryCount > 7:
		return bad("RetryCount is above 7")
	case set&ci.QPFieldRNRRetry != 0 && a.RNRRetry > 7:
		return bad("RNRRetry is above 7")
	case set&ci.QPFieldAckTimeout != 0 && a.Primary.AckTimeout > 31:
		return bad("AckTimeout is above 31")
	case set&ci.QPFieldInitDepth != 0 && int(a.InitDepth) > at.MaxInitDepthPerQP:
		return bad("InitDepth is above MaxInitDepthPerQP")
	case set&ci.QPFieldRespRes != 0 && int(a.RespRes) > at.MaxRespResPerQP:
		return bad("RespRes is above MaxRespResPerQP")
	}
	if set&ci.QPFieldPrimary != 0 {
		if a.Primary.AV.Port != 0 && a.Primary.AV.Port != p.port.num {
			return failf(verb, ci.InvalidPort, "Primary.AV.Port is not the QP's port")
		}
		dest := q.attr.DestNum
		if set&ci.QPFieldDestNum != 0 {
			dest = a.DestNum
		}
		r, err := p.port.Route(&a.Primary.AV, Flow{Local: q.num, Remote: dest})
		if err != nil {
			return failErr(verb, ci.InvalidParameter, err)
		}
		p.route = r
	}
	return nil
}

// apply stores validated values.
func (q *QP) apply(set ci.QPField, a *ci.QPAttr, p *paths) {
	cur := &q.attr
	has := func(f ci.QPField) bool { return set&f != 0 }
	if has(ci.QPFieldAccess) {
		cur.Access = a.Access
	}
	if has(ci.QPFieldPort) {
		cur.Port = a.Port
	}
	if has(ci.QPFieldPKeyIndex) {
		cur.Primary.PKeyIndex = a.Primary.PKeyIndex
	}
	if has(ci.QPFieldQKey) {
		cur.QKey = a.QKey
	}
	if has(ci.QPFieldPrimary) {
		cur.Primary.AV = a.Primary.AV
	}
	if has(ci.QPFieldMTU) {
		cur.MTU = a.MTU
	}
	if has(ci.QPFieldAckTimeout) {
		cur.Primary.AckTimeout = a.Primary.AckTimeout
	}
	if has(ci.QPFieldRetryCount) {
		cur.RetryCount = a.RetryCount
	}
	if has(ci.QPFieldRNRRetry) {
		cur.RNRRetry = a.RNRRetry
	}
	if has(ci.QPFieldMinRNRTimer) {
		cur.MinRNRTimer = a.MinRNRTimer
	}
	if has(ci.QPFieldRQPSN) {
		cur.RQPSN = a.RQPSN
		q.resp.start(a.RQPSN)
	}
	if has(ci.QPFieldSQPSN) {
		cur.SQPSN = a.SQPSN
		q.req.start(a.SQPSN)
	}
	if has(ci.QPFieldInitDepth) {
		cur.InitDepth = a.InitDepth
	}
	if has(ci.QPFieldRespRes) {
		cur.RespRes = a.RespRes
	}
	if has(ci.QPFieldDestNum) {
		cur.DestNum = a.DestNum
	}
	if has(ci.QPFieldAlternate) {
		cur.Alternate = a.Alternate
		q.altRt, q.altPort = p.altRt, p.altPort
		q.apm.refused = false
	}
	q.port, q.route = p.port, p.route
	q.home.Store(q.port)
	q.home2.Store(q.altPort)
	if q.route != nil {
		q.peer, q.local = q.route.Peer(), localGID(q.route)
	}
	if q.altRt != nil {
		q.altPeer, q.altGID = q.altRt.Peer(), localGID(q.altRt)
	}
	if has(ci.QPFieldPrimary) {
		q.resetEntropy()
	}
	q.loadPort()
	if q.service != wire.UD {
		q.mtu = uint32(cur.MTU.Bytes())
	}
	if has(ci.QPFieldAPM) {
		q.setAPM(a.APM)
	}
}

// enter completes a change of state. The attributes are set already.
func (q *QP) enter(from, to ci.QPState, set ci.QPField, a *ci.QPAttr) {
	switch to {
	case ci.QPReset:
		q.toReset()
		return
	case ci.QPError:
		t := newTurn(&q.endpoint)
		q.toError(t)
		t.finish()
		t.free()
	case ci.QPSQD:
		if from == ci.QPRTS {
			q.req.drainEvent = set&ci.QPFieldSQDEvent != 0 && a.SQDEvent
			q.setState(ci.QPSQDraining)
		}
	case ci.QPRTS:
		if from == ci.QPSQError {
			q.req.endFlush()
		}
		if from != ci.QPRTS { // the counts may have been changed in SQD
			q.req.retries, q.req.rnrRetries = q.attr.RetryCount, q.attr.RNRRetry
		}
		q.setState(ci.QPRTS)
	default:
		q.setState(to)
	}
	q.pending.Store(true) // unlock gives the engine a turn in the new state
}

// toReset discards everything but what the create set. The caller holds the token.
func (q *QP) toReset() {
	q.resp.settle()
	q.setState(ci.QPReset)
	q.flushPorts()
	q.inbox.reset(&q.dev.inboxes)
	q.req.reset()
	q.resp.reset()
	q.sq.Reset()
	if q.rq != nil {
		q.rq.Reset()
	}
	port := q.attr.Port
	kept := responderBytes(q.attr.RespRes)
	q.dev.queues.give(kept)
	q.bytes -= kept
	q.attr = ci.QPAttr{State: ci.QPReset, APM: ci.APMMigrated, Port: port, Num: q.num}
	q.clearPath()
}

// flushPorts removes what the QP has sent from the queues of the ports. It may have sent on several ones, but QP0 and
// QP1 exist at each port.
func (q *QP) flushPorts() {
	for _, p := range q.dev.ports {
		if p.queue != nil && (q.num > 1 || p.num == q.attr.Port) {
			p.queue.FlushQP(q.num)
		}
	}
}
