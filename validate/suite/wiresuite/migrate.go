package wiresuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// migrateCases are the cases of the migration bit of packets. (IBTA 17.2.8, 9.6.1.5.)
var migrateCases = area().Needing(validate.Needs{Caps: ci.CapAPM})

func migReq(o *outgoing) { o.BTH.MigReq = true }

var wireApm01 = migrateCases.Must("WIRE-Apm-01", "IBTA 17.2.8", "MigReq",
	"A QP in Rearm becomes Armed by a packet of the primary path with MigReq clear, and by no other. Its own "+
		"packets have MigReq clear from Rearm on, and set before.")

var _ = migrateCases.Add("wire.apm.arm", "packets to a QP in Rearm", apmArm, wireApm01)

// rearmed returns a QP in Rearm whose alternate path leads to the certifier's other address.
func rearmed(t *validate.T) *peer {
	s := open(t)
	if !s.hasOther() {
		t.Skip("the certifier's end of the link has only one address")
	}
	alt, _, ok := s.ca.AddressAt(s.info.Other, s.info.OtherLID)
	if !ok {
		t.Skip("the port has no GID of the address family of the certifier's other address")
	}
	p := s.dial()
	p.answered("a WRITE before Rearm", true, migReq)
	kit.OK(t, p.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{
		Alternate: ci.Path{AV: alt, AckTimeout: longAckTime}, APM: ci.APMRearm,
	}), "QP.Modify of the alternate path, with Rearm")
	return p
}

// answered sends a WRITE without data and expects its acknowledgement, with MigReq as given.
func (p *peer) answered(what string, mig bool, twists ...twist) {
	p.request(wire.RCWriteOnly, nil, twists...)
	x := p.expect("acknowledgement of "+what, acked(p.last(), -1))
	kit.Equal(p.t, "MigReq of the acknowledgement of "+what, x.BTH.MigReq, mig)
}

// wantAPM checks the migration state and the number of events of refused migrations.
func (p *peer) wantAPM(when string, want ci.APMState, refused int) {
	a, err := p.Query()
	kit.OK(p.t, err, "QP.Query")
	kit.Equal(p.t, "QPAttr.APM "+when, a.APM, want)
	kit.Equal(p.t, "events path migration error "+when, p.Events.Count(ci.EventQPAPMError), refused)
}

func apmArm(t *validate.T) {
	p := rearmed(t)
	p.wantAPM("after Rearm", ci.APMRearm, 0)
	p.answered("a WRITE with MigReq, in Rearm", false, migReq)
	p.wantAPM("after a packet with MigReq", ci.APMRearm, 0)
	p.blank()
	p.stray(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8), p.fromOther)
	p.answered("a WRITE after one from the alternate path", false, migReq)
	p.wantAPM("after a packet of the alternate path", ci.APMRearm, 0)
	p.stray(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8), func(o *outgoing) { o.BTH.PKey ^= 0x0100 })
	p.answered("a WRITE after one of another partition", false, migReq)
	p.wantAPM("after a packet of another partition", ci.APMRearm, 0)
	p.answered("a WRITE with MigReq clear", false)
	p.wantAPM("after a packet with MigReq clear", ci.APMArmed, 0)
	p.Buf.WantOnly(t, "memory after WRITEs that were not the peer's", 0, nil)
}

var wireApm02 = migrateCases.Must("WIRE-Apm-02", "IBTA 9.6.1.5", "MigReq; migration",
	"A packet of the alternate path with MigReq moves an Armed QP to that path, and is executed. A packet with "+
		"MigReq of another path, or that comes before the QP is Armed, is dropped and raises the event path "+
		"migration error once.")

