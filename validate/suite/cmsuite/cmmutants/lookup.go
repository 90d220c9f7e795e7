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
	lose("cm.sidr-once", cmsuite.CMSidr03, "a retransmitted SIDR_REP is lost", after(1, attrSIDRREP)),
}
