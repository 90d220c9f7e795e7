package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

var ends = []mutant.Mutant{
	edit("cm.dreq-qpn", cmsuite.CMEnd01, "the DREQ has QP number 5",
		attrDREQ, func(b []byte) { b[bodyOffset+8], b[bodyOffset+9], b[bodyOffset+10] = 0, 0, 5 }),
	lose("cm.dreq-once", cmsuite.CMEnd02, "a retransmitted DREQ is lost", after(1, attrDREQ)),
	lose("cm.drep-once", cmsuite.CMEnd03, "a retransmitted DREP is lost", after(1, attrDREP)),
	lose("cm.no-drep", cmsuite.CMEnd04, "each DREP is lost", every(attrDREP)),
	editIn("cm.not-told", cmsuite.CMEnd05, "a received REJ names another connection",
		attrREJ, func(b []byte) { b[bodyOffset+4] ^= 0x80 }),
	lose("cm.apr-once", cmsuite.CMEnd06, "a retransmitted APR is lost", after(1, attrAPR)),
	edit("cm.no-room", cmsuite.CMEnd08, "every REJ has reason no resources",
		attrREJ, func(b []byte) { b[bodyOffset+11] = 3 }),
	lose("cm.no-dreq", cmsuite.CMEnd07, "each DREQ is lost", every(attrDREQ)),
}
