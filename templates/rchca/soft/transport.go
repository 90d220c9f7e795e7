package soft

import (
	"time"

	"ciddk/ci"
	"ciddk/templates/rchca"
)

// Why a request did not succeed now. Verdicts of a completion are ci.WCStatus.
const (
	again  = 0x80 + iota // the peer had no receive
	silent               // the peer did not answer
)

// execute tries the oldest send request, and tells whether to go on with the next.
func (q *qp) execute(now time.Time) bool {
	q.drained()
	if q.state != ci.QPRTS && q.state != ci.QPSQDraining || q.sends() == 0 || q.started && q.retryAt.After(now) {
		return false
	}
	if !q.started {
		q.started, q.retryAt = true, time.Time{}
		q.retries, q.rnr = int(q.attr.RetryCount), int(q.attr.RNRRetry)
	}
	peer := q.peer()
	status, n := q.attempt(peer)
	switch status {
	case ci.WCSuccess:
		q.complete(ci.WCSuccess, n)
		return true
	case again:
		if q.rnr == 0 {
			return q.fail(ci.WCRNRRetryErr)
		}
		if q.rnr != 7 { // 7 is for ever
			q.rnr--
		}
		q.retryAt = now.Add(rnrDelay(peer.attr.MinRNRTimer))
		return false
	case silent:
		t := q.attr.Primary.AckTimeout
		switch {
		case t == 0: // for ever
			q.retryAt = now.Add(time.Second)
			return false
		case !q.retryAt.IsZero() && q.retries == 0:
			return q.fail(ci.WCTimeoutRetryErr)
		case !q.retryAt.IsZero():
			q.retries--
		}
		q.retryAt = now.Add(4096 * time.Nanosecond << t)
		return false
	}
	return q.fail(status)
}

// fail ends the request with an error, and the QP with it.
func (q *qp) fail(s ci.WCStatus) bool {
	q.complete(s, 0)
	q.fatal(0)
	return false
}

// rnrDelay decodes an RNR timer (IBTA volume 1, 9.7.5.2.8): codes in steps of a half and a whole power of two of 10 us, 0 at the top.
func rnrDelay(code uint8) time.Duration {
	const unit = 10 * time.Microsecond
	switch {
	case code == 0:
		return 65536 * unit
	case code < 3:
		return time.Duration(code) * unit
	case code%2 == 1:
		return 3 * unit << (code / 2) / 2
	}
	return 2 * unit << (code / 2) / 2
}

// peer is the other end, or nil if it would not answer.
func (q *qp) peer() *qp {
	d := q.d.fab.devs[q.attr.Primary.AV.GRH.DGID]
	if d == nil {
		return nil
	}
	p := d.qps[q.attr.DestNum]
	if p == nil || p.state < ci.QPRTR || p.state == ci.QPError || p.attr.DestNum != q.n || p.attr.RQPSN != q.attr.SQPSN ||
		p.attr.Primary.AV.GRH.DGID != q.d.info.Port.GIDs[0].GID {
		return nil
	}
	return p
}

// attempt carries out the request at sqt, whole or not at all. It gives the requester's status and, for a read, the length.
func (q *qp) attempt(p *qp) (ci.WCStatus, uint32) {
	s := &q.sq[q.sqt%len(q.sq)]
	if s.Op == ci.OpNop {
		return ci.WCSuccess, 0
	}
	need := ci.Access(0)
	if s.Op == ci.OpRead {
		need = ci.LocalWrite
	}
	local, total, ok := q.d.resolve(q.c.PD, s.sgl, need)
	if !ok {
		return ci.WCLocalProtErr, 0
	}
	if len(s.inline) > 0 {
		local, total = [][]byte{s.inline}, uint64(len(s.inline))
	}
	if total > 1<<31 {
		return ci.WCLocalLenErr, 0
	}
	if p == nil {
		return silent, 0
	}
	if !p.heard {
		p.heard = true
		if p.state == ci.QPRTR {
			p.d.raise(func() { p.d.h.QPEvent(p.n, ci.EventQPComm) })
		}
	}
	imm := s.Op != ci.OpRead && s.Flags&ci.SendImmediate != 0
	if (s.Op == ci.OpSend || imm) && p.recvs() == 0 {
		return again, 0
	}
	var far [][]byte
	switch right := map[ci.SendOp]ci.Access{ci.OpWrite: ci.RemoteWrite, ci.OpRead: ci.RemoteRead}[s.Op]; {
	case s.Op == ci.OpRead && p.attr.RespRes == 0:
		p.fatal(ci.EventWQReqError)
		return ci.WCRemInvalidReqErr, 0
	case p.attr.Access&right != right: // a function that the QP does not support (IBTA volume 1, 9.9.3)
		p.fatal(ci.EventWQReqError)
		return ci.WCRemInvalidReqErr, 0
	case right != 0 && total > 0:
		if far, ok = p.d.region(p.c.PD, s.Remote.RKey, s.Remote.Addr, total, right); !ok {
			p.fatal(ci.EventWQAccessError)
			return ci.WCRemAccessErr, 0
		}
	case s.Op == ci.OpSend:
		var room uint64
		if far, room, ok = p.d.resolve(p.c.PD, p.rq[p.rqt%len(p.rq)].sgl, ci.LocalWrite); !ok {
			p.receive(rchca.CQE{Status: ci.WCLocalProtErr, Op: ci.WCRecv}, false)
			p.fatal(0)
			return ci.WCRemOpErr, 0
		}
		if total > room {
			p.receive(rchca.CQE{Status: ci.WCLocalLenErr, Op: ci.WCRecv}, false)
			p.fatal(0)
			return ci.WCRemInvalidReqErr, 0
		}
	}
	psns := max(1, uint32((total+uint64(q.attr.MTU.Bytes())-1)/uint64(q.attr.MTU.Bytes())))
	q.attr.SQPSN = (q.attr.SQPSN + ci.PSN(psns)) & 0xffffff
	p.attr.RQPSN = q.attr.SQPSN
	if s.Op == ci.OpRead {
		copyAll(local, far, total)
		return ci.WCSuccess, uint32(total)
	}
	copyAll(far, local, total)
	if s.Op == ci.OpSend || imm {
		e := rchca.CQE{Op: ci.WCRecv, Length: uint32(total), Immediate: imm, Imm: s.Imm}
		if s.Op == ci.OpWrite {
			e.Op = ci.WCRecvWrite
		}
		p.receive(e, s.Flags&ci.SendSolicited != 0)
	}
	return ci.WCSuccess, 0
}
