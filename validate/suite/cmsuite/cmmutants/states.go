package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

var states = []mutant.Mutant{
	edit("cm.lap-reserved", cmsuite.CMAlt01, "a reserved field of the LAP is not zero",
		attrLAP, func(b []byte) { b[bodyOffset+8] = 1 }),
	lose("cm.lap-once", cmsuite.CMAlt02, "a retransmitted LAP is lost", after(1, attrLAP)),
	editIn("cm.mra-of-lap", cmsuite.CMAlt03, "a received MRA of a LAP has class version 9", attrMRA, func(b []byte) {
		if b[bodyOffset+8]>>6 == 2 {
			b[2] = 9
		}
	}),
}
