package wiresuite

import (
	"encoding/binary"
	"slices"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// Mutants returns drivers with one fault each at the wire (see tap). Each requirement of this suite is broken by at
// least one of them, on a link of the software adapter where the fault is visible.
func Mutants() []mutant.Mutant {
	return slices.Concat(formMutants(), orderMutants(), respondMutants(), nakMutants(), dupMutants(), dropMutants(),
		datagramMutants(), requestMutants(), reactMutants(), linkMutants(), ipMutants(), foreignMutants(),
		unansweredMutants(), unfitMutants(), changeMutants(), migrateMutants(), placeMutants())
}

// leaving returns a fault in the sent packets that match selects.
func leaving(match func(*outgoing) bool, f func(*view, *outgoing)) tap {
	return tap{leaves: func(v *view, o *outgoing) action {
		if !match(o) {
			return asIs
		}
		f(v, o)
		return changed
	}}
}

// entering returns a fault in the received packets that match selects.
func entering(match func(*view, *outgoing) bool, f func(*view, *outgoing)) tap {
	return tap{enters: func(v *view, o *outgoing, err error) action {
		if o == nil || err != nil || !match(v, o) {
			return asIs
		}
		f(v, o)
		return changed
	}}
}

// losing returns a fault that drops the received packets that match selects.
func losing(match func(*view, *outgoing) bool) tap {
	return tap{enters: func(v *view, o *outgoing, err error) action {
		if o == nil || err != nil || !match(v, o) {
			return asIs
		}
		return dropped
	}}
}

// is selects sent packets by opcode.
func is(ops ...wire.Opcode) func(*outgoing) bool {
	return func(o *outgoing) bool { return slices.Contains(ops, o.BTH.Opcode) }
}

// op selects received packets by opcode.
func op(ops ...wire.Opcode) func(*view, *outgoing) bool {
	return func(_ *view, o *outgoing) bool { return slices.Contains(ops, o.BTH.Opcode) }
}

// syndrome selects acknowledgements by syndrome.
func syndrome(s wire.Syndrome) func(*outgoing) bool {
	return func(o *outgoing) bool { return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome == s }
}

// acks selects acknowledgements with an ACK syndrome.
func acks(o *outgoing) bool { return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome.IsACK() }

// ackIn is acks for received packets.
func ackIn(_ *view, o *outgoing) bool { return acks(o) }

// setByte sets bits of a byte, counted from the start of the BTH.
func setByte(at int, bits byte) func(*view, *outgoing) {
	return func(_ *view, o *outgoing) { o.alter = func(b []byte) { b[at] |= bits } }
}

// into replaces the syndrome.
func into(s wire.Syndrome) func(*view, *outgoing) {
	return func(_ *view, o *outgoing) { o.AETH.Syndrome = s }
}

func formMutants() []mutant.Mutant {
	return []mutant.Mutant{
		fault("icrc", ruleICRC, "the ICRC of acknowledgements is off by one",
			leaving(acks, func(_ *view, o *outgoing) { o.icrcDelta = 1 })),
		fault("icrc-payload", ruleICRC, "the ICRC of padded SENDs of one packet does not cover the pad", leaving(
			func(o *outgoing) bool { return o.BTH.Opcode == wire.RCSendOnly && len(o.padding) > 0 },
			func(_ *view, o *outgoing) { o.icrcDelta = 0x10000 })),
		fault("tver", ruleTVer, "READ responses of one packet have TVer 1",
			leaving(is(wire.RCReadResponseOnly), setByte(1, 1))),
		fault("reserved-8", ruleReserved, "a reserved bit beside AckReq is set in acknowledgements",
			leaving(acks, setByte(8, 0x40))),
		fault("reserved-4", ruleReserved, "a reserved bit beside FECN is set in WRITEs of one packet",
			leaving(is(wire.RCWriteOnly), setByte(4, 0x01))),
		fault("pad-inside", rulePadCount, "a MIDDLE has a byte of pad",
			leaving(is(wire.RCSendMiddle), func(_ *view, o *outgoing) {
				one := uint8(1)
				o.Payload, o.pad = o.Payload[:len(o.Payload)-1], &one
			})),
		fault("pad-bytes", rulePadZero, "pad bytes hold old contents of the buffer",
			leaving(func(o *outgoing) bool { return len(o.padding) > 0 }, func(_ *view, o *outgoing) {
				o.padding = []byte{0, 0x5a, 0x5a}[3-len(o.padding):]
				o.padding[len(o.padding)-1] = 0x5a
			})),
		fault("pkey", rulePKey, "acknowledgements have a P_Key without the membership bit",
			leaving(acks, func(_ *view, o *outgoing) { o.BTH.PKey &= 0x7fff })),
		fault("ack-payload", ruleOpcode, "acknowledgements carry four bytes of payload",
			leaving(acks, func(_ *view, o *outgoing) { o.with(make([]byte, 4)) })),
		fault("dest-qp", ruleOpcode, "READ responses go to another QP number",
			leaving(is(wire.RCReadResponseOnly), func(_ *view, o *outgoing) { o.BTH.DestQP += 0x155555 })),
		fault("udp-length", ruleUDP, "the UDP length does not include the ICRC",
			leaving(acks, func(_ *view, o *outgoing) {
				o.whole = func(b []byte) { binary.BigEndian.PutUint16(udpOf(b)[4:], uint16(len(udpOf(b))-icrcLen)) }
			})),
		fault("udp-port", ruleUDP, "acknowledgements go to the UDP port of RoCEv2 plus one",
			leaving(acks, func(_ *view, o *outgoing) {
				o.whole = func(b []byte) { udpOf(b)[3]++ }
			})),
		fault("source-port", ruleSport, "the UDP source port depends on the PSN",
			leaving(func(o *outgoing) bool { return true }, func(_ *view, o *outgoing) {
				o.sport = 0xc000 | uint16(o.BTH.PSN&7)
			})),
		fault("syndrome", ruleSyndrome, "bit 7 of ACK syndromes is set",
			leaving(acks, func(_ *view, o *outgoing) { o.AETH.Syndrome |= 0x80 })),
		fault("syndrome-read", ruleSyndrome, "READ responses of one packet have an RNR NAK syndrome",
			leaving(is(wire.RCReadResponseOnly), into(wire.RNRNAK(0)))),
		fault("form-of-naks", ruleAnyForm, "NAKs of invalid requests have a reserved bit set",
			leaving(syndrome(wire.NAKInvalidRequest), setByte(8, 0x01))),
	}
}

func orderMutants() []mutant.Mutant {
	return []mutant.Mutant{
		fault("order", ruleOrder, "the last packet of a SEND has opcode MIDDLE",
			leaving(is(wire.RCSendLast), func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCSendMiddle })),
		fault("psn-skips", rulePSN, "a SEND with immediate data of one packet has a PSN that is one too large",
			leaving(is(wire.RCSendOnlyImm), func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, 1) })),
		fault("again-payload", ruleAgain, "the first byte of a retransmitted packet is changed", sentAgain()),
		fault("not-full", ruleFull, "the FIRST of a SEND is four bytes too short",
			leaving(is(wire.RCSendFirst), func(_ *view, o *outgoing) { o.with(o.Payload[:len(o.Payload)-4]) })),
		fault("total", ruleTotal, "the RETH of a WRITE of several packets has the length of its first packet",
			leaving(is(wire.RCWriteFirst), func(_ *view, o *outgoing) {
				o.RETH.DMALen = uint32(len(o.Payload))
			})),
		fault("depth", ruleDepth, "one READ more than the initiator depth is outstanding",
			tap{modify: func(set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldInitDepth != 0 {
					a.InitDepth++
				}
			}}),
		fault("answers-ahead", ruleAnswer, "an ACK has the next expected PSN",
			leaving(acks, func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, 1) })),
		fault("read-order", ruleRead, "the MIDDLE of a READ response has opcode FIRST",
			leaving(is(wire.RCReadResponseMiddle),
				func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCReadResponseFirst })),
		fault("msn-stuck", ruleMSN, "the MSN is always 0",
			leaving(acks, func(_ *view, o *outgoing) { o.AETH.MSN = 0 })),
	}
}

