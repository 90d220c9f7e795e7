package wiresuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// placeCases are the cases of ATOMIC WRITE and FLUSH. (IBTA volume 1, release 1.6, annex A19.)
var (
	placeCases = area()
	wordCases  = placeCases.Needing(validate.Needs{Caps: ci.CapAtomicWrite})
	flushCases = placeCases.Needing(validate.Needs{Caps: ci.CapFlush})
)

func withFeth(types, level uint8) twist {
	return func(o *outgoing) { o.FETH = wire.FETH{Types: types, Sel: level} }
}

// empty describes the answer of a READ of no bytes, which answers an ATOMIC WRITE and a FLUSH.
func empty(psn uint32, msn int) want {
	return want{op: []wire.Opcode{wire.RCReadResponseOnly}, psn: psn, syn: wire.ACK(wire.CreditsInvalid), msn: msn}
}

// flushable grants FlushGlobal.
var flushable = kit.Access(kit.AllAccess | ci.FlushGlobal)

var _ = wordCases.Add("wire.place.word", "ATOMIC WRITEs, duplicates of them, and a WRITE behind them",
	func(t *validate.T) {
		p := dial(t)
		p.blank()
		for i := range 3 {
			data := p.bytes(8)
			at := p.psn
			p.request(wire.RCAtomicWrite, data, p.reth(16, 8))
			p.expect(fmt.Sprintf("answer to ATOMIC WRITE %d", i+1), empty(at, i+1))
			p.Buf.WantOnly(t, "memory after an ATOMIC WRITE", 16, data)
			binary.NativeEndian.PutUint64(p.Buf.Bytes[16:], 77)
			p.stray(wire.RCAtomicWrite, data, p.reth(16, 8), withPSN(at))
			p.expect(fmt.Sprintf("answer to the duplicate of ATOMIC WRITE %d", i+1), empty(at, -1))
			p.Buf.WantOnly(t, "memory after the duplicate of an ATOMIC WRITE", 16,
				binary.NativeEndian.AppendUint64(nil, 77))
		}
		p.barrier("three ATOMIC WRITEs", 4)
	}, wordCases.Must("WIRE-Place-01", "IBTA A19", "ATOMIC WRITE",
		"An ATOMIC WRITE stores its 8 bytes and is answered with a READ response of no bytes, which has its PSN. A "+
			"duplicate is answered again and not executed again."))

var wirePlace02 = wordCases.Must("WIRE-Place-02", "IBTA A19", "ATOMIC WRITE, errors",
	"An ATOMIC WRITE to an address that is not a multiple of 8, or of other than 8 bytes, is answered with a NAK "+
		"0x61; one to memory that is not granted, with a NAK 0x62. Nothing is written.")

var _ = wordCases.Add("wire.place.bad-word", "ATOMIC WRITEs that are not valid", func(t *validate.T) {
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		bytes  int
		off, n int
		key    uint32 // added to the R_Key
		nak    wire.Syndrome
	}{
		{"at a misaligned address", 8, 12, 8, 0, wire.NAKInvalidRequest},
		{"of 4 bytes", 4, 16, 4, 0, wire.NAKInvalidRequest},
		{"of 16 bytes", 16, 16, 16, 0, wire.NAKInvalidRequest},
		{"whose RETH has another length", 8, 16, 16, 0, wire.NAKInvalidRequest},
		{"with a wrong key", 8, 16, 8, 0x5500, wire.NAKRemoteAccess},
	}) {
		p := s.dial()
		p.blank()
		at := p.psn
		r := p.Buf.Remote(uint64(x.off))
		p.request(wire.RCAtomicWrite, p.bytes(x.bytes),
			withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey) + x.key, DMALen: uint32(x.n)}))
		p.expect("answer to an ATOMIC WRITE "+x.what, nak(at, x.nak, 0))
		p.fatal()
		p.Buf.WantOnly(t, "memory after an ATOMIC WRITE "+x.what, 0, nil)
	}
}, wirePlace02)

var _ = flushCases.Add("wire.place.flush", "FLUSHes of a range and of a region behind a WRITE, and duplicates",
	func(t *validate.T) {
		p := dial(t, flushable)
		p.blank()
		for i, level := range kit.Variants(t, "level", []uint8{wire.FlushRange, wire.FlushRegion}) {
			data := p.bytes(64)
			p.request(wire.RCWriteOnly, data, p.reth(32, 64), ackReq(false))
			at := p.psn
			what := fmt.Sprintf("FLUSH of level %d", level)
			p.request(wire.RCFlush, nil, p.reth(32, 64), withFeth(wire.FlushGlobal, level))
			p.expect("answer to the "+what, empty(at, 2*i+2))
			p.Buf.WantOnly(t, "memory when the "+what+" has been answered", 32, data)
			p.stray(wire.RCFlush, nil, p.reth(32, 64), withFeth(wire.FlushGlobal, level), withPSN(at))
			p.expect("answer to the duplicate of the "+what, empty(at, -1))
		}
	}, flushCases.Must("WIRE-Place-03", "IBTA A19", "FLUSH",
		"A FLUSH is answered with a READ response of no bytes, which has its PSN, when earlier WRITEs are in the "+
			"memory. A duplicate is answered again."))

