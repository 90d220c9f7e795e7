package wiresuite

import (
	"slices"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// foreignMutants returns drivers that believe answers and requests which no correct peer sends.
func foreignMutants() []mutant.Mutant {
	ack := into(wire.ACK(wire.CreditsInvalid))
	reserved := func(is func(wire.Syndrome) bool) func(*view, *outgoing) bool {
		return func(_ *view, o *outgoing) bool { return o.BTH.Opcode == wire.RCAcknowledge && is(o.AETH.Syndrome) }
	}
	unacked := func(ops ...wire.Opcode) func(*view, *outgoing) bool {
		return func(_ *view, o *outgoing) bool {
			return slices.Contains(ops, o.BTH.Opcode) && !o.AETH.Syndrome.IsACK()
		}
	}
	fromOther := func(ops ...wire.Opcode) tap {
		return entering(func(v *view, o *outgoing) bool {
			return slices.Contains(ops, o.BTH.Opcode) && v.end != nil && o.src != v.end.info.GID
		}, func(v *view, o *outgoing) { o.src = v.end.info.GID })
	}
	odd := func(m mutant.Mutant) mutant.Mutant {
		m.Values = map[string]string{"odd": "1"}
		return m
	}
	return []mutant.Mutant{
		fault("react-reserved-class", "WIRE-React-17", "a syndrome of the reserved class counts as an ACK",
			entering(reserved(func(s wire.Syndrome) bool { return s>>5 == 2 }), ack)),
		fault("react-reserved-code", "WIRE-React-17", "a NAK with a reserved code counts as an ACK",
			entering(reserved(func(s wire.Syndrome) bool { return s.IsNAK() && s.Value() > 4 }), ack)),
		fault("react-read-syndrome", "WIRE-React-18", "the syndrome of READ responses is ignored",
			entering(unacked(wire.RCReadResponseOnly, wire.RCReadResponseFirst), ack)),
		fault("react-atomic-syndrome", "WIRE-React-18", "the syndrome of ATOMIC acknowledges is ignored",
			entering(unacked(wire.RCAtomicAcknowledge), ack)),
		fault("react-read-cut", "WIRE-React-19", "the LAST of a READ response is cut to the rest of the READ",
			entering(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCReadResponseLast && len(o.Payload) == 16
			}, func(_ *view, o *outgoing) { o.with(o.Payload[:12]) })),
		fault("react-read-early", "WIRE-React-19", "a LAST before the end of a READ counts as a MIDDLE",
			entering(func(v *view, o *outgoing) bool {
				return o.BTH.Opcode == wire.RCReadResponseLast && len(o.Payload) > 0 &&
					wire.PSNAdd(v.first, (int(v.reth.DMALen)-1)/len(o.Payload)) != o.BTH.PSN && len(o.Payload) >= 256
			}, func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCReadResponseMiddle })),
		fault("react-forged-read", "WIRE-React-20", "the source address of READ responses is ignored",
			fromOther(wire.RCReadResponseFirst, wire.RCReadResponseLast)),
		fault("react-forged-atomic", "WIRE-React-20", "the source address of ATOMIC acknowledges is ignored",
			fromOther(wire.RCAtomicAcknowledge)),
		fault("takes-forged-send", "WIRE-Drop-15", "the source address of SENDs is ignored",
			fromOther(wire.RCSendOnly)),
		fault("takes-forged-atomic", "WIRE-Drop-15", "the source address of compare and swaps is ignored",
			fromOther(wire.RCCompareSwap)),
		needing(ci.CapUC, fault("takes-forged-uc", "WIRE-Drop-15", "the source address of UC WRITEs is ignored",
			fromOther(wire.UCWriteOnlyImm))),
		odd(on("direct", fault("takes-other-gid", "WIRE-Drop-16", "each GID of the port is the destination of each QP",
			tap{enters: rightDestination}))),
		odd(on("network", fault("takes-other-address", "WIRE-Drop-16",
			"each address of the port is the destination of each QP",
			tap{enters: rightDestination}))),
		needing(ci.CapLocalMAD, on("direct", pkeyKept())),
		needing(ci.CapLocalMAD, uncounted("count-errors", "WIRE-Count-01", "PortRcvErrors", counterRcvErrors)),
		needing(ci.CapLocalMAD|ci.CapUD|ci.CapAV,
			uncounted("count-discards", "WIRE-Count-02", "PortXmitDiscards", counterXmitDiscards)),
		on("direct", neverDown()),
		withAgents(on("direct", fault("takes-smp-lane", "WIRE-Smp-01", "VL 0 is a lane of subnet management",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.DestQP == 0 && o.vl == 0 },
				func(_ *view, o *outgoing) { o.vl = 15 })))),
		fault("dup-atomic-forgotten", "WIRE-Dup-08", "a forgotten atomic is answered with the newest original value",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if err == nil && o.BTH.Opcode == wire.RCFetchAdd && isDuplicate(v, o) {
					x := v.answer(o, wire.RCAtomicAcknowledge, o.BTH.PSN,
						wire.AETH{Syndrome: wire.ACK(wire.CreditsInvalid), MSN: uint32(len(v.inCount))})
					x.AtomicAckETH.Orig = 120
					v.inject(x)
				}
				return asIs
			}}),
	}
}

