package cimutants

import (
	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/cisuite"
)

// invalidates are drivers with a fault in the invalidation of keys.
var invalidates = []mutant.Mutant{
	{
		Name:   "mr.local-inv-nop",
		Area:   "mr",
		Breaks: cisuite.CILocalInv03.ID,
		Does:   "a local invalidate of any key succeeds and does nothing",
		Needs:  ci.CapFastReg,
		Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
			if w.Op == ci.OpLocalInv {
				w.Op = ci.OpNop
			}
		}),
	},
	{
		Name:   "mr.fast-offset",
		Area:   "mr",
		Breaks: cisuite.CIFastReg04.ID,
		Does:   "a fast registration begins at the address in its page, whatever its offset is",
		Needs:  ci.CapFastReg,
		Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
			if w.Op == ci.OpFastReg && w.Ext != nil {
				x := *w.Ext
				x.FastReg.Offset = uint32(x.FastReg.IOVA & (1<<x.FastReg.PageShift - 1))
				w.Ext = &x
			}
		}),
	},
	{
		Name:   "mr.send-inv-plain",
		Area:   "mr",
		Breaks: cisuite.CISendInv02.ID,
		Does:   "a SEND with invalidate is sent without the key",
		Needs:  ci.CapSendInvalidate,
		Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
			if w.Op == ci.OpSend {
				w.Flags &^= ci.SendInvalidate
			}
		}),
	},
}
