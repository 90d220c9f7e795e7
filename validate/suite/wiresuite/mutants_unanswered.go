package wiresuite

import (
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// unansweredMutants returns drivers that miscount answers, or go on where they must wait.
func unansweredMutants() []mutant.Mutant {
	return []mutant.Mutant{
		fault("react-sequence-free", "WIRE-React-21", "a NAK 0x60 counts as an ACK",
			entering(func(_ *view, o *outgoing) bool { return syndrome(wire.NAKPSNSequence)(o) },
				into(wire.ACK(wire.CreditsInvalid)))),
		fault("react-response-before", "WIRE-React-22", "a READ response counts for the request before its own",
			entering(op(wire.RCReadResponseFirst),
				func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, -1) })),
		fault("react-response-again", "WIRE-React-23", "a repeated FIRST of a READ response counts for the next packet",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if o == nil || err != nil || o.BTH.Opcode != wire.RCReadResponseFirst {
					return asIs
				}
				if v.flag++; v.flag == 1 {
					return asIs
				}
				o.BTH.Opcode, o.BTH.PSN = wire.RCReadResponseMiddle, wire.PSNAdd(o.BTH.PSN, 1)
				return changed
			}}),
		needing(ci.CapFastReg, fault("react-local-early", "WIRE-React-24", "SENDs are complete when they are sent",
			tap{leaves: acknowledgesItself})),
		ignoresSQD(),
		fault("take-states", "WIRE-Take-09", "a QP in SQD takes each request for one behind a gap",
			entering(func(v *view, o *outgoing) bool { return v.state == ci.QPSQD && o.BTH.Opcode.Request() },
				func(_ *view, o *outgoing) { o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, 5) })),
	}
}

// acknowledgesItself passes an ACK of each SEND of one packet to the adapter that has sent it.
func acknowledgesItself(v *view, o *outgoing) action {
	if o.BTH.Opcode != wire.RCSendOnly {
		return asIs
	}
	x := &outgoing{src: o.dst, dst: o.src, slid: o.dlid, dlid: o.slid, sport: o.sport}
	x.BTH = wire.BTH{Opcode: wire.RCAcknowledge, PKey: o.BTH.PKey, DestQP: v.num, PSN: o.BTH.PSN}
	x.AETH = wire.AETH{Syndrome: wire.ACK(wire.CreditsInvalid)}
	if err := v.end.Wire.Send(x.bytes(&v.end.info)); err != nil {
		return dropped
	}
	return asIs
}

// ignoresSQD returns a driver whose QPs stay in RTS when they are moved to SQD.
func ignoresSQD() mutant.Mutant {
	m := fault("sqd-ignored", "WIRE-Sqd-01", "QP.Modify to SQD changes nothing", tap{})
	m.Wrap = ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return staysInRTS{ciwrap.QP{QP: q}} }}.Wrap
	return m
}

type staysInRTS struct{ ciwrap.QP }

func (q staysInRTS) Modify(set ci.QPField, a ci.QPAttr) error {
	if set&ci.QPFieldState != 0 && a.State == ci.QPSQD {
		return nil
	}
	return q.QP.Modify(set, a)
}

// unfitMutants returns drivers that accept packets which do not fit, or answer where they must not.
func unfitMutants() []mutant.Mutant {
	answers := func(syn wire.Syndrome) tap {
		return tap{enters: func(v *view, o *outgoing, err error) action {
			if err == nil && o.BTH.Opcode == wire.UCSendOnly {
				v.inject(v.answer(o, wire.RCAcknowledge, o.BTH.PSN, wire.AETH{Syndrome: syn}))
			}
			return asIs
		}}
	}
	return []mutant.Mutant{
		needing(ci.CapUC, fault("uc-unfit", "WIRE-Uc-06", "a UC MIDDLE without FIRST is a message of its own",
			entering(func(v *view, o *outgoing) bool { return o.BTH.Opcode == wire.UCSendMiddle && !v.inside },
				func(_ *view, o *outgoing) { o.BTH.Opcode = wire.UCSendOnly }))),
		needing(ci.CapUC, fault("uc-rnr", "WIRE-Uc-07", "a UC SEND gets an RNR NAK", answers(wire.RNRNAK(1)))),
		needing(ci.CapUC, fault("uc-bad-receive", "WIRE-Uc-08", "a UC SEND gets a NAK 0x63",
			answers(wire.NAKRemoteOperation))),
		fault("nak-huge", "WIRE-Nak-16", "of the length in a RETH, bit 31 is ignored",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.Opcode.HasRETH() && o.RETH.DMALen > 1<<31 },
				func(_ *view, o *outgoing) { o.RETH.DMALen &^= 1 << 31 })),
		fault("nak-read-fails", "WIRE-Nak-17", "a NAK that ends a READ response has the PSN of the packet after it",
			tap{leaves: func(v *view, o *outgoing) action {
				switch {
				case o.BTH.Opcode.Op() == wire.OpReadResponse:
					v.last = o
				case v.last != nil && o.BTH.Opcode == wire.RCAcknowledge && o.AETH.Syndrome == wire.NAKRemoteAccess:
					o.BTH.PSN = wire.PSNAdd(o.BTH.PSN, 1)
					return changed
				}
				return asIs
			}}),
		fault("dup-read-other", "WIRE-Dup-09", "a duplicate READ of other memory is executed as a new READ",
			entering(func(v *view, o *outgoing) bool { return o.BTH.Opcode == wire.RCReadRequest && isDuplicate(v, o) },
				func(v *view, o *outgoing) { o.BTH.PSN = v.due })),
	}
}