// sentAgain changes retransmitted SENDs and WRITEs.
func sentAgain() tap {
	return leaving(func(o *outgoing) bool { return len(o.Payload) > 0 && o.BTH.Opcode.Request() },
		func(v *view, o *outgoing) {
			if v.outCount[o.BTH.PSN] > 0 {
				o.Payload = slices.Clone(o.Payload)
				o.Payload[0] ^= 0x5a
			}
		})
}

func respondMutants() []mutant.Mutant {
	high := func(o *outgoing) bool { return acks(o) && o.BTH.PSN < 16 }
	flip := func(_ *view, o *outgoing) {
		o.Payload = slices.Clone(o.Payload)
		slices.Reverse(o.Payload)
	}
	return []mutant.Mutant{
		fault("ack-before", "WIRE-Ack-01", "an ACK has the PSN before that of its message",
			leaving(acks, func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -1) })),
		fault("ack-each", "WIRE-Ack-01", "each packet of a WRITE is acknowledged",
			entering(op(wire.RCWriteFirst, wire.RCWriteMiddle), func(_ *view, o *outgoing) { o.BTH.AckReq = true })),
		fault("ack-inside", "WIRE-Ack-02", "AckReq in the middle of a message is ignored",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.Opcode.Request() && !o.BTH.Opcode.End() },
				func(_ *view, o *outgoing) { o.BTH.AckReq = false })),
		fault("msn-reads", "WIRE-Ack-03", "a READ does not count as a message in the MSN",
			leaving(is(wire.RCReadResponseFirst, wire.RCReadResponseLast),
				func(_ *view, o *outgoing) { o.AETH.MSN-- })),
		fault("msn-inside", "WIRE-Ack-03", "the MSN counts a message when it begins",
			leaving(acks, func(v *view, o *outgoing) {
				if v.inside {
					o.AETH.MSN++
				}
			})),
		fault("msn-carry", "WIRE-Ack-03", "the MSN has 16 bits",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode.HasAETH() },
				func(_ *view, o *outgoing) { o.AETH.MSN &= 0xffff })).By("wire.ack.msn-carry"),
		needing(ci.CapSRQ,
			fault("srq-credits", "WIRE-Ack-04", "ACKs grant three credits", leaving(acks, into(wire.ACK(3))))),
		fault("ack-wrap", "WIRE-Ack-05", "PSNs after 0xffffff have bit 23 set",
			leaving(high, func(_ *view, o *outgoing) { o.BTH.PSN |= 1 << 23 })),
		fault("send-reversed", "WIRE-Send-01", "the payload of a SEND MIDDLE is written in reverse",
			entering(op(wire.RCSendMiddle), flip)),
		fault("send-no-immediate", "WIRE-Send-01", "the immediate data of a SEND LAST are lost",
			entering(op(wire.RCSendLastImm), func(_ *view, o *outgoing) { o.ImmDt.Imm = 0 })),
		fault("write-reversed", "WIRE-Write-01", "the payload of a WRITE LAST is written in reverse",
			entering(op(wire.RCWriteLast), flip)),
		fault("write-immediate", "WIRE-Write-02", "the immediate data of a WRITE have the wrong byte order",
			entering(op(wire.RCWriteOnlyImm, wire.RCWriteLastImm), func(_ *view, o *outgoing) {
				o.ImmDt.Imm = binary.LittleEndian.Uint32(binary.BigEndian.AppendUint32(nil, o.ImmDt.Imm))
			})),
		fault("read-last", "WIRE-Read-01", "the last packet of a READ response has opcode MIDDLE and no AETH",
			leaving(is(wire.RCReadResponseLast), func(_ *view, o *outgoing) {
				o.BTH.Opcode = wire.RCReadResponseMiddle
			})),
		fault("read-psn", "WIRE-Read-01",
			"the second and later packets of a READ response have the PSN of the packet before",
			leaving(is(wire.RCReadResponseMiddle, wire.RCReadResponseLast), func(v *view, o *outgoing) {
				o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -1)
			})),
		fault("read-empty", "WIRE-Read-02", "a READ of no bytes is rejected for its key",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode == wire.RCReadResponseOnly && len(o.Payload) == 0 },
				func(_ *view, o *outgoing) {
					o.BTH.Opcode, o.AETH.Syndrome = wire.RCAcknowledge, wire.NAKRemoteAccess
				})),
		fault("atomic-after", "WIRE-Atomic-01", "an atomic is answered with a value that is not the original one",
			leaving(is(wire.RCAtomicAcknowledge), func(_ *view, o *outgoing) { o.AtomicAckETH.Orig += 2 })),
		fault("atomic-swapped", "WIRE-Atomic-01", "the swap and compare values are exchanged",
			entering(op(wire.RCCompareSwap), func(_ *view, o *outgoing) {
				o.AtomicETH.SwapAdd, o.AtomicETH.Compare = o.AtomicETH.Compare, o.AtomicETH.SwapAdd
			})),
	}
}

