package rvt

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/wire"
)

// PostSend appends requests to the send queue and runs the engine once. Without requests, it accepts those that another
// process has put into a SharedSendRing, or removes them if the state does not permit them.
func (q *QP) PostSend(wrs []ci.SendWR) (int, error) {
	if len(wrs) == 0 {
		return 0, q.accept()
	}
	sync := q.flags&ci.QPClientSyncSend == 0
	if sync {
		q.sqMu.Lock()
	}
	n, err := q.post(wrs)
	if sync {
		q.sqMu.Unlock()
	}
	if n > 0 {
		q.kick()
	}
	return n, err
}

// accept is PostSend for the requests in a SharedSendRing, if there is one. A change of state is before or after it, so
// that no request is removed that was posted in a state to send.
func (q *QP) accept() error {
	q.mu.Lock()
	defer q.unlock()
	switch {
	case q.destroyed.Load():
		return sendErrors.Destroyed
	case q.current() < ci.QPRTS:
		if r, ok := q.sq.(DiscardedRing); ok {
			r.Discard()
		}
		return sendErrors.State
	}
	q.pending.Store(true)
	return nil
}

func (q *QP) post(wrs []ci.SendWR) (int, error) {
	if q.destroyed.Load() {
		return 0, sendErrors.Destroyed
	}
	if q.current() < ci.QPRTS {
		return 0, sendErrors.State
	}
	if q.caps.SendDepth == 0 && len(wrs) > 0 {
		return 0, sendErrors.Full
	}
	legal := len(wrs)
	var bad *ci.Error
	for i := range wrs {
		if bad = q.check(&wrs[i]); bad != nil {
			legal = i
			break
		}
	}
	n := q.sq.Post(wrs[:legal], q)
	switch {
	case n < legal:
		return n, sendErrors.Full
	case bad != nil:
		return n, bad
	}
	return n, nil
}

// check validates a request. It returns nil or the error of the post.
func (q *QP) check(w *ci.SendWR) *ci.Error {
	r := wrrules.Request{Op: w.Op, Flags: w.Flags, SGEs: len(w.SGL), IsInline: w.Inline != nil, Inline: len(w.Inline)}
	switch {
	case w.Op == ci.OpSend && q.service == wire.UD:
		r.HasAV, r.QPN = q.hasAV(w.To.AV), w.To.QPN
	case w.Op == ci.OpFlush && w.Ext != nil:
		r.HasObjects = w.Ext.Flush.IsValid()
	case w.Op == ci.OpFastReg && w.Ext != nil:
		r.HasObjects = q.MR(w.Ext.FastReg.MR) != nil
	case w.Op == ci.OpBindMW && w.Ext != nil:
		b := &w.Ext.Bind
		r.HasObjects = q.isBoundByPost(b.MW) && (b.Length == 0 || q.MR(b.MR) != nil)
	}
	return sendErrors.Of(q.rules.Check(&r))
}

// hasAV reports whether a datagram can have the address vector.
func (q *QP) hasAV(av ci.AV) bool {
	a := q.AV(av)
	return a != nil && a.pd == q.pd && a.refs.Alive()
}

// AV implements Resolver. It returns nil for a nil or foreign vector.
func (q *QP) AV(a ci.AV) *AV {
	v, _ := ci.As[*AV](a)
	return v
}

// MW implements Resolver. It returns nil for a window of another HCA.
func (q *QP) MW(m ci.MW) *MW {
	v, ok := ci.As[*MW](m)
	if !ok || v.pd.dev != q.dev {
		return nil
	}
	return v
}

// isBoundByPost reports whether OpBindMW may name the window, which must be of type 2. The key of a type 1 window is
// drawn by QP.BindMW, which compares it with the current one (IBTA volume 1, 10.6.7.2.1).
func (q *QP) isBoundByPost(m ci.MW) bool {
	v := q.MW(m)
	return v != nil && v.typ == ci.MWType2
}

// MR implements Resolver. It returns nil for a region of another HCA.
func (q *QP) MR(m ci.MR) *MR {
	v, ok := ci.As[*MR](m)
	if !ok || v.dev != q.dev {
		return nil
	}
	return v
}

// Kick runs the engine of a QP whose SharedSendRing has new requests. It does not block, and has no effect on a
// destroyed QP.
func (q *QP) Kick() {
	if !q.destroyed.Load() {
		q.kick()
	}
}

// PostRecv appends receive buffers.
func (q *QP) PostRecv(wrs []ci.RecvWR) (int, error) {
	sync := q.flags&ci.QPClientSyncRecv == 0
	if sync {
		q.rqMu.Lock()
	}
	n, err := q.postRecv(wrs)
	if sync {
		q.rqMu.Unlock()
	}
	if n > 0 && q.current() == ci.QPError {
		q.kick() // to be flushed
	}
	return n, err
}

func (q *QP) postRecv(wrs []ci.RecvWR) (int, error) {
	switch {
	case q.destroyed.Load():
		return 0, recvErrors.Destroyed
	case q.rq == nil:
		return 0, recvErrors.Of(wrrules.WRType)
	case q.current() == ci.QPReset:
		return 0, recvErrors.State
	case q.caps.RecvDepth == 0 && len(wrs) > 0:
		return 0, recvErrors.Full
	}
	return postRecv(q.rq, wrs, q.caps.RecvSGE, recvErrors)
}
