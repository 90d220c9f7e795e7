package rvt

import "ciddk/ci"

// PostSend appends requests to the send queue and runs the engine once.
func (q *QP) PostSend(wrs []ci.SendWR) (int, error) {
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

func (q *QP) post(wrs []ci.SendWR) (int, error) {
	if q.destroyed.Load() {
		return 0, sendErrors.destroyed
	}
	if q.current() < ci.QPRTS {
		return 0, sendErrors.state
	}
	if q.caps.SendDepth == 0 && len(wrs) > 0 {
		return 0, sendErrors.full
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
		return n, sendErrors.full
	case bad != nil:
		return n, bad
	}
	return n, nil
}

// check validates a request against the service and the sizes of the QP (IBTA volume 1, 11.4.1.1 and table 96). It
// returns nil or the error of the post.
func (q *QP) check(w *ci.SendWR) *ci.Error {
	e := &sendErrors
	caps := q.dev.attr.Caps
	connected := q.typ == ci.RC || q.typ == ci.UC
	switch w.Op {
	case ci.OpSend:
		if !connected {
			if err := q.checkDest(w); err != nil {
				return err
			}
		}
		if w.Flags&ci.SendInvalidate != 0 {
			switch {
			case q.typ != ci.RC:
				return e.wrType
			case !caps.Has(ci.CapSendInvalidate):
				return e.unsupported
			case w.Flags&ci.SendImmediate != 0:
				return e.param
			}
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
		case w.Op != ci.OpRead && q.dev.attr.Atomicity == ci.AtomicNone:
			return e.unsupported
		case w.Op == ci.OpRead && len(w.SGL) > q.dev.attr.MaxReadSGEs:
			return e.maxSGE
		}
	case ci.OpNop:
		return nil
	case ci.OpLSO:
		if q.typ != ci.UD {
			return e.wrType
		}
		return e.unsupported
	case ci.OpLocalInv, ci.OpFastReg:
		switch {
		case !connected:
			return e.wrType
		case !caps.Has(ci.CapFastReg):
			return e.unsupported
		case w.Op == ci.OpFastReg && (w.Ext == nil || q.MR(w.Ext.FastReg.MR) == nil):
			return e.param
		}
		return nil
	case ci.OpBindMW:
		switch {
		case !connected:
			return e.wrType
		case !caps.Has(ci.CapMW2):
			return e.unsupported
		case w.Ext == nil || !q.isBoundByPost(w.Ext.Bind.MW) || w.Ext.Bind.Length > 0 && q.MR(w.Ext.Bind.MR) == nil:
			return e.param
		}
		return nil
	default:
		return e.wrType
	}
	switch {
	case w.Inline != nil && len(w.Inline) > q.caps.MaxInline:
		return e.inline
	case w.Inline == nil && len(w.SGL) > q.caps.SendSGE:
		return e.maxSGE
	case w.Flags&(ci.SendIPChecksum|ci.SendL4Checksum) != 0 && !caps.Has(ci.CapIPChecksum):
		return e.unsupported
	}
	return nil
}

func (q *QP) checkDest(w *ci.SendWR) *ci.Error {
	a := q.AV(w.To.AV)
	switch {
	case a == nil || a.pd != q.pd || a.destroyed.Load():
		return sendErrors.av
	case w.To.QPN > mcastQPN:
		return sendErrors.param
	}
	return nil
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
		return 0, recvErrors.destroyed
	case q.rq == nil:
		return 0, recvErrors.wrType
	case q.current() == ci.QPReset:
		return 0, recvErrors.state
	case q.caps.RecvDepth == 0 && len(wrs) > 0:
		return 0, recvErrors.full
	}
	return postRecv(q.rq, wrs, q.caps.RecvSGE, &recvErrors)
}
