package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// Answers that no correct responder sends, and answers that another node sends in the peer's name. (IBTA 9.6, 9.7.5,
// 9.9.)
var answers = area()

var _ = answers.Add("wire.react.reserved", "acknowledges with reserved syndromes", func(t *validate.T) {
	s := open(t)
	for _, syn := range kit.Variants(t, "syndrome", []wire.Syndrome{0x40, 0x4a, 0x5f, 0x65, 0x70, 0x7f}) {
		p := s.dial()
		p.sent(1)
		p.answer(wire.RCAcknowledge, p.from, syn, 1, nil)
		// The first answer is dropped, or it ends the request. Only this one can end it with a remote access error.
		p.answer(wire.RCAcknowledge, p.from, wire.NAKRemoteAccess, 0, nil)
		p.CQ.WaitStatus(1, ci.WCRemAccessErr, ci.WCBadRespErr)
		p.fatal()
	}
}, answers.Must("WIRE-React-17", "IBTA 9.7.5", "AETH syndrome, reserved values",
	"An acknowledge with a syndrome of the reserved class or with a reserved NAK code does not acknowledge its "+
		"request. It is dropped, or the request completes with a bad response error."))

var _ = answers.Add("wire.react.response-syndrome",
	"READ responses and ATOMIC acknowledges with NAK, RNR NAK and reserved syndromes", reactResponseSyndrome,
	answers.Must("WIRE-React-18", "IBTA 9.7.5", "AETH syndrome of READ responses and ATOMIC acknowledges",
		"A READ response or an ATOMIC acknowledge with a syndrome other than ACK does not complete its request with "+
			"success, and nothing is written."))

func reactResponseSyndrome(t *validate.T) {
	list := []struct {
		name     string
		op       ci.SendOp
		bytes    int // of the request, in units of the path MTU if more than 8
		response wire.Opcode
	}{
		{"READ of one packet", ci.OpRead, 8, wire.RCReadResponseOnly},
		{"READ of two packets", ci.OpRead, 9, wire.RCReadResponseFirst},
		{"fetch and add", ci.OpFetchAdd, 8, wire.RCAtomicAcknowledge},
	}
	if t.Attr().Atomicity == ci.AtomicNone {
		list = list[:2]
	}
	s := open(t)
	for _, x := range kit.Variants(t, "", list) {
		for _, syn := range kit.Variants(t, "syndrome",
			[]wire.Syndrome{wire.NAKInvalidRequest, wire.NAKRemoteAccess, wire.RNRNAK(1), 0x40, 0x7f}) {
			p := s.dial()
			p.blank()
			n, data := x.bytes, p.bytes(8)
			if n > 8 {
				n, data = 2*p.mtu, p.bytes(p.mtu)
			}
			if x.op != ci.OpRead {
				data = nil
			}
			w := p.SendWR(1, 64, n)
			w.Op, w.Remote = x.op, elsewhere8
			p.Send(w)
			p.expect("request", want{op: []wire.Opcode{wire.RCReadRequest, wire.RCFetchAdd}, psn: p.from, length: -1})
			p.answer(x.response, p.from, syn, 1, data, withOrig(77))
			// The first answer is dropped, or it ends the request: as a response that is invalid, or as the NAK that
			// its syndrome is.
			p.answer(wire.RCAcknowledge, p.from, wire.NAKRemoteOperation, 0, nil)
			p.CQ.WaitStatus(1, ci.WCBadRespErr, ci.WCRemOpErr, ci.WCRemInvalidReqErr, ci.WCRemAccessErr)
			p.fatal()
			p.Buf.WantOnly(t, fmt.Sprintf("memory after an answer with opcode %v and syndrome %#02x", x.response,
				uint8(syn)), 0, nil)
		}
	}
}

