package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/cmsuite"
)

var lookups = []mutant.Mutant{
	edit("cm.sidr-private", cmsuite.CMSidr01, "a SIDR_REQ loses its private data",
		attrSIDRREQ, func(b []byte) { clear(b[bodyOffset+16:]) }),
	fault("cm.sidr-status", cmsuite.CMSidr02, "a received SIDR_REP with an error has status rejected",
		tap.MADIn(func(b []byte) {
			if isCM(b, attrSIDRREP) && b[bodyOffset+4] != 0 {
				b[bodyOffset+4] = 2
			}
		})),
	edit("cm.sidr-copy", cmsuite.CMSidr04, "the first byte of private data of a SIDR_REP is 0", attrSIDRREP,
		func(b []byte) { b[bodyOffset+96] = 0 }),
	edit("cm.sidr-full", cmsuite.CMSidr05, "a SIDR_REP with status no QP has status rejected", attrSIDRREP,
		func(b []byte) {
			if b[bodyOffset+4] == 3 {
				b[bodyOffset+4] = 2
			}
		}),
	editIn("cm.sidr-qkey", cmsuite.CMSidr06, "the highest bit of the Q_Key in a received SIDR_REP is lost",
		attrSIDRREP, func(b []byte) { b[bodyOffset+20] &= 0x7f }),
	lose("cm.sidr-once", cmsuite.CMSidr03, "a retransmitted SIDR_REP is lost", after(1, attrSIDRREP)),
}
