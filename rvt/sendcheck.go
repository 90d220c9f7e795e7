package rvt

import "ciddk/ci"

// checkShared validates a request that another process has posted, by the rules of QP.PostSend (IBTA volume 1, 11.4.1.1
// and table 96). It returns WCSuccess, or the status with which the request completes. It removes what the request does
// not use.
func (e *endpoint) checkShared(w *Work) ci.WCStatus {
	const bad = ci.WCLocalOpErr
	caps := e.dev.attr.Caps
	connected := e.typ == ci.RC || e.typ == ci.UC
	w.Ext, w.PKeyIx = nil, 0
	w.Flags &= ci.SendImmediate | ci.SendFence | ci.SendSignaled | ci.SendSolicited | ci.SendInvalidate
	if connected {
		w.AV = nil
	}
	switch w.Op {
	case ci.OpSend:
		if !connected && (w.AV == nil || w.AV.pd != e.pd || w.DestQP > mcastQPN) {
			return bad
		}
		invalidates := w.Flags&ci.SendInvalidate != 0
		if invalidates && (e.typ != ci.RC || !caps.Has(ci.CapSendInvalidate) || w.Flags&ci.SendImmediate != 0) {
			return bad
		}
	case ci.OpWrite:
		if !connected {
			return bad
		}
	case ci.OpRead, ci.OpCompareSwap, ci.OpFetchAdd:
		switch {
		case e.typ != ci.RC || w.IsInl,
			w.Op != ci.OpRead && e.dev.attr.Atomicity == ci.AtomicNone,
			w.Op == ci.OpRead && len(w.SGL) > e.dev.attr.MaxReadSGEs:
			return bad
		}
	case ci.OpNop:
	case ci.OpLocalInv:
		if !connected || !caps.Has(ci.CapFastReg) {
			return bad
		}
	default:
		return bad
	}
	return ci.WCSuccess
}
