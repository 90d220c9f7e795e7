package cmmutants

import (
	"encoding/binary"

	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

var answers = []mutant.Mutant{
	edit("cm.rep-transaction", cmsuite.CMAns01, "the REP has a transaction ID of its own",
		attrREP, func(b []byte) { binary.BigEndian.PutUint64(b[tidOffset:], 99) }),
	lose("cm.rep-for-one", cmsuite.CMAns02, "a retransmitted REP is lost", after(1, attrREP)),
	lose("cm.rep-twice", cmsuite.CMAns03, "the second retransmission of a REP is lost", after(2, attrREP)),
	edit("cm.no-service", cmsuite.CMAns04, "every REJ has reason invalid service ID",
		attrREJ, func(b []byte) { b[bodyOffset+11] = 8 }),
	edit("cm.mtu-unnamed", cmsuite.CMAns09, "a REJ for the MTU has the code after the right one",
		attrREJ, func(b []byte) {
			if b[bodyOffset+11] == 26 {
				b[bodyOffset+12]++
			}
		}),
	edit("cm.not-stale", cmsuite.CMAns05, "every REJ has reason no resources",
		attrREJ, func(b []byte) { b[bodyOffset+11] = 3 }),
	edit("cm.impatient", cmsuite.CMAns06, "an MRA requests 4 us", attrMRA, func(b []byte) { b[bodyOffset+9] = 0 }),
	lose("cm.flooded", cmsuite.CMAns07, "each REJ after the first twenty is lost", after(20, attrREJ)),
	editIn("cm.rej-of-rep", cmsuite.CMAns08, "a received REJ has no reason",
		attrREJ, func(b []byte) { b[bodyOffset+10], b[bodyOffset+11] = 0, 0 }),
}
