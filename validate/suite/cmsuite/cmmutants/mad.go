package cmmutants

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

var datagrams = []mutant.Mutant{
	fault("mad.byte", "MAD-GSI-01", "byte 255 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[255] = 0; return true })),
	fault("mad.twice", "MAD-GSI-01", "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.source", "MAD-GSI-02", "completions have source QP 2", tap.Poll(func(w *ci.WC) {
		if w.SrcQP == 1 {
			w.SrcQP = 2
		}
	})),
	fault("mad.transaction", "MAD-GSI-03", "responses have the transaction ID 1", tap.MAD(func(b []byte) bool {
		if b[3]&0x80 != 0 {
			binary.BigEndian.PutUint64(b[tidOffset:], 1)
		}
		return true
	})),
	fault("mad.some", "MAD-GSI-04", "one request in eight is never answered",
		tap.MAD(func(b []byte) bool { return b[3]&0x80 == 0 || b[23]&7 != 5 })),
	on("direct",
		fault("mad.qp0", "MAD-SMI-01", "datagrams for QP0 go to QP1", tap.Send(func(c ci.QPCreate, w *ci.SendWR) {
			if c.Type == ci.QP0 {
				w.To.QPN = 1
			}
		}))),
	fault("mad.last-segment", "MAD-GSI-07", "segments beyond 80 are lost", tap.MAD(func(b []byte) bool {
		return b[1] != 0x03 || b[25] != 1 || binary.BigEndian.Uint32(b[28:]) <= 80
	})),
	fault("mad.address-payload", "MAD-Addr-01", "byte 254 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[254] = 0; return true })),
	on("direct", fault("mad.grh-payload", "MAD-Addr-02", "byte 253 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[253] = 0; return true }))),
	fault("mad.keeps-avs", "MAD-GSI-08", "Destroy of an address vector does not release it",
		tap.AVs(func(a ciwrap.AV) ci.AV { return keptAV{a} })),
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