// isAhead reports whether a packet is a request beyond the expected PSN.
func isAhead(v *view, o *outgoing) bool {
	return o.BTH.Opcode.Request() && o.BTH.Opcode.Service() == wire.RC && wire.PSNDiff(o.BTH.PSN, v.due) > 0
}

func nakMutants() []mutant.Mutant {
	const (
		seq, inv = wire.NAKPSNSequence, wire.NAKInvalidRequest
		acc, opr = wire.NAKRemoteAccess, wire.NAKRemoteOperation
	)
	rnr := func(o *outgoing) bool { return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome.IsRNRNAK() }
	plusOne := func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, 1) }
	return []mutant.Mutant{
		fault("nak-psn", "WIRE-Nak-01", "a NAK 0x60 has the PSN of the request and not the expected one",
			leaving(syndrome(seq), plusOne)),
		fault("nak-msn", "WIRE-Nak-01", "the MSN of a NAK 0x60 counts the missing message",
			leaving(syndrome(seq), func(_ *view, o *outgoing) { o.AETH.MSN++ })),
		fault("nak-each", "WIRE-Nak-02", "each request after a gap gets a NAK", tap{
			enters: func(v *view, o *outgoing, err error) action {
				if err == nil && isAhead(v, o) {
					if v.flag++; v.flag > 1 {
						v.inject(v.answer(o, wire.RCAcknowledge, v.due, wire.AETH{Syndrome: seq}))
					}
				}
				return asIs
			}}),
		fault("nak-first-gap", "WIRE-Nak-03", "only the first gap of a connection gets a NAK",
			tap{leaves: func(v *view, o *outgoing) action {
				if syndrome(seq)(o) {
					if v.flag++; v.flag > 1 {
						return dropped
					}
				}
				return asIs
			}}),
		fault("nak-executed", "WIRE-Nak-04", "a WRITE after a gap is executed", tap{
			enters: func(v *view, o *outgoing, err error) action {
				if err != nil || !isAhead(v, o) || o.BTH.Opcode != wire.RCWriteOnly {
					return asIs
				}
				o.BTH.PSN = v.due
				v.flag = 1
				return changed
			},
			leaves: func(v *view, o *outgoing) action {
				if v.flag == 0 {
					return asIs
				}
				v.flag = 0
				o.AETH = wire.AETH{Syndrome: seq, MSN: o.AETH.MSN - 1}
				return changed
			}}),
		fault("nak-sequence", "WIRE-Nak-05", "a LAST without a FIRST is executed as a message",
			entering(func(v *view, o *outgoing) bool { return o.BTH.Opcode == wire.RCSendLast && !v.inside },
				func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCSendOnly })),
		fault("nak-mixed", "WIRE-Nak-05", "a WRITE MIDDLE continues a SEND",
			entering(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCWriteMiddle && len(v.inCount) == 1
			},
				func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCSendMiddle })),
		fault("nak-short", "WIRE-Nak-06", "a FIRST that is too short is padded to the MTU",
			entering(func(_ *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCSendFirst && len(o.Payload)%256 == 252
			}, func(_ *view, o *outgoing) { o.with(append(slices.Clone(o.Payload), 0, 0, 0, 0)) })),
		fault("nak-rest", "WIRE-Nak-06", "a WRITE shorter than the length in its RETH is accepted",
			entering(func(_ *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCWriteOnly && uint32(len(o.Payload)) < o.RETH.DMALen
			}, func(_ *view, o *outgoing) { o.RETH.DMALen = uint32(len(o.Payload)) })),
		fault("nak-access", "WIRE-Nak-07", "a request without access rights gets a NAK 0x61",
			leaving(syndrome(acc), into(inv))),
		fault("nak-qp-right", "WIRE-Nak-15", "a request that the QP does not grant gets a NAK 0x62",
			leaving(syndrome(inv), into(acc))),
		fault("nak-qp-right-granted", "WIRE-Nak-15", "a QP that grants remote read also grants remote write",
			tap{modify: func(set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAccess != 0 && a.Access&ci.RemoteRead != 0 {
					a.Access |= ci.RemoteWrite
				}
			}}),
		fault("nak-access-told", "WIRE-Nak-07", "a WRITE that ends after the region is cut",
			entering(func(_ *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCWriteOnly && o.RETH.VA%4096 == 4092 && len(o.Payload) == 8 ||
					o.RETH.VA&0xfff == 0xffc
			}, func(_ *view, o *outgoing) {
				o.with(o.Payload[:min(4, len(o.Payload))])
				o.RETH.DMALen = 4
			})),
		fault("nak-too-long", "WIRE-Nak-08", "a SEND longer than the receive gets a NAK 0x63, as on Linux",
			leaving(syndrome(inv), into(opr))),
		fault("nak-operation", "WIRE-Nak-09", "a receive with an invalid key causes a NAK 0x62",
			leaving(syndrome(opr), into(acc))),
		fault("nak-atomic", "WIRE-Nak-10", "a misaligned atomic gets a NAK 0x63", leaving(syndrome(inv), into(opr))),
		fault("nak-again", "WIRE-Nak-11", "a QP in Error continues to send NAKs", tap{
			leaves: func(v *view, o *outgoing) action {
				if syndrome(acc)(o) {
					v.last = o
				}
				return asIs
			},
			enters: func(v *view, o *outgoing, err error) action {
				if v.last != nil {
					v.inject(v.last)
				}
				return asIs
			}}),
		fault("nak-reserved", "WIRE-Nak-12", "a reserved opcode is executed as a WRITE of no bytes",
			tap{enters: func(_ *view, o *outgoing, err error) action {
				if o == nil || err == nil || byte(o.BTH.Opcode) != reservedOps[0] {
					return asIs
				}
				o.BTH.Opcode, o.BTH.AckReq = wire.RCWriteOnly, true
				return changed
			}}),
		fault("nak-no-resources", "WIRE-Nak-13", "a QP without responder resources gets one",
			tap{modify: func(set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldRespRes != 0 {
					a.RespRes = max(a.RespRes, 1)
				}
			}}),
		fault("nak-resources", "WIRE-Nak-14", "READs beyond the responder resources are dropped",
			losing(func(v *view, o *outgoing) bool {
				if o.BTH.Opcode == wire.RCReadRequest {
					v.flag++
				}
				return v.flag > 2
			})),
		fault("rnr-psn", "WIRE-Rnr-01", "an RNR NAK has the PSN after that of the refused SEND", leaving(rnr, plusOne)),
		fault("rnr-timer", "WIRE-Rnr-01", "RNR NAKs always have timer code 1", leaving(rnr, into(wire.RNRNAK(1)))),
		fault("rnr-overtaken", "WIRE-Rnr-02", "a SEND after a refused one is executed first", tap{
			leaves: func(v *view, o *outgoing) action {
				if rnr(o) {
					v.due, v.flag = o.BTH.PSN, 1
				} else if v.flag == 2 {
					v.flag = 0
					return dropped
				}
				return asIs
			},
			enters: func(v *view, o *outgoing, err error) action {
				follows := err == nil && o.BTH.Opcode == wire.RCSendOnly && wire.PSNDiff(o.BTH.PSN, v.due) == 1
				if v.flag == 1 && follows {
					v.flag = 2
					o.BTH.PSN = v.due
					return changed
				}
				return asIs
			}}),
		fault("rnr-write", "WIRE-Rnr-03", "an RNR NAK of a WRITE has the PSN of its first packet",
			leaving(rnr, func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -1) })),
	}
}