var _ = flushCases.Add("wire.place.bad-flush", "FLUSHes that are not valid", func(t *validate.T) {
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		what         string
		types, level uint8
		n            int
		nak          wire.Syndrome
	}{
		{"of no type", 0, 0, 64, wire.NAKInvalidRequest},
		{"of a level that is not defined", wire.FlushGlobal, 2, 64, wire.NAKInvalidRequest},
		{"of a type that the region does not grant", wire.FlushPersistent, 0, 64, wire.NAKRemoteAccess},
		{"of both types, of which the region grants one", 3, wire.FlushRegion, 64, wire.NAKRemoteAccess},
		{"of more than the region", wire.FlushGlobal, 0, 1 << 30, wire.NAKRemoteAccess},
	}) {
		p := s.dial(kit.With(func(c *kit.Config) {
			c.BufAccess, c.Access = kit.AllAccess|ci.FlushGlobal, kit.AllAccess|ci.FlushRights
		}))
		at := p.psn
		p.request(wire.RCFlush, nil, p.reth(0, x.n), withFeth(x.types, x.level))
		p.expect("answer to a FLUSH "+x.what, nak(at, x.nak, 0))
		p.fatal()
	}
}, flushCases.Must("WIRE-Place-04", "IBTA A19", "FLUSH, errors",
	"A FLUSH of no type or of an undefined level is answered with a NAK 0x61; one of a type that the region does not "+
		"grant, or of a range that is not inside it, with a NAK 0x62."))

var wirePlace05 = placeCases.Must("WIRE-Place-05", "IBTA A19", "ATOMIC WRITE and FLUSH, requests",
	"An OpAtomicWrite is one packet with a RETH of 8 bytes and its bytes; an OpFlush is one with a FETH and a RETH. A "+
		"READ response of no bytes completes them.")

// place posts a request to the QP, expects its packet, and answers it.
func (p *peer) place(id uint64, w ci.SendWR, x want, reth wire.RETH, feth wire.FETH) {
	w.ID, w.Flags = id, ci.SendSignaled
	w.Remote = ci.Remote{Addr: reth.VA, RKey: ci.Key(reth.RKey)}
	p.Send(w)
	x.psn = p.from
	p.from = wire.PSNAdd(p.from, 1)
	got := p.expect("request", x)
	if got.RETH != reth || got.FETH != feth {
		p.wrong(got, "headers of the request", fmt.Sprintf("%+v, %+v", reth, feth), got.String())
	}
	p.answer(wire.RCReadResponseOnly, x.psn, wire.ACK(wire.CreditsInvalid), uint32(id), nil)
	p.CQ.WaitOK(id)
}

var _ = wordCases.Add("wire.place.word-request", "an OpAtomicWrite, by list and inline", func(t *validate.T) {
	p := dial(t)
	reth := wire.RETH{VA: elsewhere.Addr &^ 7, RKey: uint32(elsewhere.RKey), DMALen: 8}
	for i, inline := range kit.Variants(t, "inline", []bool{false, true}) {
		w := p.SendWR(1, 32, 8)
		w.Op = ci.OpAtomicWrite
		data := p.bytes(8)
		if inline {
			w.SGL, w.Inline = nil, data
		} else {
			copy(p.Buf.Bytes[32:], data)
		}
		p.place(uint64(i+1), w, want{op: []wire.Opcode{wire.RCAtomicWrite}, payload: data}, reth, wire.FETH{})
	}
}, wirePlace05)

var _ = flushCases.Add("wire.place.flush-request", "an OpFlush of each type and level", func(t *validate.T) {
	p := dial(t)
	for i, f := range kit.Variants(t, "", []ci.Flush{{Types: ci.FlushGlobal, Length: 4097},
		{Types: ci.FlushPersistent, Length: 1 << 31}, {Types: ci.FlushRights, Region: true}}) {
		feth := wire.FETH{Types: [...]uint8{wire.FlushGlobal, wire.FlushPersistent, 3}[i]}
		if f.Region {
			feth.Sel = wire.FlushRegion
		}
		p.place(uint64(i+1), ci.SendWR{Op: ci.OpFlush, Ext: &ci.SendExt{Flush: f}},
			want{op: []wire.Opcode{wire.RCFlush}},
			wire.RETH{VA: elsewhere.Addr, RKey: uint32(elsewhere.RKey), DMALen: f.Length}, feth)
	}
}, wirePlace05)

var _ = wordCases.Add("wire.place.lost-answer", "an ACK of an ATOMIC WRITE whose answer is lost", func(t *validate.T) {
	p := dial(t)
	w := p.SendWR(1, 32, 8)
	w.Op, w.Remote = ci.OpAtomicWrite, ci.Remote{Addr: elsewhere.Addr &^ 7, RKey: elsewhere.RKey}
	p.Send(w)
	word := want{op: []wire.Opcode{wire.RCAtomicWrite}, psn: p.from, payload: append([]byte{}, p.Buf.Bytes[32:40]...)}
	p.expect("an ATOMIC WRITE", word)
	p.ack(p.from, 1)
	p.expect("the ATOMIC WRITE again, after an ACK without its answer", word)
	p.answer(wire.RCReadResponseOnly, p.from, wire.ACK(wire.CreditsInvalid), 1, nil)
	p.CQ.WaitOK(1)
}, wordCases.Must("WIRE-Place-06", "IBTA A19", "ATOMIC WRITE, implied loss",
	"An ACK does not complete an ATOMIC WRITE. It shows that the answer was lost, and the request is sent again."))

