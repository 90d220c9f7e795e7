package cmmutants

import (
	"sync"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/cmsuite"
)

var forgeries = []mutant.Mutant{
	fault("cm.forged-ids", cmsuite.CMForge01, "each DREQ is received with the communication IDs of the connection",
		withIDs(attrDREQ)),
	fault("cm.forged-reject", cmsuite.CMForge02, "each REJ is received with the communication IDs of the connection",
		withIDs(attrREJ)),
	edit("cm.forged-proposal", cmsuite.CMForge03, "each APR reports the path as loaded", attrAPR,
		func(b []byte) { b[bodyOffset+9] = 0 }),
}

// withIDs changes received messages with the attribute: they have the communication IDs of the last REP that was sent.
func withIDs(attr uint16) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		var mu sync.Mutex
		var ids [8]byte // of this end, and of the peer
		out := tap.MAD(func(b []byte) bool {
			if isCM(b, attrREP) {
				mu.Lock()
				defer mu.Unlock()
				copy(ids[:], b[bodyOffset:])
			}
			return true
		})
		in := tap.MADIn(func(b []byte) {
			if isCM(b, attr) {
				mu.Lock()
				defer mu.Unlock()
				copy(b[bodyOffset:], ids[4:])
				copy(b[bodyOffset+4:], ids[:4])
			}
		})
		return in(out(h))
	}
}
