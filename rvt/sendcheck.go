package rvt

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/wire"
)

// ringFlags are the flags that a request of another process can have besides those that the rules reject.
const ringFlags = ci.SendImmediate | ci.SendFence | ci.SendSignaled | ci.SendSolicited | ci.SendInvalidate

// checkShared validates a request that another process has posted, by the rules of QP.PostSend. It returns WCSuccess,
// or the status with which the request completes. It removes what the request does not use.
func (e *endpoint) checkShared(w *Work) ci.WCStatus {
	r := wrrules.Request{Op: w.Op, Flags: w.Flags, SGEs: len(w.SGL), IsInline: w.IsInl, Inline: len(w.Inline)}
	switch w.Op {
	case ci.OpSend:
		w.Ext = nil
		r.HasAV, r.QPN = w.AV != nil && w.AV.pd == e.pd, w.DestQP
	case ci.OpFlush:
		w.Ext, r.HasObjects = nil, w.Flush.IsValid()
	case ci.OpBindMW:
		r.HasObjects = w.Ext != nil // the objects of the keys are found when the bind is executed
		if r.HasObjects && e.service != wire.UD && e.dev.attr.Caps.Has(ci.CapMW1) {
			return ci.WCSuccess // the same request binds windows of type 1, after QP.BindMW
		}
	case ci.OpFastReg:
		r.HasObjects = w.Ext != nil && w.Ext.ByKey // the driver's own ring has made it
	default:
		w.Ext = nil
	}
	if e.service != wire.UD {
		w.AV = nil
	}
	w.Flags &= ringFlags
	w.PKeyIx, w.FromQP1 = 0, false
	return e.rules.Check(&r).WCStatus()
}