// isDuplicate reports whether a request with this PSN has arrived before.
func isDuplicate(v *view, o *outgoing) bool { return v.inCount[o.BTH.PSN] > 0 }

// executeAgain makes the adapter execute a duplicate request as a new one: it shifts the PSNs that the adapter sees,
// and shifts them back in the answers. hide does this for the MSNs too. Of swaps, it has those executed again that have
// swapped nothing.
func executeAgain(hide bool, ops ...wire.Opcode) tap {
	return tap{
		enters: func(v *view, o *outgoing, err error) action {
			if err != nil || v == v.none || !o.BTH.Opcode.Request() {
				return asIs
			}
			hasSwapped := o.BTH.Opcode == wire.RCCompareSwap && v.orig[o.BTH.PSN] == o.AtomicETH.Compare
			if isDuplicate(v, o) && !hasSwapped && slices.Contains(ops, o.BTH.Opcode) {
				v.shift++
				o.BTH.PSN = wire.PSNAdd(v.due, v.shift-1)
				return changed
			}
			o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, v.shift)
			return changed
		},
		leaves: func(v *view, o *outgoing) action {
			if !o.BTH.Opcode.Response() {
				return asIs
			}
			o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -v.shift)
			if hide {
				o.AETH.MSN -= uint32(v.shift)
			}
			if was, ok := v.orig[o.BTH.PSN]; ok {
				o.AtomicAckETH.Orig = was
			}
			v.orig[o.BTH.PSN] = o.AtomicAckETH.Orig
			return changed
		}}
}