var _ = placeCases.Add("wire.place.unclaimed", "requests that the adapter does not claim", func(t *validate.T) {
	if t.Claims().Has(ci.CapAtomicWrite | ci.CapFlush) {
		t.Skip("the adapter claims both")
	}
	s := open(t)
	for _, x := range []struct {
		op   wire.Opcode
		caps ci.Caps
		data int
	}{{wire.RCAtomicWrite, ci.CapAtomicWrite, 8}, {wire.RCFlush, ci.CapFlush, 0}} {
		if t.Claims().Has(x.caps) {
			continue
		}
		p := s.dial()
		p.blank()
		at := p.psn
		p.stray(x.op, p.bytes(x.data), p.reth(16, 8), withFeth(wire.FlushGlobal, 0))
		p.request(wire.RCWriteOnly, nil) // same PSN
		y := p.expect(fmt.Sprintf("answer to a %v, which the adapter does not claim, and a WRITE with its PSN", x.op),
			want{op: []wire.Opcode{wire.RCAcknowledge}, psn: at, noAeth: true})
		if s := y.AETH.Syndrome; !s.IsACK() && s != wire.NAKInvalidRequest {
			p.wrong(y, fmt.Sprintf("answer to a %v", x.op), "a NAK 0x61, or none", y.String())
		}
		p.Buf.WantOnly(t, fmt.Sprintf("memory after a %v, which the adapter does not claim", x.op), 0, nil)
	}
}, placeCases.Must("WIRE-Place-07", "IBTA A19", "ATOMIC WRITE and FLUSH, not supported",
	"An adapter that does not claim ATOMIC WRITE or FLUSH drops the request, or answers it with a NAK 0x61. It writes "+
		"nothing."))

func placeMutants() []mutant.Mutant {
	words := op(wire.RCAtomicWrite)
	answers := func(o *outgoing) bool { return o.BTH.Opcode == wire.RCReadResponseOnly && len(o.Payload) == 0 }
	word := func(m mutant.Mutant) mutant.Mutant { return needing(ci.CapAtomicWrite, m) }
	flush := func(m mutant.Mutant) mutant.Mutant { return needing(ci.CapFlush, m) }
	return []mutant.Mutant{
		word(fault("word-ack", "WIRE-Place-01", "an ATOMIC WRITE is answered with an ACK",
			leaving(answers, func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCAcknowledge }))),
		word(fault("word-again", "WIRE-Place-01", "a duplicate ATOMIC WRITE is executed again",
			executeAgain(false, wire.RCAtomicWrite))),
		word(fault("word-aligned", "WIRE-Place-02", "the low bits of the address of an ATOMIC WRITE are ignored",
			entering(words, func(_ *view, o *outgoing) { o.RETH.VA &^= 7 }))),
		word(fault("word-length", "WIRE-Place-02", "the length in the RETH of an ATOMIC WRITE is ignored",
			entering(words, func(_ *view, o *outgoing) { o.RETH.DMALen = uint32(len(o.Payload)) }))),
		flush(fault("flush-ack", "WIRE-Place-03", "a FLUSH is answered with an ACK",
			leaving(answers, func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCAcknowledge }))),
		flush(fault("flush-global", "WIRE-Place-04", "each FLUSH is one of FlushGlobal", entering(op(wire.RCFlush),
			func(_ *view, o *outgoing) { o.FETH.Types = wire.FlushGlobal }))),
		flush(fault("flush-range", "WIRE-Place-04", "a FLUSH of an undefined level is one of a range",
			entering(op(wire.RCFlush), func(_ *view, o *outgoing) { o.FETH.Sel &= 1 }))),
		word(fault("word-rethless", "WIRE-Place-05", "the length in the RETH of an ATOMIC WRITE is 0",
			leaving(is(wire.RCAtomicWrite), func(_ *view, o *outgoing) { o.RETH.DMALen = 0 }))),
		flush(fault("feth", "WIRE-Place-05", "the FETH of a FLUSH has level and type exchanged",
			leaving(is(wire.RCFlush), func(_ *view, o *outgoing) {
				o.FETH.Types, o.FETH.Sel = o.FETH.Sel, o.FETH.Types&3
			}))),
		word(fault("word-acked", "WIRE-Place-06", "an ACK completes an ATOMIC WRITE", entering(ackIn,
			func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCReadResponseOnly }))),
		fault("unclaimed", "WIRE-Place-07", "ATOMIC WRITE is executed and not claimed", entering(words,
			func(_ *view, o *outgoing) { o.BTH.Opcode = wire.RCWriteOnly })).On("network").
			Set(map[string]string{"claims": "few"}),
	}
}
