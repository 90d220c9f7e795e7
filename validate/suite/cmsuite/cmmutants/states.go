package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

var states = []mutant.Mutant{
	edit("cm.mra-private", cmsuite.CMState01, "the last byte of private data of an MRA of a REQ is lost",
		attrMRA, func(b []byte) {
			if b[bodyOffset+8]>>6 == 0 {
				b[lastByte] = 0
			}
		}),
	edit("cm.rtu-private", cmsuite.CMState02, "the last byte of private data of the RTU is lost",
		attrRTU, func(b []byte) { b[lastByte] = 0 }),
	edit("cm.rej-info", cmsuite.CMState03, "the additional information of a REJ is one byte shorter",
		attrREJ, func(b []byte) {
			if b[bodyOffset+9]>>1 > 0 {
				b[bodyOffset+9] -= 2
			}
		}),
	editIn("cm.req-private-in", cmsuite.CMHandoff01, "the last byte of private data of a received REQ is lost",
		attrREQ, func(b []byte) { b[lastByte] = 0 }),
	edit("cm.lap-reserved", cmsuite.CMAlt01, "a reserved field of the LAP is not zero",
		attrLAP, func(b []byte) { b[bodyOffset+8] = 1 }),
	lose("cm.lap-once", cmsuite.CMAlt02, "a retransmitted LAP is lost", after(1, attrLAP)),
	edit("cm.sidr-req-private", cmsuite.CMArg01, "the last byte of private data of a SIDR_REQ is lost",
		attrSIDRREQ, func(b []byte) { b[lastByte] = 0 }),
	editIn("cm.mra-of-lap", cmsuite.CMAlt03, "a received MRA of a LAP has class version 9", attrMRA, func(b []byte) {
		if b[bodyOffset+8]>>6 == 2 {
			b[2] = 9
		}
	}),
}