func dupMutants() []mutant.Mutant {
	duplicateOf := func(ops ...wire.Opcode) func(*view, *outgoing) bool {
		return func(v *view, o *outgoing) bool { return slices.Contains(ops, o.BTH.Opcode) && isDuplicate(v, o) }
	}
	return []mutant.Mutant{
		fault("dup-silent", "WIRE-Dup-01", "a duplicate SEND is dropped", losing(duplicateOf(wire.RCSendOnly))),
		fault("dup-send-twice", "WIRE-Dup-02", "a duplicate SEND uses another receive",
			executeAgain(true, wire.RCSendOnly)),
		fault("dup-write-twice", "WIRE-Dup-02", "a duplicate WRITE writes again", executeAgain(true, wire.RCWriteOnly)),
		fault("dup-read-silent", "WIRE-Dup-03", "a duplicate READ is dropped", losing(duplicateOf(wire.RCReadRequest))),
		fault("dup-read-whole", "WIRE-Dup-04", "a duplicate READ is answered only if it covers the whole first READ",
			losing(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCReadRequest && !isDuplicate(v, o) && wire.PSNDiff(o.BTH.PSN, v.due) < 0
			})),
		fault("dup-read-wrap", "WIRE-Dup-04", "a duplicate READ from a PSN after the wrap on is not answered",
			losing(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCReadRequest && o.BTH.PSN < v.due && v.due < 8
			})),
		fault("dup-atomic-now", "WIRE-Dup-05", "a duplicate atomic is answered with the current value of the memory",
			tap{leaves: func(v *view, o *outgoing) action {
				if o.BTH.Opcode != wire.RCAtomicAcknowledge {
					return asIs
				}
				if v.orig[o.BTH.PSN]++; v.orig[o.BTH.PSN] == 1 {
					return asIs
				}
				o.AtomicAckETH.Orig = 115
				return changed
			}}),
		fault("dup-atomic-twice", "WIRE-Dup-06", "a duplicate atomic is executed again",
			executeAgain(false, wire.RCFetchAdd)),
		fault("dup-swap-twice", "WIRE-Dup-06", "a duplicate of a swap that has swapped nothing is executed again",
			executeAgain(false, wire.RCCompareSwap)),
		fault("dup-counts", "WIRE-Dup-07", "a duplicate WRITE counts again", executeAgain(false, wire.RCWriteOnly)),
	}
}

