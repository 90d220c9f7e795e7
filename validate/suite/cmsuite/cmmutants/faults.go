package cmmutants

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/cmsuite"
)

var recoveries = []mutant.Mutant{
	fault("mad.fault-reset", cmsuite.MADFault01, "after a reset of QP1, byte 255 of each datagram sent is zero",
		func(h ci.HCA) ci.HCA {
			var isReset atomic.Bool
			modify := tap.Modify(func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if c.Type == ci.QP1 && set&ci.QPFieldState != 0 && a.State == ci.QPReset {
					isReset.Store(true)
				}
			})
			return tap.MAD(func(b []byte) bool {
				if isReset.Load() {
					b[255] = 0
				}
				return true
			})(modify(h))
		}),
	fault("mad.fault-status", cmsuite.MADFault02, "a send of QP1 that fails completes with success",
		tap.Poll(func(w *ci.WC) {
			if w.Status == ci.WCLocalProtErr {
				w.Status, w.Op = ci.WCSuccess, ci.WCSend
			}
		})),
	fault("mad.fault-list", cmsuite.MADFault03, "byte 250 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[250] = 0; return true })),
	fault("mad.fault-stale", cmsuite.MADFault04, "byte 251 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[251] = 0; return true })),
	fault("mad.fault-attempts", cmsuite.MADFault05, "byte 246 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[246] = 0; return true })),
	fault("mad.fault-drain", cmsuite.MADFault06, "byte 245 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[245] = 0; return true })),
	fault("mad.fault-events", cmsuite.MADFault07, "byte 244 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[244] = 0; return true })),
	fault("mad.fault-flushes", cmsuite.MADFault08, "byte 243 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[243] = 0; return true })),
}
