package cmmutants

import (
	"encoding/binary"

	"ciddk/validate/mutant"
)

// messages are the mutants of the areas in which the certifier plays the peer, message by message.
var messages = []mutant.Mutant{
	edit("cm.req-reserved", "CM-Req-01", "a reserved field of the REQ is not zero",
		attrREQ, func(b []byte) { b[bodyOffset+24] = 1 }),
	edit("cm.rtu-transaction", "CM-Req-02", "the RTU has a transaction ID of its own",
		attrRTU, func(b []byte) { binary.BigEndian.PutUint64(b[tidOffset:], 99) }),
	lose("cm.req-once", "CM-Req-03", "a retransmitted REQ is lost", after(1, attrREQ)),
	lose("cm.rtu-once", "CM-Req-04", "a retransmitted RTU is lost", after(1, attrRTU)),
	editIn("cm.rej-in", "CM-Req-06", "a received REJ has no additional information",
		attrREJ, func(b []byte) { b[bodyOffset+9] = 0 }),
	editIn("cm.rate-ignored", "CM-Req-10", "a received REJ for the rate of the primary path has no reason",
		attrREJ, func(b []byte) {
			if b[bodyOffset+11] == 17 {
				b[bodyOffset+11] = 0
			}
		}),
	edit("cm.rep-transaction", "CM-Ans-01", "the REP has a transaction ID of its own",
		attrREP, func(b []byte) { binary.BigEndian.PutUint64(b[tidOffset:], 99) }),
	lose("cm.rep-for-one", "CM-Ans-02", "a retransmitted REP is lost", after(1, attrREP)),
	lose("cm.rep-twice", "CM-Ans-03", "the second retransmission of a REP is lost", after(2, attrREP)),
	edit("cm.no-service", "CM-Ans-04", "every REJ has reason invalid service ID",
		attrREJ, func(b []byte) { b[bodyOffset+11] = 8 }),
	edit("cm.mtu-unnamed", "CM-Ans-09", "a REJ for the MTU has the code after the right one",
		attrREJ, func(b []byte) {
			if b[bodyOffset+11] == 26 {
				b[bodyOffset+12]++
			}
		}),
	edit("cm.dreq-qpn", "CM-End-01", "the DREQ has QP number 5",
		attrDREQ, func(b []byte) { b[bodyOffset+8], b[bodyOffset+9], b[bodyOffset+10] = 0, 0, 5 }),
	lose("cm.dreq-once", "CM-End-02", "a retransmitted DREQ is lost", after(1, attrDREQ)),
	lose("cm.drep-once", "CM-End-03", "a retransmitted DREP is lost", after(1, attrDREP)),
	edit("cm.sidr-private", "CM-Sidr-01", "a SIDR_REQ loses its private data",
		attrSIDRREQ, func(b []byte) { clear(b[bodyOffset+16:]) }),
}