func dropMutants() []mutant.Mutant {
	all := func(*view, *outgoing) bool { return true }
	same := func(*view, *outgoing) {}
	bits := func(at int, mask byte) func(*view, *outgoing) bool {
		return func(_ *view, o *outgoing) bool {
			var h [bthLen]byte
			o.BTH.Put(h[:])
			return h[at]&mask != 0
		}
	}
	padded := func(_ *view, o *outgoing) bool {
		return slices.ContainsFunc(o.padding, func(b byte) bool { return b != 0 })
	}
	return []mutant.Mutant{
		fault("takes-bad-icrc", "WIRE-Drop-01", "the ICRC is ignored", entering(all, same)),
		fault("takes-pkey", "WIRE-Drop-02", "packets of any partition are accepted",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.PKey != 0xffff },
				func(_ *view, o *outgoing) { o.BTH.PKey = 0xffff })),
		fault("takes-qpn", "WIRE-Drop-03", "packets to QP numbers that are not in use go to another QP",
			entering(func(v *view, _ *outgoing) bool { return v == v.none },
				func(v *view, o *outgoing) {
					for n := range v.qps {
						o.BTH.DestQP = n
					}
				})),
		fault("takes-source", "WIRE-Drop-04", "the source address is ignored",
			entering(func(v *view, o *outgoing) bool { return v.end != nil && o.src != v.end.info.GID },
				func(v *view, o *outgoing) { o.src = v.end.info.GID })),
		fault("takes-tver", "WIRE-Drop-05", "the transport version is ignored",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.TVer != 0 },
				func(_ *view, o *outgoing) { o.BTH.TVer = 0 })),
		fault("takes-service", "WIRE-Drop-06", "opcodes of UC are executed as those of RC",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.Opcode.Service() == wire.UC },
				func(_ *view, o *outgoing) { o.BTH.Opcode &= 0x1f })),
		fault("answers-short", "WIRE-Drop-07", "a packet that is too short for its headers gets a NAK 0x61",
			tap{enters: func(v *view, o *outgoing, err error) action {
				isBadWrite := o != nil && err != nil && o.BTH.Opcode == wire.RCWriteOnly
				if isBadWrite && v != v.none && o.BTH.TVer == 0 {
					v.inject(v.answer(o, wire.RCAcknowledge, o.BTH.PSN, wire.AETH{Syndrome: wire.NAKInvalidRequest}))
				}
				return asIs
			}}),
		fault("takes-pad", "WIRE-Drop-08", "a pad count larger than the payload is treated as 0",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if o == nil || err == nil || o.BTH.Opcode != wire.RCSendOnly {
					return asIs
				}
				return changed
			}}),
		fault("takes-early", "WIRE-Drop-09", "a request to a QP in Init waits until the QP is connected",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if err != nil || v.state != ci.QPInit {
					return asIs
				}
				v.held = append(v.held, o)
				return dropped
			}}),
		fault("cnp-answered", "WIRE-Drop-10", "a congestion notification packet is answered with an ACK",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if err == nil && o.BTH.Opcode == wire.CNP {
					v.inject(v.answer(o, wire.RCAcknowledge, v.due, wire.AETH{Syndrome: wire.ACK(wire.CreditsInvalid)}))
				}
				return asIs
			}}),
		fault("drops-marked", "WIRE-Take-01", "packets with FECN or BECN are dropped", losing(bits(4, 0xc0))),
		fault("drops-reserved", "WIRE-Take-02", "packets with reserved bits set are dropped", losing(bits(8, 0x7f))),
		fault("drops-source-port", "WIRE-Take-03", "packets from a UDP port other than RoCEv2's are dropped",
			losing(func(v *view, o *outgoing) bool {
				return v.end != nil && o.sport != v.end.info.UDPPort
			})),
		fault("drops-pad", "WIRE-Take-04", "packets with nonzero pad bytes are dropped", losing(padded)),
		fault("places-pad", "WIRE-Take-04", "pad bytes are written to memory",
			entering(func(v *view, o *outgoing) bool { return padded(v, o) && o.BTH.Opcode == wire.RCWriteOnly },
				func(_ *view, o *outgoing) {
					o.RETH.DMALen += uint32(len(o.padding))
					o.with(slices.Concat(o.Payload, o.padding))
				})),
		fault("drops-limited", "WIRE-Take-05", "the comparison of P_Keys includes the membership bit",
			losing(func(_ *view, o *outgoing) bool { return o.BTH.PKey == 0x7fff })),
	}
}

func datagramMutants() []mutant.Mutant {
	ud := func(_ *view, o *outgoing) bool { return o.BTH.Opcode.Service() == wire.UD }
	udOut := func(o *outgoing) bool { return o.BTH.Opcode.Service() == wire.UD }
	uc := func(_ *view, o *outgoing) bool { return o.BTH.Opcode.Service() == wire.UC }
	list := []mutant.Mutant{
		fault("ud-source", "WIRE-Ud-01", "the source QP of datagrams is off by one",
			entering(ud, func(_ *view, o *outgoing) { o.DETH.SrcQP++ })),
		fault("ud-header", "WIRE-Ud-02", "the header before a datagram has another source",
			entering(ud, func(v *view, o *outgoing) { o.src = v.end.info.Other })),
		fault("ud-qkey", "WIRE-Ud-03", "the Q_Key is ignored",
			entering(ud, func(v *view, o *outgoing) { o.DETH.QKey = v.qkey })),
		fault("ud-deth", "WIRE-Ud-04", "datagrams have no source QP",
			leaving(udOut, func(_ *view, o *outgoing) { o.DETH.SrcQP = 0 })),
		fault("ud-psn", "WIRE-Ud-05", "datagrams have PSN 0",
			leaving(udOut, func(_ *view, o *outgoing) { o.BTH.PSN = 0 })),
		fault("ud-order", "WIRE-Ud-06", "datagrams out of order are dropped", losing(func(v *view, o *outgoing) bool {
			out := udOut(o) && v.flag > 0 && o.BTH.PSN != wire.PSNAdd(v.first, 1)
			v.flag, v.first = 1, o.BTH.PSN
			return out
		})),
		fault("ud-pkey", "WIRE-Ud-07", "datagrams of any partition are accepted",
			entering(ud, func(_ *view, o *outgoing) { o.BTH.PKey = 0xffff })),
		fault("uc-answers", "WIRE-Uc-01", "a UC QP acknowledges packets with AckReq",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if err == nil && uc(v, o) && o.BTH.AckReq {
					v.inject(v.answer(o, wire.RCAcknowledge, o.BTH.PSN,
						wire.AETH{Syndrome: wire.ACK(wire.CreditsInvalid)}))
				}
				return asIs
			}}),
		fault("uc-rest", "WIRE-Uc-02", "the LAST of a UC message whose FIRST was lost is executed as a message",
			entering(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.UCSendLast && len(v.inCount) == 1
			}, func(_ *view, o *outgoing) { o.BTH.Opcode = wire.UCSendOnly })),
		fault("uc-order", "WIRE-Uc-03", "UC messages beyond the expected PSN are dropped",
			losing(func(v *view, o *outgoing) bool { return uc(v, o) && o.BTH.PSN != v.due })),
		fault("uc-reth", "WIRE-Uc-04", "the RETH of a UC WRITE has the length of its first packet",
			leaving(is(wire.UCWriteFirst), func(_ *view, o *outgoing) { o.RETH.DMALen = uint32(len(o.Payload)) })),
		fault("uc-nak", "WIRE-Uc-05", "a UC WRITE with a wrong key gets a NAK",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if err == nil && o.BTH.Opcode == wire.UCWriteOnly && o.RETH.RKey == 0xffffff01 {
					v.inject(v.answer(o, wire.RCAcknowledge, o.BTH.PSN, wire.AETH{Syndrome: wire.NAKRemoteAccess}))
				}
				return asIs
			}}),
	}
	for i := range list {
		caps := ci.CapUD | ci.CapAV
		if list[i].Name[:len("wire.uc")] == "wire.uc" {
			caps = ci.CapUC
		}
		list[i] = needing(caps, list[i])
	}
	return list
}