var _ = migrateCases.Add("wire.apm.migrate", "packets of both paths to an Armed QP", func(t *validate.T) {
	p := rearmed(t)
	p.blank()
	before := p.last()
	p.stray(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8), p.fromOther, migReq)
	p.answered("a WRITE after a migration that was refused", false)
	p.Events.Wait(ci.EventQPAPMError)
	p.wantAPM("after a migration before the QP was Armed", ci.APMArmed, 1)
	// A packet that was sent before the peer was rearmed may come late: it is a duplicate like any other.
	p.stray(wire.RCWriteOnly, nil, withPSN(before), migReq)
	p.again("a WRITE from before Rearm", before, -1)
	p.stray(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8), migReq)
	p.answered("a WRITE after one with MigReq of the primary path", false)
	p.stray(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8), p.fromOther)
	p.answered("a WRITE after one of the alternate path without MigReq", false)
	p.stray(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8), p.fromOther, migReq,
		func(o *outgoing) { o.BTH.PKey ^= 0x0100 })
	p.answered("a WRITE after one of another partition", false)
	p.wantAPM("after packets that do not migrate", ci.APMArmed, 1)
	p.Buf.WantOnly(t, "memory after WRITEs that were dropped", 0, nil)
	a, err := p.Query()
	kit.OK(t, err, "QP.Query")
	data := p.bytes(8)
	p.request(wire.RCWriteOnly, data, p.reth(16, 8), p.fromOther, migReq, ackReq(false))
	p.Events.Wait(ci.EventQPAPM)
	p.wantAPM("after a packet with MigReq of the alternate path", ci.APMMigrated, 1)
	now, err := p.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "QPAttr.Primary.AV after the migration", now.Primary.AV, a.Alternate.AV)
	kit.Equal(t, "QPAttr.Alternate after the migration", now.Alternate, ci.Path{})
	kit.Equal(t, "state after the migration", now.State, ci.QPRTS)
	p.Buf.WantOnly(t, "memory after the WRITE that migrates", 16, data)
}, wireApm02)

var _ = migrateCases.Add("wire.apm.unarmed",
	"packets of another path to a QP that is not in Rearm, and an answer by the alternate path", func(t *validate.T) {
		s := open(t)
		if !s.hasOther() {
			t.Skip("the certifier's end of the link has only one address")
		}
		alt, _, ok := s.ca.AddressAt(s.info.Other, s.info.OtherLID)
		if !ok {
			t.Skip("the port has no GID of the address family of the certifier's other address")
		}
		p := s.dial()
		p.blank()
		other := func(o *outgoing) { o.BTH.PKey ^= 0x0100 }
		dropped := func(what string, twists ...twist) {
			p.stray(wire.RCWriteOnly, p.bytes(8), append([]twist{p.reth(0, 8), p.fromOther}, twists...)...)
			p.answered("a WRITE after one "+what, true)
		}
		dropped("from another address to a QP without an alternate path")
		dropped("with MigReq from another address to a QP without an alternate path", migReq)
		p.wantAPM("without an alternate path", ci.APMMigrated, 0)
		kit.OK(t, p.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: ci.Path{AV: alt, AckTimeout: longAckTime}}),
			"QP.Modify of the alternate path")
		p.wantAPM("after the alternate path was loaded, without Rearm", ci.APMMigrated, 0)
		dropped("of the alternate path, before Rearm")
		dropped("of the alternate path and another partition, before Rearm", migReq, other)
		p.wantAPM("after packets with MigReq clear, before Rearm", ci.APMMigrated, 0)
		p.Buf.WantOnly(t, "memory after WRITEs that were dropped", 0, nil)
		kit.OK(t, p.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm}), "QP.Modify to Rearm")
		p.wantAPM("after Rearm", ci.APMRearm, 0)
		p.answered("a WRITE with MigReq clear", false)
		p.wantAPM("after a packet with MigReq clear", ci.APMArmed, 0)
		// An answer migrates like a request.
		p.sent(1)
		p.answer(wire.RCAcknowledge, p.from, wire.ACK(wire.CreditsInvalid), 1, nil, p.fromOther, migReq, other)
		p.answer(wire.RCAcknowledge, p.from, wire.ACK(wire.CreditsInvalid), 1, nil, p.fromOther)
		p.noMore("ACKs of the alternate path without MigReq, or of another partition")
		p.wantAPM("after ACKs that do not migrate", ci.APMArmed, 0)
		p.answer(wire.RCAcknowledge, p.from, wire.ACK(wire.CreditsInvalid), 1, nil, p.fromOther, migReq)
		p.CQ.WaitOK(1)
		p.Events.Wait(ci.EventQPAPM)
		p.wantAPM("after an ACK with MigReq of the alternate path", ci.APMMigrated, 0)
	}, wireApm02, wireApm01)