var _ = answers.Add("wire.react.read-mtu",
	"READ responses whose packets are those of another path MTU", func(t *validate.T) {
		const first, middle, last = wire.RCReadResponseFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast
		s := open(t)
		m := s.dial().mtu
		for _, x := range kit.Variants(t, "", []struct {
			what string
			all  int // bytes of the READ
			op   wire.Opcode
			n    int // bytes of the packet after a correct FIRST
		}{
			{"a MIDDLE of half the MTU", 3 * m, middle, m / 2},
			{"a MIDDLE of more than the MTU", 3 * m, middle, m + 4},
			{"a LAST before the end", 3 * m, last, m},
			{"a MIDDLE at the end", 2 * m, middle, m},
			{"an empty LAST", 2 * m, last, 0},
			{"a LAST of less than the rest", m + 12, last, 8},
			{"a LAST of more than the rest", m + 12, last, 16},
		}) {
			p := s.dial()
			p.blank()
			p.Send(p.readWR(1, x.all))
			p.expectRead("a READ", x.all, p.from)
			ack := wire.ACK(wire.CreditsInvalid)
			p.answer(first, p.from, ack, 1, p.bytes(m))
			p.answer(x.op, p.from+1, ack, 1, p.bytes(x.n))
			p.CQ.WaitStatus(1, ci.WCBadRespErr, ci.WCLocalLenErr)
			p.fatal()
			for i, b := range p.Buf.Bytes[32+x.all:] {
				kit.True(t, b == 0xee, "memory behind that of a READ that was answered with "+x.what, "nothing written",
					"byte %d behind it is %#02x", i, b)
			}
		}
	}, answers.Must("WIRE-React-19", "IBTA 9.7.6", "READ response of another path MTU",
		"A MIDDLE or LAST of a READ response that has not the length which its place demands completes the READ with "+
			"a bad response error. Nothing is written behind the READ's memory."))

var _ = answers.Add("wire.react.forged", "responses with data from another source address", func(t *validate.T) {
	s := open(t)
	if !s.hasOther() {
		t.Skip("the certifier's end of the link has only one address")
	}
	ack := wire.ACK(wire.CreditsInvalid)
	p := s.dial()
	p.blank()
	n := p.mtu + 8
	data := p.bytes(n)
	p.Send(p.readWR(1, n))
	p.expectRead("a READ of two packets", n, p.from)
	p.answer(wire.RCReadResponseFirst, p.from, ack, 1, p.bytes(p.mtu), p.fromOther)
	p.noMore("the first packet of a READ response from another address")
	p.answer(wire.RCReadResponseFirst, p.from, ack, 1, data[:p.mtu])
	p.answer(wire.RCReadResponseLast, p.from+1, ack, 1, p.bytes(8), p.fromOther)
	p.noMore("the last packet of a READ response from another address")
	p.answer(wire.RCReadResponseLast, p.from+1, ack, 1, data[p.mtu:])
	p.CQ.WaitOK(1)
	p.Buf.WantOnly(t, "data of the READ", 32, data)
	if t.Attr().Atomicity == ci.AtomicNone {
		return
	}
	w := p.SendWR(2, 64, 8)
	w.Op, w.Remote = ci.OpFetchAdd, elsewhere8
	p.Send(w)
	at := p.from + 2
	p.expect("a fetch and add", want{op: []wire.Opcode{wire.RCFetchAdd}, psn: at, length: 0})
	p.answer(wire.RCAtomicAcknowledge, at, ack, 2, nil, withOrig(66), p.fromOther)
	p.noMore("an ATOMIC acknowledge from another address")
	p.answer(wire.RCAtomicAcknowledge, at, ack, 2, nil, withOrig(77))
	p.CQ.WaitOK(2)
	kit.Equal(t, "original value", kit.LoadWord(p.Buf.Bytes[64:]), 77)
}, answers.Must("WIRE-React-20", "IBTA 9.6", "source of a connected QP's packets",
	"A READ response or an ATOMIC acknowledge from an address other than the peer's is dropped, and nothing of "+
		"it is written."))
