package wiresuite

import (
	"encoding/binary"
	"slices"

	"ciddk/mad"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// sharedMutants are mutants of drivers that are visible on programs, too, with the case of sharedWithPrograms that
// catches each.
var sharedMutants = map[string]string{
	"wire.nak-psn": "wire.nak.gap", "wire.reserved-8": "wire.dup.goes-on", "wire.icrc": "wire.take.pad",
	"wire.pkey": "wire.nak.far",
}

// PeerMutants returns adapters with one fault each, under a server of rping. The faults are in its packets, as those of
// Mutants.
func PeerMutants() []mutant.Mutant {
	var list []mutant.Mutant
	for _, m := range Mutants() {
		if id := sharedMutants[m.Name]; id != "" {
			if m.Breaks != "WIRE-Nak-01" { // rules of form are charged together
				m.Breaks = ruleAnyForm
			}
			list = append(list, m.By(id))
		}
	}
	at := func(b []byte) []byte { return b[mad.HeaderLen:] }
	number := func(b []byte, n int) { // adds n to a word
		binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+uint32(n))
	}
	return append(list,
		fault("peer-coalesced", "WIRE-PeerAck-01", "the MSN stops at 5",
			leaving(acks, func(_ *view, o *outgoing) { o.AETH.MSN = min(o.AETH.MSN, 5) })),
		fault("peer-key", "WIRE-PeerNak-01", "a wrong key is answered with a NAK 0x61",
			leaving(syndrome(wire.NAKRemoteAccess), into(wire.NAKInvalidRequest))),
		fault("peer-rnr", "WIRE-PeerRnr-01", "RNR NAKs have the MSN of the next message",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome.IsRNRNAK() },
				func(_ *view, o *outgoing) { o.AETH.MSN++ })),
		fault("peer-ecn", "WIRE-PeerEcn-01", "requests with ECN mark CE are dropped",
			losing(func(_ *view, o *outgoing) bool { return o.class&3 == 3 })),
		fault("peer-again", ruleAgain, "a request that is sent again asks for other memory",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode.Request() && o.BTH.DestQP != gsi },
				func(v *view, o *outgoing) {
					if v.outCount[o.BTH.PSN] > 0 {
						o.RETH.VA += 4
					}
				})).By("peer.ask.timeout"),
		fault("peer-no-timer", "WIRE-PeerAsk-01", "requests are not sent again", tap{
			leaves: func(v *view, o *outgoing) action {
				if o.BTH.Opcode.Request() && o.BTH.DestQP != gsi && v.outCount[o.BTH.PSN] > 0 {
					return dropped
				}
				return asIs
			}}),
		fault("peer-no-rnr-timer", "WIRE-PeerAsk-03", "an RNR NAK is taken for a sequence error",
			entering(func(_ *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome.IsRNRNAK()
			}, into(wire.NAKPSNSequence))),
		fault("peer-not-fatal", "WIRE-PeerAsk-06", "NAKs of a remote access error are dropped",
			losing(func(_ *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome == wire.NAKRemoteAccess
			})),
		fault("peer-data", "WIRE-PeerAsk-07", "a byte of each READ response of one packet is changed",
			entering(op(wire.RCReadResponseFirst, wire.RCReadResponseOnly), func(_ *view, o *outgoing) {
				o.Payload = slices.Clone(o.Payload)
				o.Payload[3] ^= 1
			})),
		fault("peer-rep-id", "WIRE-PeerCm-01", "a REP has a transaction ID of its own",
			leaving(isMAD(mad.AttrREP), func(_ *view, o *outgoing) { o.Payload[15]++ })),
		fault("peer-req-again", "WIRE-PeerCm-02", "each REP has another QP",
			leaving(isMAD(mad.AttrREP), func(v *view, o *outgoing) {
				v.flag++
				number(at(o.Payload)[12:], v.flag<<8)
			})).By("peer.cm.req-again"),
		fault("peer-rep-once", "WIRE-PeerCm-03", "the REP is sent once", tap{
			leaves: func(v *view, o *outgoing) action {
				if !isMAD(mad.AttrREP)(o) {
					return asIs
				}
				if v.flag++; v.flag > 1 {
					return dropped
				}
				return asIs
			}}),
		fault("peer-rtu", "WIRE-PeerCm-04", "nothing is received before the RTU",
			losing(func(v *view, o *outgoing) bool {
				if isMAD(mad.AttrRTU)(o) {
					v.flag = 1
				}
				return v.flag == 0 && o.BTH.DestQP != gsi
			})),
		fault("peer-rej", "WIRE-PeerCm-05", "a service without a listener is rejected by the consumer",
			leaving(isMAD(mad.AttrREJ), func(_ *view, o *outgoing) {
				binary.BigEndian.PutUint16(at(o.Payload)[10:], uint16(mad.RejConsumer))
			})),
		fault("peer-drep", "WIRE-PeerCm-06", "a DREP has the communication ID of nobody",
			leaving(isMAD(mad.AttrDREP), func(_ *view, o *outgoing) { number(at(o.Payload), 1) })),
		fault("peer-mra", "WIRE-PeerCm-09", "MRAs are dropped",
			losing(func(_ *view, o *outgoing) bool { return isMAD(mad.AttrMRA)(o) })),
		fault("peer-vendor", "WIRE-PeerCm-10", "REQs with reserved bits are rejected",
			entering(func(_ *view, o *outgoing) bool { return isMAD(mad.AttrREQ)(o) && at(o.Payload)[4] != 0 },
				func(_ *view, o *outgoing) { number(at(o.Payload)[12:], 0x10000) })),
	)
}

// isMAD selects packets to QP1 by attribute.
func isMAD(attr uint16) func(*outgoing) bool {
	return func(o *outgoing) bool {
		return o.BTH.DestQP == gsi && len(o.Payload) == mad.Size && binary.BigEndian.Uint16(o.Payload[16:]) == attr
	}
}