// wrappingCounters has the counters of violations begin again at 0.
type wrappingCounters struct{ ciwrap.CA }

// shift is the difference between the counters of the adapter and those that are shown, which therefore wrap around.
const shift = 0x8000

func (c wrappingCounters) Modify(port uint8, set ci.PortField, m ci.PortModify) error {
	m.PKeyErrors -= shift
	m.QKeyErrors -= shift
	return c.CA.Modify(port, set, m)
}

func (c wrappingCounters) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		for i := range a.Ports {
			a.Ports[i].PKeyErrors += shift
			a.Ports[i].QKeyErrors += shift
		}
	}
	return a, err
}

// unselective has a Set of PortCounters select all counters.
type unselective struct{ ciwrap.CA }

func (c unselective) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	if x := *in; mad.Class(x[1]) == mad.ClassPerformance && mad.Method(x[3]) == mad.Set {
		x[mad.PerfHeaderLen+2], x[mad.PerfHeaderLen+3] = 0xff, 0xff
		in = &x
	}
	return c.CA.LocalMAD(port, src, in, out)
}

// changeMutants returns drivers whose QPs keep what Modify has changed, or ignore a fence.
func changeMutants() []mutant.Mutant {
	fence := fault("fence-ignored", "WIRE-Req-11", "the fence is ignored", tap{})
	fence.Wrap = ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return unfenced{ciwrap.QP{QP: q}, nil} }}.Wrap
	reads := fault("fence-reads", "WIRE-Req-11", "the fence of a READ is ignored", tap{})
	reads.Wrap = ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
		return unfenced{ciwrap.QP{QP: q}, []ci.SendOp{ci.OpRead}}
	}}.Wrap
	wraps := fault("keys-wrap", "WIRE-Count-03", "the counters of violations begin again after their end", tap{})
	wraps.Wrap = ciwrap.Layer{CA: func(c ci.CA) ci.CA { return wrappingCounters{ciwrap.CA{CA: c}} }}.Wrap
	every := fault("count-select", "WIRE-Count-04", "Set(PortCounters) writes every counter", tap{})
	every.Wrap = ciwrap.Layer{CA: func(c ci.CA) ci.CA { return unselective{ciwrap.CA{CA: c}} }}.Wrap
	return []mutant.Mutant{
		fault("modify-rnr", "WIRE-Modify-01", "a Modify in RTS does not change the RNR timer",
			tap{modify: func(set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldState == 0 {
					a.MinRNRTimer = 3
				}
			}}),
		fault("reset-gap", "WIRE-Reset-01", "the first request after a gap is dropped, also if Reset was between them",
			tap{enters: func(v *view, o *outgoing, err error) action {
				if err != nil || o == nil || o.BTH.Opcode.Service() != wire.RC || !o.BTH.Opcode.Request() {
					return asIs
				}
				if v.flag == 1 {
					v.flag = 2
					return dropped
				}
				if v.flag == 0 && o.BTH.Opcode == wire.RCSendFirst {
					v.flag = 1
				}
				return asIs
			}}),
		fault("reset-waits", "WIRE-Reset-01", "a QP that was in an RNR wait when it was reset waits on", tap{
			enters: func(v *view, o *outgoing, err error) action {
				if err == nil && o != nil && o.BTH.Opcode == wire.RCAcknowledge {
					v.flag = 0
					if o.AETH.Syndrome.IsRNRNAK() {
						v.flag = 1
					}
				}
				return asIs
			},
			leaves: func(v *view, o *outgoing) action {
				if o.BTH.Opcode.Request() && v.flag == 1 {
					if v.flag = 0; o.BTH.PSN != v.newest { // not the request that was refused
						<-time.After(wire.RNRTimer(slowRNR))
					}
				}
				return asIs
			}}),
		wraps, needing(ci.CapLocalMAD, every), fence, reads,
	}
}

// migrateMutants returns drivers that take the migration bit of packets for another one.
func migrateMutants() []mutant.Mutant {
	list := []mutant.Mutant{
		fault("apm-arms", "WIRE-Apm-01", "packets with MigReq arm a QP in Rearm",
			entering(func(_ *view, o *outgoing) bool { return o.BTH.MigReq },
				func(_ *view, o *outgoing) { o.BTH.MigReq = false })),
		fault("apm-stays", "WIRE-Apm-02", "packets of the alternate path without MigReq migrate, too",
			entering(func(v *view, o *outgoing) bool { return v.end != nil && o.src != v.end.info.GID },
				func(_ *view, o *outgoing) { o.BTH.MigReq = true })),
	}
	for i := range list {
		list[i] = needing(ci.CapAPM, list[i])
	}
	return list
}

type unfenced struct {
	ciwrap.QP
	only []ci.SendOp // nil: all
}

func (q unfenced) PostSend(wrs []ci.SendWR) (int, error) {
	plain := make([]ci.SendWR, len(wrs))
	for i, w := range wrs {
		if q.only == nil || slices.Contains(q.only, w.Op) {
			w.Flags &^= ci.SendFence
		}
		plain[i] = w
	}
	return q.QP.PostSend(plain)
}
