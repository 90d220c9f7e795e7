package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/hca/reference/rings"
)

// qp is a queue pair.
type qp struct {
	pd             *pd
	num            ci.QPN
	typ            ci.QPType
	index          uint32
	sendCQ, recvCQ *cq
	inline         int
	sendSGE        int
	recvSGE        int
	noSend, noRecv bool // created with a depth of 0

	sendMu    sync.Mutex
	send      *rings.UserSend
	destroyed bool // with sendMu and recvMu

	recvMu sync.Mutex
	recv   *rings.UserRecv // nil with an SRQ
}

func preCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); !ok {
		return nil
	}
	_, send := ci.UserHandle[*cq](a.Create.SendCQ)
	_, recv := ci.UserHandle[*cq](a.Create.RecvCQ)
	_, shared := ci.UserHandle[*srq](a.Create.SRQ)
	if send && recv && (shared || a.Create.SRQ == nil) { // otherwise the proxy does all
		ask(ub, rings.UserQPSize)
	}
	return nil
}

func postCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateQP"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 || len(ub.Out) == 0 {
		return nil
	}
	var r rings.UserQP
	if err := r.Decode(ub.Out); err != nil {
		return badAnswer(verb, "%v", err)
	}
	q := &qp{pd: d, num: ci.QPN(r.Num), typ: a.Create.Type, index: r.Index, inline: int(r.Send.Shape.Data),
		sendSGE: int(r.Send.Shape.SGE), recvSGE: int(r.Recv.SGE),
		noSend: a.Create.SendDepth == 0, noRecv: a.Create.RecvDepth == 0}
	b, ok := d.ca.at(r.Send.Offset, r.Send.Size)
	if !ok || r.Index >= rings.MaxUserQPs {
		return badAnswer(verb, "a send queue outside the shared memory, or index %d", r.Index)
	}
	if q.send, ok = rings.OpenSend(b, r.Send.Shape, numberOf); !ok {
		return badAnswer(verb, "a send queue of the shape %+v in %d bytes", r.Send.Shape, r.Send.Size)
	}
	if r.RecvOffset != 0 {
		if q.recv, err = openRecv(verb, d.ca, r.RecvOffset, r.Recv); err != nil {
			return err
		}
	}
	q.sendCQ, _ = ci.UserHandle[*cq](a.Create.SendCQ)
	q.recvCQ, _ = ci.UserHandle[*cq](a.Create.RecvCQ)
	q.sendCQ.add(q.num, a.Create.Context)
	q.recvCQ.add(q.num, a.Create.Context)
	a.QP = ci.UserQP{Handle: q, PostSend: q.postSend, PostRecv: q.postRecv, BindMW: noBindMW}
	return nil
}

// numberOf returns the number of an address vector that check has accepted.
func numberOf(o ci.AV) uint32 {
	if v, ok := ci.UserHandle[*av](o); ok {
		return v.number
	}
	return 0
}

func noBindMW(uint64, ci.SendFlags, ci.MWBind) (ci.Key, error) { return 0, bindUnsupported }

var bindUnsupported = unsupported("QP.BindMW")

func preModifyQP(a *ci.UserModifyQP, _ *ci.UserBuffer) error {
	// Posts in progress end before the queues are emptied.
	if q, ok := a.QP.(*qp); ok && isReset(a) {
		q.sendMu.Lock()
		q.recvMu.Lock()
	}
	return nil
}

func postModifyQP(a *ci.UserModifyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok || !isReset(a) {
		return
	}
	if err == nil {
		q.send.Reset()
		if q.recv != nil {
			q.recv.Reset()
		}
	}
	q.recvMu.Unlock()
	q.sendMu.Unlock()
}

// isReset reports whether a Modify moves the QP to Reset.
func isReset(a *ci.UserModifyQP) bool {
	return a.Set&ci.QPFieldState != 0 && a.Attr.State == ci.QPReset
}

// preDestroyQP makes posts wait until the QP is destroyed or remains: meanwhile its state means nothing.
func preDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer) error {
	if q, ok := a.QP.(*qp); ok {
		q.sendMu.Lock()
		q.recvMu.Lock()
	}
	return nil
}

func postDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok {
		return
	}
	q.destroyed = q.destroyed || err == nil
	q.recvMu.Unlock()
	q.sendMu.Unlock()
	if err != nil {
		return
	}
	q.sendCQ.remove(q.num)
	if q.recvCQ != q.sendCQ {
		q.recvCQ.remove(q.num)
	}
}

func (q *qp) postSend(wrs []ci.SendWR) (int, error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.destroyed {
		return 0, sendErrors.destroyed
	}
	if q.send.State() < ci.QPRTS {
		return 0, sendErrors.state
	}
	if q.noSend && len(wrs) > 0 {
		return 0, sendErrors.full
	}
	legal := len(wrs)
	var bad error
	for i := range wrs {
		if bad = q.check(&wrs[i]); bad != nil {
			legal = i
			break
		}
	}
	n := q.send.Post(wrs[:legal])
	if n > 0 {
		q.pd.ca.notify(q.index)
	}
	if n < legal {
		return n, sendErrors.full
	}
	return n, bad
}

// check validates a request against the service and the sizes of the QP (IBTA volume 1, 11.4.1.1 and table 96). The
// engine does so again.
func (q *qp) check(w *ci.SendWR) error {
	e := &sendErrors
	connected := q.typ == ci.RC || q.typ == ci.UC
	switch w.Op {
	case ci.OpSend:
		if !connected {
			v, ok := ci.UserHandle[*av](w.To.AV)
			switch {
			case !ok || v.pd != q.pd || v.destroyed.Load():
				return e.av
			case w.To.QPN > 0xffffff:
				return e.param
			}
		}
		if w.Flags&ci.SendInvalidate != 0 {
			switch {
			case q.typ != ci.RC:
				return e.wrType
			case w.Flags&ci.SendImmediate != 0:
				return e.param
			}
			return e.unsupported
		}
	case ci.OpWrite:
		if !connected {
			return e.wrType
		}
	case ci.OpRead, ci.OpCompareSwap, ci.OpFetchAdd:
		switch {
		case q.typ != ci.RC:
			return e.wrType
		case w.Inline != nil:
			return e.inline
		}
	case ci.OpNop:
		return nil
	case ci.OpLocalInv, ci.OpFastReg, ci.OpBindMW:
		if !connected {
			return e.wrType
		}
		return e.unsupported
	case ci.OpLSO:
		if q.typ != ci.UD {
			return e.wrType
		}
		return e.unsupported
	default:
		return e.wrType
	}
	switch {
	case w.Inline != nil && len(w.Inline) > q.inline:
		return e.inline
	case w.Inline == nil && len(w.SGL) > q.sendSGE:
		return e.maxSGE
	case w.Flags&(ci.SendIPChecksum|ci.SendL4Checksum) != 0:
		return e.unsupported
	}
	return nil
}

func (q *qp) postRecv(wrs []ci.RecvWR) (int, error) {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	switch {
	case q.destroyed:
		return 0, recvErrors.destroyed
	case q.recv == nil:
		return 0, recvErrors.wrType
	case q.send.State() == ci.QPReset:
		return 0, recvErrors.state
	case q.noRecv && len(wrs) > 0:
		return 0, recvErrors.full
	}
	n, err := postRecv(q.recv, wrs, q.recvSGE, &recvErrors)
	if n > 0 && q.send.State() == ci.QPError {
		q.pd.ca.notify(q.index) // to be flushed
	}
	return n, err
}
