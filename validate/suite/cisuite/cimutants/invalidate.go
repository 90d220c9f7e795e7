package cimutants

import (
	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// invalidates are drivers with a fault in the invalidation of keys.
var invalidates = []mutant.Mutant{
	mutant.Of("mr.local-inv-nop", "CI-LocalInv-03", "a local invalidate of any key succeeds and does nothing",
		tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
			if w.Op == ci.OpLocalInv {
				w.Op = ci.OpNop
			}
		})).Needing(ci.CapFastReg),
	mutant.Of("mr.fast-offset", "CI-FastReg-04",
		"a fast registration begins at the address in its page, whatever its offset is",
		tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
			if w.Op == ci.OpFastReg && w.Ext != nil {
				x := *w.Ext
				x.FastReg.Offset = uint32(x.FastReg.IOVA & (1<<x.FastReg.PageShift - 1))
				w.Ext = &x
			}
		})).Needing(ci.CapFastReg),
	mutant.Of("mr.send-inv-plain", "CI-SendInv-02", "a SEND with invalidate is sent without the key",
		tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
			if w.Op == ci.OpSend {
				w.Flags &^= ci.SendInvalidate
			}
		})).Needing(ci.CapSendInvalidate),
}
