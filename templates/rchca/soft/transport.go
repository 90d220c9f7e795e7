package soft

import (
	"time"

	"ciddk/ci"
	"ciddk/templates/rchca"
)

// Results of an attempt after which the request is tried again. The other results are values of ci.WCStatus.
const (
	noReceive = 0x80 + iota // the peer had no receive
	noReply                 // the peer did not reply
)

// execute tries the oldest send request. It reports whether the next one can be tried.
func (q *qp) execute(now time.Time) bool {
	q.drained()
	if q.state != ci.QPRTS && q.state != ci.QPSQDraining || q.sends() == 0 || q.started && q.retryAt.After(now) {
		return false
	}
	if q.c.Type == ci.UD { // ud.go
		return q.sendDatagram()
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
	case noReceive:
		if q.rnr == 0 {
			return q.fail(ci.WCRNRRetryErr)
		}
		if q.rnr != 7 { // 7: no limit
			q.rnr--
		}
		q.retryAt = now.Add(rnrDelay(peer.attr.MinRNRTimer))
		return false
	case noReply:
		t := q.attr.Primary.AckTimeout
		switch {
		case t == 0: // no timeout
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

// fail completes the request with an error, and moves the QP to Error.
func (q *qp) fail(s ci.WCStatus) bool {
	q.complete(s, 0)
	q.fatal(0)
	return false
}

// rnrDelay returns the time of an RNR timer code (IBTA volume 1, 9.7.5.2.8).
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

// peer returns the other end, or nil if it would not reply.
func (q *qp) peer() *qp {
	d := q.d.find(&q.attr.Primary.AV)
	if d == nil {
		return nil
	}
	p := d.qps[q.attr.DestNum]
	if p == nil || p.c.Type != q.c.Type || p.state < ci.QPRTR || p.state == ci.QPError || p.attr.DestNum != q.n ||
		p.attr.RQPSN != q.attr.SQPSN ||
		p.d.find(&p.attr.Primary.AV) != q.d {
		return nil
	}
	if !q.isPartner(p) { // sma.go
		return nil
	}
	return p
}

// attempt carries out the request at sqt completely, or not at all. It returns the status of the requester and, for an
// RDMA read, the length.
func (q *qp) attempt(p *qp) (ci.WCStatus, uint32) {
	s := &q.sq[q.sqt%len(q.sq)]
	if s.Op == ci.OpNop {
		return ci.WCSuccess, 0
	}
	if s.Op == ci.OpBindMW || s.Op == ci.OpLocalInv { // mw.go
		return q.changeWindow(s), 0
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
		local, total = []span{direct(s.inline)}, uint64(len(s.inline))
	}
	if total > 1<<31 {
		return ci.WCLocalLenErr, 0
	}
	if p == nil {
		return noReply, 0
	}
	if !p.commRaised {
		p.commRaised = true
		if p.state == ci.QPRTR {
			p.d.raise(func() { p.d.h.QPEvent(p.n, ci.EventQPComm) })
		}
	}
	imm := s.Op != ci.OpRead && s.Flags&ci.SendImmediate != 0
	if (s.Op == ci.OpSend || imm) && p.recvs() == 0 {
		return noReceive, 0
	}
	var far []span
	switch right := map[ci.SendOp]ci.Access{ci.OpWrite: ci.RemoteWrite, ci.OpRead: ci.RemoteRead}[s.Op]; {
	case s.Op == ci.OpRead && p.attr.RespRes == 0:
		p.fatal(ci.EventWQReqError)
		return ci.WCRemInvalidReqErr, 0
	case p.attr.Access&right != right: // the QP does not allow the operation (IBTA volume 1, 9.9.3)
		p.fatal(ci.EventWQReqError)
		return ci.WCRemInvalidReqErr, 0
	case s.Op != ci.OpRead && q.attr.MTU != p.attr.MTU && total > uint64(min(q.attr.MTU, p.attr.MTU).Bytes()):
		p.fatal(ci.EventWQReqError) // a packet would not have the length of the receiver's path MTU (9.7.4.1.6)
		return ci.WCRemInvalidReqErr, 0
	case right != 0 && total > 0:
		if far, ok = p.remote(s.Remote, total, right); !ok {
			p.fatal(ci.EventWQAccessError)
			return ci.WCRemAccessErr, 0
		}
	case s.Op == ci.OpSend:
		var room uint64
		if far, room, ok = p.front(); !ok {
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
	q.countMessage(p, s, uint64(psns), total) // sma.go
	if s.Op == ci.OpRead {
		switch q.d.fab.copyAll(local, far, total) {
		case noSource:
			p.fatal(ci.EventWQAccessError)
			return ci.WCRemAccessErr, 0
		case noTarget:
			return ci.WCLocalProtErr, 0
		}
		return ci.WCSuccess, uint32(total)
	}
	switch result := q.d.fab.copyAll(far, local, total); {
	case result == noSource:
		return ci.WCLocalProtErr, 0
	case result == noTarget && s.Op == ci.OpSend:
		p.receive(rchca.CQE{Status: ci.WCLocalProtErr, Op: ci.WCRecv}, false)
		p.fatal(0)
		return ci.WCRemOpErr, 0
	case result == noTarget:
		p.fatal(ci.EventWQAccessError)
		return ci.WCRemAccessErr, 0
	}
	if s.Op == ci.OpSend || imm {
		e := rchca.CQE{Op: ci.WCRecv, Length: uint32(total), Immediate: imm, Imm: s.Imm}
		if s.Op == ci.OpWrite {
			e.Op = ci.WCRecvWrite
		}
		p.receive(e, s.Flags&ci.SendSolicited != 0)
	}
	return ci.WCSuccess, 0
}

// remote returns n bytes of a region or a window to which the peer has a right.
func (q *qp) remote(at ci.Remote, n uint64, right ci.Access) (list []span, ok bool) {
	if w := q.d.windows[at.RKey>>8]; w != nil { // mw.go
		return q.through(w, at.RKey, at.Addr, n, right)
	}
	return q.d.region(q.c.PD, at.RKey, at.Addr, n, right)
}

// immediate returns the number of bytes of the immediate data.
func (s *sendSlot) immediate() uint64 {
	if s.Flags&ci.SendImmediate != 0 {
		return 4
	}
	return 0
}