func requestMutants() []mutant.Mutant {
	last := is(wire.RCSendLast, wire.RCSendOnly, wire.RCWriteLast, wire.RCWriteOnly)
	swapped := func(v uint32) uint32 { return binary.LittleEndian.Uint32(binary.BigEndian.AppendUint32(nil, v)) }
	return []mutant.Mutant{
		fault("request-empty-last", "WIRE-Req-01", "a SEND of one full packet is sent as FIRST and an empty LAST",
			leaving(func(o *outgoing) bool {
				return o.BTH.Opcode == wire.RCSendOnly && len(o.Payload) >= 256 && len(o.Payload)%256 == 0
			}, func(v *view, o *outgoing) {
				end := *o
				o.BTH.Opcode, o.BTH.AckReq = wire.RCSendFirst, false
				end.BTH.Opcode, end.BTH.PSN = wire.RCSendLast, wire.PSNAdd(o.BTH.PSN, 1)
				end.with(nil)
				v.inject(&end)
			})),
		fault("request-reth", "WIRE-Req-02",
			"the RETH of a WRITE of several packets has the length of its first packet",
			leaving(is(wire.RCWriteFirst), func(_ *view, o *outgoing) {
				o.RETH.DMALen = uint32(len(o.Payload))
			})),
		fault("request-read", "WIRE-Req-03", "a READ requests a multiple of four bytes",
			leaving(is(wire.RCReadRequest), func(_ *view, o *outgoing) { o.RETH.DMALen = (o.RETH.DMALen + 3) &^ 3 })),
		fault("request-atomic", "WIRE-Req-04", "the swap and compare values are exchanged",
			leaving(is(wire.RCCompareSwap), func(_ *view, o *outgoing) {
				o.AtomicETH.SwapAdd, o.AtomicETH.Compare = o.AtomicETH.Compare, o.AtomicETH.SwapAdd
			})),
		fault("request-immediate", "WIRE-Req-05", "immediate data are sent in the wrong byte order",
			leaving(is(wire.RCSendOnlyImm, wire.RCSendLastImm, wire.RCWriteOnlyImm, wire.RCWriteLastImm),
				func(_ *view, o *outgoing) { o.ImmDt.Imm = swapped(o.ImmDt.Imm) })),
		needing(ci.CapSendInvalidate,
			fault("request-invalidate", "WIRE-Req-06", "the key to invalidate is sent in the wrong byte order",
				leaving(is(wire.RCSendOnlyInv, wire.RCSendLastInv),
					func(_ *view, o *outgoing) { o.IETH.RKey = swapped(o.IETH.RKey) }))),
		fault("request-solicited", "WIRE-Req-07", "each packet of a message has the solicited event bit",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode.Request() },
				func(_ *view, o *outgoing) { o.BTH.SE = true })),
		fault("request-ackreq", "WIRE-Req-08", "messages of one packet do not request an acknowledgement",
			leaving(is(wire.RCSendOnly), func(_ *view, o *outgoing) { o.BTH.AckReq = false })),
		fault("request-psn", "WIRE-Req-09", "the PSN of the last packet of a message is one too large",
			leaving(last, func(v *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, 1) })),
		fault("request-wrap", "WIRE-Req-10", "PSNs after 0xffffff have bit 23 set",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode.Request() && o.BTH.PSN < 16 },
				func(_ *view, o *outgoing) { o.BTH.PSN |= 1 << 23 })),
	}
}

// doubleNAK drops the last retransmission of a request that got a NAK of a sequence error.
func doubleNAK() tap {
	var retries int
	t := entering(func(_ *view, o *outgoing) bool { return syndrome(wire.NAKPSNSequence)(o) },
		func(v *view, o *outgoing) { v.flag = retries })
	t.modify = func(set ci.QPField, a *ci.QPAttr) {
		if set&ci.QPFieldRetryCount != 0 {
			retries = int(a.RetryCount)
		}
	}
	t.leaves = func(v *view, o *outgoing) action {
		if o.BTH.Opcode.Request() && v.flag > 0 && v.outCount[o.BTH.PSN] >= v.flag {
			return dropped
		}
		return asIs
	}
	return t
}

