package cmmutants

import (
	"encoding/binary"
	"sync"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/cmsuite"
)

var requests = []mutant.Mutant{
	edit("cm.req-reserved", cmsuite.CMReq01, "a reserved field of the REQ is not zero",
		attrREQ, func(b []byte) { b[bodyOffset+24] = 1 }),
	edit("cm.rtu-transaction", cmsuite.CMReq02, "the RTU has a transaction ID of its own",
		attrRTU, func(b []byte) { binary.BigEndian.PutUint64(b[tidOffset:], 99) }),
	lose("cm.req-once", cmsuite.CMReq03, "a retransmitted REQ is lost", after(1, attrREQ)),
	lose("cm.rtu-once", cmsuite.CMReq04, "a retransmitted RTU is lost", after(1, attrRTU)),
	editIn("cm.no-mra", cmsuite.CMReq05, "a received MRA has class version 9", attrMRA, func(b []byte) { b[2] = 9 }),
	editIn("cm.rej-in", cmsuite.CMReq06, "a received REJ has no additional information",
		attrREJ, func(b []byte) { b[bodyOffset+9] = 0 }),
	editIn("cm.rate-ignored", cmsuite.CMReq10, "a received REJ for the rate of the primary path has no reason",
		attrREJ, func(b []byte) {
			if b[bodyOffset+11] == 17 {
				b[bodyOffset+11] = 0
			}
		}),
	lose("cm.no-rej", cmsuite.CMReq07, "each REJ is lost", every(attrREJ)),
	edit("cm.which", cmsuite.CMReq08, "each REJ rejects the REQ", attrREJ, func(b []byte) { b[bodyOffset+8] = 0 }),
	fault("cm.any-id", cmsuite.CMReq09, "a received REP has the remote ID of the first REQ", func(h ci.HCA) ci.HCA {
		var mu sync.Mutex
		var id []byte
		out := tap.MAD(func(b []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			if isCM(b, attrREQ) && id == nil {
				id = append(id, b[bodyOffset:bodyOffset+4]...)
			}
			return true
		})
		return tap.MADIn(func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			if isCM(b, attrREP) && id != nil {
				copy(b[bodyOffset+4:], id)
			}
		})(out(h))
	}),
}