// pkeyKept returns a driver whose port keeps a P_Key that is replaced by an invalid one, so that invalid P_Keys reach
// its QPs.
func pkeyKept() mutant.Mutant {
	m := fault("takes-invalid-pkey", "WIRE-Drop-17", "an invalid P_Key equals an invalid entry of the P_Key table",
		entering(func(_ *view, o *outgoing) bool { return o.BTH.PKey&0x7fff == 0 },
			func(_ *view, o *outgoing) { o.BTH.PKey = 0xffff }))
	m.Wrap = ciwrap.Layer{CA: func(c ci.CA) ci.CA { return keepsPKey{ciwrap.CA{CA: c}} }}.Wrap
	return m
}

type keepsPKey struct{ ciwrap.CA }

func (c keepsPKey) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	var m mad.SMP
	m.Parse(in[:])
	if m.Method == mad.Set && m.Attribute == mad.AttrPKeyTable {
		var table mad.PKeyBlock
		if table.Parse(m.Data[:]); table[0]&0x7fff == 0 {
			m.Method = mad.Get
			x := *in
			m.Put(x[:])
			return c.CA.LocalMAD(port, src, &x, out)
		}
	}
	return c.CA.LocalMAD(port, src, in, out)
}

// uncounted returns a driver that does not count.
func uncounted(name, breaks, counter string, at int) mutant.Mutant {
	m := fault(name, breaks, counter+" is always 0", tap{})
	m.Wrap = ciwrap.Layer{CA: func(c ci.CA) ci.CA { return uncountedCA{ciwrap.CA{CA: c}, at} }}.Wrap
	return m
}

type uncountedCA struct {
	ciwrap.CA
	at int
}

func (c uncountedCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	err := c.CA.LocalMAD(port, src, in, out)
	if err == nil && mad.Class(out[1]) == mad.ClassPerformance {
		out[mad.PerfHeaderLen+c.at], out[mad.PerfHeaderLen+c.at+1] = 0, 0
	}
	return err
}

// withAgents sets the agents of ports to those of the adapter.
func withAgents(m mutant.Mutant) mutant.Mutant {
	m.Values = map[string]string{"agents": "hardware"}
	return m
}

// neverDown returns a driver whose port receives while its link is down.
func neverDown() mutant.Mutant {
	m := fault("takes-down", "WIRE-Drop-19", "a port that is down receives packets", tap{})
	m.Target = func(t *validate.Target) { t.SetLink = func(bool) error { return nil } }
	return m
}
