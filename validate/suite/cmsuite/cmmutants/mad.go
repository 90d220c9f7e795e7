package cmmutants

import (
	"encoding/binary"
	"sync"

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
	on("direct", fault("mad.capability-fixed", cmsuite.MADCap01, "bits of the capability mask cannot be cleared",
		tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return fixedCapability{ciwrap.CA{CA: c}} }}))),
	fault("mad.address-payload", cmsuite.MADAddr01, "byte 254 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[254] = 0; return true })),
	on("direct", fault("mad.grh-payload", cmsuite.MADAddr02, "byte 253 of each datagram sent through QP1 is zero",
		tap.MAD(func(b []byte) bool { b[253] = 0; return true }))),
	fault("mad.rmpp-abort", cmsuite.MADRMPP01, "each ABORT of a transfer has status 127", tap.MAD(func(b []byte) bool {
		if b[1] == 0x03 && b[25] == 4 {
			b[27] = 127
		}
		return true
	})),
	fault("mad.rmpp-length", cmsuite.MADRMPP02, "the payload length of a last segment is one less",
		tap.MAD(func(b []byte) bool {
			if b[1] == 0x03 && b[25] == 1 && b[26]&4 != 0 {
				b[35]--
			}
			return true
		})),
	fault("mad.rmpp-stop", cmsuite.MADRMPP03, "each STOP of a transfer has status 127", tap.MAD(func(b []byte) bool {
		if b[1] == 0x03 && b[25] == 3 {
			b[27] = 127
		}
		return true
	})),
	on("direct", fault("mad.no-qp0", cmsuite.MADConfig01, "QP0 cannot be created", noQP0)),
	fault("mad.message-data", cmsuite.MADConfig02, "byte 247 of each datagram sent through QP1 is one",
		tap.MAD(func(b []byte) bool { b[247] = 1; return true })),
	fault("mad.source-twice", cmsuite.MADAddr03, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	on("direct", fault("mad.source-qp0-twice", cmsuite.MADAddr04, "each datagram of QP0 is sent twice", twice(ci.QP0))),
	fault("mad.answers-twice", cmsuite.MADGSI15, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.rmpp-data-twice", cmsuite.MADRMPP04, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.rmpp-first-twice", cmsuite.MADRMPP05, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.rmpp-stranger", cmsuite.MADRMPP06, "an adapter has address vectors like the first one only",
		oneDestination),
	fault("mad.time-send", cmsuite.MADTime01, "each send completes with an error", failingSends),
	fault("mad.response-send", cmsuite.MADTime02, "each send completes with an error", failingSends),
	fault("mad.rate-twice", cmsuite.MADTime03, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.local-twice", cmsuite.MADLocal01, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	on("direct", fault("mad.own-qp0", cmsuite.MADSMI02, "QP0 cannot be created", noQP0)),
	on("direct", fault("mad.info-twice", cmsuite.MADSMI03, "each datagram of QP0 is sent twice", twice(ci.QP0))),
	on("direct", fault("mad.trap-twice", cmsuite.MADSMI04, "each datagram of QP0 is sent twice", twice(ci.QP0))),
	fault("mad.limit-twice", cmsuite.MADLimit01, "each datagram of QP1 is sent twice", twice(ci.QP1)),
	fault("mad.limit-stranger", cmsuite.MADLimit02, "an adapter has address vectors like the first one only",
		oneDestination),
	fault("mad.watch-qp1", cmsuite.MADWatch01, "QP1 cannot be created", withoutSpecial(ci.QP1)),
	fault("mad.transaction-send", cmsuite.MADTime04, "each send completes with an error", failingSends),
	fault("mad.keeps-avs", cmsuite.MADGSI08, "Destroy of an address vector does not release it", tap.Layer(ciwrap.Layer{
		AV: func(a ci.AV, _ ci.AVAttr) ci.AV { return keptAV{ciwrap.AV{AV: a}} },
	})),
}

// keptAV is an address vector that Destroy does not release.
type keptAV struct{ ciwrap.AV }

func (keptAV) Destroy() error { return nil }

// failingSends changes the completions of sends.
var failingSends = tap.Poll(func(w *ci.WC) {
	if w.Op == ci.WCSend && w.Status == ci.WCSuccess {
		w.Status = ci.WCLocalOpErr
	}
})

var noQP0 = withoutSpecial(ci.QP0)

// withoutSpecial returns a wrapper whose PDs refuse QP0 or QP1.
func withoutSpecial(typ ci.QPType) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return refusingPD{ciwrap.PD{PD: p}, typ} }})
}

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

// oneDestination returns an adapter on which address vectors that differ from the first one cannot be
// created.
func oneDestination(h ci.HCA) ci.HCA {
	d := &destination{}
	return ciwrap.Wrap(h, ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return loyalPD{ciwrap.PD{PD: p}, d} }})
}

type destination struct {
	mu    sync.Mutex
	known bool
	first ci.AVAttr
}

type loyalPD struct {
	ciwrap.PD
	d *destination
}

func (p loyalPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if !p.d.known {
		p.d.known, p.d.first = true, a
	}
	if p.d.first != a {
		return nil, &ci.Error{Verb: "PD.CreateAV", Status: ci.InsufficientResources}
	}
	return p.PD.CreateAV(a)
}

// refusingPD is a PD that refuses QP0 or QP1.
type refusingPD struct {
	ciwrap.PD
	typ ci.QPType
}

func (p refusingPD) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	if c.Type == p.typ {
		return nil, &ci.Error{Verb: "PD.CreateSpecialQP", Status: ci.InsufficientResources}
	}
	return p.PD.CreateSpecialQP(port, c)
}

// agents are faults in what agents receive.
var agents = []mutant.Mutant{
	fault("mad.unclaimed-status", cmsuite.MADGSI09, "a response with status 0x0004 has status 0x000c",
		tap.MAD(func(b []byte) bool {
			if b[3]&0x80 != 0 && b[5] == 4 {
				b[5] = 12
			}
			return true
		})),
	fault("mad.forged-port", cmsuite.MADGSI10, "byte 201 of each datagram received by QP1 is zero",
		tap.MADIn(func(b []byte) { b[201] = 0 })),
	fault("mad.claims-oui", cmsuite.MADGSI11, "each datagram of vendor range 2 has an OUI that ends with 1",
		tap.MAD(func(b []byte) bool {
			if b[1] >= 0x30 && b[1] <= 0x4f {
				b[39] = 1
			}
			return true
		})),
	fault("mad.queue-order", cmsuite.MADGSI12, "each datagram has transaction ID 5", tap.MAD(func(b []byte) bool {
		if b[1] == 0x09 && b[3] == 3 {
			binary.BigEndian.PutUint64(b[tidOffset:], 5)
		}
		return true
	})),
	fault("mad.context-data", cmsuite.MADGSI13, "byte 249 of each response received is zero",
		tap.MADIn(func(b []byte) {
			if b[3]&0x80 != 0 {
				b[249] = 0
			}
		})),
}

// fixedCapability is a CA whose capability bits cannot be cleared.
type fixedCapability struct{ ciwrap.CA }

func (c fixedCapability) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	a.CapMask &= a.Capability
	return c.CA.Modify(port, set, a)
}
