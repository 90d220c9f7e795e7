package cmmutants

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/cmsuite"
)

var datagrams = []mutant.Mutant{
	fault("mad.byte", cmsuite.MADGSI01, "byte 255 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[255] = 0; return true })),
	fault("mad.twice", cmsuite.MADGSI01, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.source", cmsuite.MADGSI02, "completions have source QP 2", tap.Poll(func(w *ci.WC) {
		if w.SrcQP == 1 {
			w.SrcQP = 2
		}
	})),
	fault("mad.transaction", cmsuite.MADGSI03, "responses have the transaction ID 1", tap.MAD(func(b []byte) bool {
		if b[3]&0x80 != 0 {
			binary.BigEndian.PutUint64(b[tidOffset:], 1)
		}
		return true
	})),
	fault("mad.some", cmsuite.MADGSI04, "one request in eight is never answered",
		tap.MAD(func(b []byte) bool { return b[3]&0x80 == 0 || b[23]&7 != 5 })),
	fault("mad.version", cmsuite.MADGSI05, "the class version is always 1", tap.MAD(func(b []byte) bool {
		if b[1] == 0x09 {
			b[2] = 1
		}
		return true
	})),
	lose("mad.no-request", cmsuite.MADGSI14, "the third datagram is lost",
		func(b []byte, nth int) bool { return !isCM(b, 0) && nth == 3 }),
	lose("mad.once", cmsuite.MADGSI06, "a retransmitted request is lost",
		func(b []byte, nth int) bool { return b[1] == 0x09 && nth > 1 }),
	on("direct",
		fault("mad.qp0", cmsuite.MADSMI01, "datagrams for QP0 go to QP1", tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
			if c.Type == ci.QP0 {
				w.To.QPN = 1
			}
		}))),
	fault("mad.last-segment", cmsuite.MADGSI07, "segments beyond 80 are lost", tap.MAD(func(b []byte) bool {
		return b[1] != 0x03 || b[25] != 1 || binary.BigEndian.Uint32(b[28:]) <= 80
	})),
	fault("mad.address-payload", cmsuite.MADAddr01, "byte 254 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[254] = 0; return true })),
	on("direct", fault("mad.grh-payload", cmsuite.MADAddr02, "byte 253 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[253] = 0; return true }))),
	fault("mad.keeps-avs", cmsuite.MADGSI08, "Destroy of an address vector does not release it", tap.Layer(ciwrap.Layer{
		AV: func(a ci.AV, _ ci.AVAttr) ci.AV { return keptAV{ciwrap.AV{AV: a}} },
	})),
}

// keptAV is an address vector that Destroy does not release.
type keptAV struct{ ciwrap.AV }

func (keptAV) Destroy() error { return nil }

// twice returns a wrapper that sends each datagram of QP0 or QP1 twice.
func twice(typ ci.QPType) func(ci.HCA) ci.HCA {
	return tap.Sends(func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
		if c.Type != typ {
			return wrs
		}
		var out []ci.SendWR
		for _, w := range wrs {
			again := w
			again.Flags &^= ci.SendSignaled
			out = append(out, again, w)
		}
		return out
	})
}