func reactMutants() []mutant.Mutant {
	is60 := func(_ *view, o *outgoing) bool { return syndrome(wire.NAKPSNSequence)(o) }
	naks := func(v *view, o *outgoing) bool {
		return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome.IsNAK() && wire.PSNDiff(o.BTH.PSN, v.newest) < 0
	}
	retry := func(f func(*ci.QPAttr)) tap {
		return tap{modify: func(set ci.QPField, a *ci.QPAttr) {
			if set&ci.QPFieldRetryCount != 0 {
				f(a)
			}
		}}
	}
	return []mutant.Mutant{
		fault("react-one", "WIRE-React-01", "an ACK completes only the messages before its own",
			entering(ackIn, func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -1) })),
		fault("react-unsent", "WIRE-React-02", "an ACK of an unused PSN completes everything",
			entering(func(v *view, o *outgoing) bool { return acks(o) && wire.PSNDiff(o.BTH.PSN, v.newest) > 0 },
				func(v *view, o *outgoing) { o.BTH.PSN = v.newest })),
		fault("react-old", "WIRE-React-03", "a NAK of an acknowledged PSN counts for the newest one",
			entering(naks, func(v *view, o *outgoing) { o.BTH.PSN = v.newest })),
		fault("react-sequence", "WIRE-React-04", "after a NAK 0x60 the requester resumes one packet too early",
			entering(is60, func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -1) })),
		fault("react-rnr-early", "WIRE-React-05", "the timer code of RNR NAKs is ignored",
			entering(func(_ *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome.IsRNRNAK()
			},
				into(wire.RNRNAK(1)))),
		fault("react-rnr-count", "WIRE-React-06", "the requester makes one RNR retry too many",
			tap{modify: func(set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldRNRRetry != 0 && a.RNRRetry < 6 {
					a.RNRRetry++
				}
			}}),
		fault("react-fatal", "WIRE-React-07", "a NAK 0x62 is treated as a NAK 0x61",
			entering(func(_ *view, o *outgoing) bool { return syndrome(wire.NAKRemoteAccess)(o) },
				into(wire.NAKInvalidRequest))),
		fault("react-implied", "WIRE-React-08", "an ACK beyond an unanswered READ is dropped",
			losing(func(v *view, o *outgoing) bool {
				return acks(o) && v.reth != (wire.RETH{}) && wire.PSNDiff(o.BTH.PSN, v.first) > 0
			})),
		fault("react-read-rest", "WIRE-React-09", "the rest of a READ is requested from the first address of the READ",
			leaving(is(wire.RCReadRequest), func(v *view, o *outgoing) {
				isNew := wire.PSNDiff(o.BTH.PSN, v.newest) > 0
				isPart := v.reth.RKey == o.RETH.RKey && v.reth.VA != o.RETH.VA
				if o.BTH.PSN != v.first && (isNew && isPart || v.outCount[v.first] > 0) {
					o.RETH.VA = v.reth.VA
				}
			})),
		fault("react-read-length", "WIRE-React-10", "a READ response that is too short is filled with zeros",
			entering(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCReadResponseOnly && uint32(len(o.Payload)) < v.reth.DMALen &&
					v.reth.DMALen < 256
			}, func(v *view, o *outgoing) {
				o.with(append(slices.Clone(o.Payload), make([]byte, int(v.reth.DMALen)-len(o.Payload))...))
			})),
		fault("react-retry-count", "WIRE-React-11", "the requester makes one transport retry too many",
			retry(func(a *ci.QPAttr) { a.RetryCount = min(a.RetryCount+1, 7) })),
		fault("react-nak-double", "WIRE-React-11", "a NAK of a sequence error costs two retries", doubleNAK()),
		fault("react-wrap", "WIRE-React-14", "PSNs of a retransmitted message are off by one beyond 0xffffff",
			leaving(func(o *outgoing) bool { return o.BTH.Opcode.Request() }, func(v *view, o *outgoing) {
				if v.outCount[o.BTH.PSN] > 0 && o.BTH.PSN < 8 {
					o.BTH.PSN++
				}
			})),
		fault("react-early", "WIRE-React-12", "the local ACK timeout is an eighth of the set value",
			retry(func(a *ci.QPAttr) { a.Primary.AckTimeout = max(a.Primary.AckTimeout-3, 1) })),
		fault("react-bad-icrc", "WIRE-React-13", "the ICRC of responses is ignored",
			entering(ackIn, func(*view, *outgoing) {})),
		fault("react-again", "WIRE-React-14", "the first byte of a retransmitted packet is changed", sentAgain()),
		fault("react-kind-drop", "WIRE-React-16", "a READ response is dropped if there is no READ",
			losing(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCReadResponseOnly && v.reth == (wire.RETH{})
			})),
		fault("react-kind-ack", "WIRE-React-16", "an ATOMIC acknowledge is taken for the acknowledgement of a WRITE",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if o == nil || err != nil || o.BTH.Opcode != wire.RCAtomicAcknowledge {
					return asIs
				}
				o.BTH.Opcode = wire.RCAcknowledge
				return changed
			}}),
		fault("react-refreshed-inside", "WIRE-React-15",
			"a NAK that acknowledges a part of a message uses the last retry",
			entering(func(v *view, o *outgoing) bool {
				isNAK := syndrome(wire.NAKPSNSequence)(o)
				if isNAK {
					v.flag++
				} else if acks(o) {
					v.flag = 0
				}
				return isNAK && v.flag > 1
			}, into(wire.NAKRemoteOperation))).By("wire.react.refreshed-inside"),
		fault("react-refreshed", "WIRE-React-15", "progress does not reset the retry counter",
			tap{leaves: func(v *view, o *outgoing) action {
				if o.BTH.Opcode.Request() && v.outCount[o.BTH.PSN] > 0 {
					if v.flag++; v.flag > 1 {
						return dropped
					}
				}
				return asIs
			}}),
	}
}
