package wiresuite

import (
	"bytes"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// programCases are the cases of programs' adapters as responders that those for drivers cannot share, since these see
// and set what a program decides.
var programCases = area()

var _ = programCases.Add("peer.coalesced", "five requests of which the last has AckReq", func(t *validate.T) {
	p := dial(t)
	if p.program.Plain == wire.RCReadRequest || p.program.Plain == wire.RCFetchAdd {
		t.Skip("each request of %s has an answer of its own", p.program.Name)
	}
	p.barrier("nothing", 1)
	for i := range 5 {
		p.request(wire.RCWriteOnly, nil, ackReq(i == 4))
	}
	for {
		x := p.next(t.Remaining())
		if x == nil {
			t.Fail(validate.Failure{Where: "answer to five requests", Expected: "an ACK of the last",
				Got: "no packet by the deadline", Doubt: validate.DoubtTime})
		}
		d := wire.PSNDiff(x.BTH.PSN, p.last())
		p.match(x, "answer to five requests, with AckReq in the last", want{op: []wire.Opcode{wire.RCAcknowledge},
			psn: x.BTH.PSN, anyPSN: d <= 0 && d > -5, syn: wire.ACK(wire.CreditsInvalid), msn: 6 + d})
		if d == 0 {
			break
		}
	}
	p.barrier("five requests", 7)
}, programCases.Must("WIRE-PeerAck-01", "IBTA 9.7.5.1.2", "coalesced acknowledgements",
	"Of several requests, the last of which has AckReq, at least that one is acknowledged, with the MSN of all."))

// refusedBy sends requests that the adapter must refuse, each over a connection of its own.
func (s *station) refusedBy(list []refusedRequest) {
	for _, x := range kit.Variants(s.t, "", list) {
		p := s.dial()
		at := p.psn
		p.request(x.op, x.payload, x.twists...)
		a := p.expect("answer to "+x.what, want{op: []wire.Opcode{wire.RCAcknowledge}, psn: at, syn: x.syn})
		if x.syn != a.AETH.Syndrome {
			p.wrong(a, "answer to "+x.what, x.syn.String(), a.AETH.Syndrome.String())
		}
		for range 2 { // the QP is in Error
			p.request(wire.RCWriteOnly, nil)
			p.stray(wire.RCWriteOnly, nil, withPSN(at))
		}
		p.silent("requests after the NAK of " + x.what)
		p.over()
	}
}

// refusedRequest is a request and the NAK that it gets.
type refusedRequest struct {
	what    string
	op      wire.Opcode
	payload []byte
	twists  []twist
	syn     wire.Syndrome
}

// silent fails the case if the QP acknowledges a request. The program may end the connection meanwhile.
func (p *peer) silent(what string) {
	if x := p.next(p.patience() / 2); x != nil && (x.BTH.Opcode != wire.RCAcknowledge || x.AETH.Syndrome.IsACK()) {
		p.wrong(x, "answer to "+what, "none", x.String())
	}
}

var _ = programCases.Add("peer.refused", "requests without rights, of wrong lengths and out of sequence",
	func(t *validate.T) {
		s := open(t)
		g := s.program
		isCM := g.Service != 0 // the kernel's CM grants READ and WRITE
		key := withReth(wire.RETH{VA: 0x10, RKey: 0xffffff01, DMALen: 8})
		write, read := wire.NAKInvalidRequest, wire.NAKInvalidRequest
		if g.Plain == wire.RCWriteOnly || isCM {
			write = wire.NAKRemoteAccess
		}
		if g.Plain == wire.RCReadRequest || isCM {
			read = wire.NAKRemoteAccess
		}
		full := make([]byte, s.ca.Port.MTUOf(0).Bytes())
		list := []refusedRequest{
			{"a WRITE with a wrong key", wire.RCWriteOnly, make([]byte, 8), []twist{key}, write},
			{"a READ with a wrong key", wire.RCReadRequest, nil, []twist{key}, read},
			{"SEND MIDDLE without FIRST", wire.RCSendMiddle, full, []twist{ackReq(true)}, wire.NAKInvalidRequest},
			{"SEND LAST without FIRST", wire.RCSendLast, full[:8], nil, wire.NAKInvalidRequest},
			{"WRITE LAST without FIRST", wire.RCWriteLast, full[:8], nil, wire.NAKInvalidRequest},
		}
		s.refusedBy(list)
	}, programCases.Must("WIRE-PeerNak-01", "IBTA 9.9.3", "NAK",
		"A request that the QP does not grant, that is out of sequence within a message or that has a wrong length is "+
			"answered with a NAK 0x61, and one with a wrong key with a NAK 0x62. The NAK has the request's PSN, "+
			"and the QP acknowledges nothing after it."))

var _ = programCases.Add("peer.too-long", "a SEND longer than the receive", func(t *validate.T) {
	s := open(t)
	g := s.program
	if g.Recvs == 0 || g.RecvLen >= s.ca.Port.MTUOf(0).Bytes() {
		t.Skip("%s has no receives that are shorter than a packet", g.Name)
	}
	s.refusedBy([]refusedRequest{{fmt.Sprintf("a SEND of %d bytes to a receive of %d", g.RecvLen+4, g.RecvLen),
		wire.RCSendOnly, make([]byte, g.RecvLen+4), nil, wire.NAKInvalidRequest}})
}, wireNak08)

var _ = programCases.Add("peer.length", "a SEND FIRST of less than the MTU", func(t *validate.T) {
	s := open(t)
	if s.program.Recvs == 0 {
		t.Skip("%s posts no receives", s.program.Name)
	}
	s.refusedBy([]refusedRequest{{"SEND FIRST of less than the MTU", wire.RCSendFirst, make([]byte, 16),
		[]twist{ackReq(true)}, wire.NAKInvalidRequest}})
}, wireNak06)

var _ = programCases.Add("peer.reserved", "requests with reserved opcodes", func(t *validate.T) {
	s := open(t)
	for _, code := range kit.Variants(t, "opcode", reservedOps[:3]) {
		p := s.dial()
		at := p.psn
		p.stray(wire.RCWriteOnly, nil, func(o *outgoing) { o.alter = func(b []byte) { b[0] = code } })
		p.request(wire.RCWriteOnly, nil)
		what := fmt.Sprintf("a request with the reserved opcode %#02x", code)
		x := p.next(t.Remaining())
		isACK := x != nil && x.BTH.Opcode == wire.RCAcknowledge && x.BTH.PSN == at
		if isACK && x.AETH.Syndrome == wire.NAKInvalidRequest {
			t.Note("a reserved opcode is answered with a NAK 0x61 and not dropped")
		} else if x != nil {
			p.match(x, "acknowledgement of the request after "+what, acked(at, 1))
		} else {
			t.Fail(validate.Failure{Where: "answer to a request after " + what, Expected: "an ACK, or a NAK 0x61",
				Got: "no packet by the deadline", Doubt: validate.DoubtTime})
		}
		p.over()
	}
}, programCases.Must("WIRE-PeerNak-02", "IBTA 9.9", "reserved OpCode",
	"A request with a reserved opcode is dropped, or answered with a NAK 0x61 that has its PSN."))

var _ = programCases.Add("peer.rnr", "more SENDs than receives", func(t *validate.T) {
	p := dial(t)
	g := p.program
	if g.Recvs == 0 || g.Recvs > 64 || g.Ask == nil {
		t.Skip("%s has %d receives", g.Name, g.Recvs)
	}
	p.barrier("nothing", 1)
	at := p.psn
	for range g.Recvs + 8 {
		p.request(wire.RCSendOnly, p.question(0)[:min(g.RecvLen, 16)])
	}
	for executed := 0; executed < g.Recvs+8; {
		x := p.next(t.Remaining())
		due := wire.PSNAdd(at, executed)
		switch {
		case x == nil && p.stock.conn != nil && p.stock.conn.isOver:
			t.Note("%s has ended the connection after %d SENDs", g.Name, executed)
			return
		case x == nil:
			t.Fail(validate.Failure{Where: fmt.Sprintf("answer to SEND %d, with %d receives", executed+1, g.Recvs),
				Expected: "an ACK or an RNR NAK", Got: "no packet by the deadline", Doubt: validate.DoubtTime})
		case x.BTH.Opcode == wire.RCAcknowledge && x.AETH.Syndrome.IsACK():
			n := wire.PSNDiff(x.BTH.PSN, due) + 1
			p.match(x, "acknowledgement of SENDs", want{op: []wire.Opcode{wire.RCAcknowledge}, psn: due,
				anyPSN: n > 0 && executed+n <= g.Recvs+8, syn: wire.ACK(wire.CreditsInvalid), msn: executed + n + 1})
			executed += n
			continue
		}
		// An RNR NAK acknowledges the SENDs before it.
		executed += max(wire.PSNDiff(x.BTH.PSN, due), 0)
		due = wire.PSNAdd(at, min(executed, g.Recvs+7))
		p.match(x, "answer to a SEND without a receive", nak(due, wire.RNRNAK(x.AETH.Syndrome.Value()), executed+1))
		// The SENDs after it are dropped. Some implementations answer one of them with a sequence error.
		if x = p.next(p.patience() / 4); x != nil {
			p.match(x, "answer to a SEND after one without a receive", nak(due, wire.NAKPSNSequence, executed+1))
		}
		return
	}
	t.Note("%s posted receives faster than SENDs arrived, so no RNR NAK was seen", g.Name)
}, programCases.Must("WIRE-PeerRnr-01", "IBTA 9.7.5.2.8", "RNR NAK",
	"A SEND without a receive is answered with an RNR NAK that has its PSN and the MSN of the messages before it, and "+
		"no SEND after it is executed."))

var _ = programCases.Add("peer.ecn", "requests with ECN marks in the IP header", func(t *validate.T) {
	p := dial(t)
	if !p.info.SendsHeader && !p.info.SendsClass {
		t.Skip("the certifier's end of the link cannot set the traffic class")
	}
	for i := range 8 {
		p.request(wire.RCWriteOnly, nil, func(o *outgoing) { o.class = 3 })
		p.expect("acknowledgement of a request with ECN mark CE", acked(p.last(), i+1))
	}
}, programCases.Must("WIRE-PeerEcn-01", "RoCEv2 A17.9.1", "ECN",
	"A request with the mark CE is executed like any other. The receiver may send congestion notification packets."))

// askCases are the cases of programs' adapters as requesters.
var askCases = area()

// longer is a time in which a requester with any of the programs' ACK timeouts sends a request again.
const longer = 3 * time.Second

var _ = askCases.Add("peer.ask.timeout", "no answer to a request", func(t *validate.T) {
	p := dial(t)
	p.ask()
	first := p.mustAsk("request after " + p.program.Name + " was asked")
	seen := map[uint32]int{first.BTH.PSN: 1}
	for deadline := time.Now().Add(min(longer, t.Remaining())); seen[first.BTH.PSN] < 3; {
		x := p.asks(time.Until(deadline))
		if x == nil {
			t.Fail(validate.Failure{Where: "transmissions of a request without an answer", Expected: "at least 3",
				Got: fmt.Sprint(seen[first.BTH.PSN]), Doubt: validate.DoubtTime})
		}
		seen[x.BTH.PSN]++
	}
	p.stock.isManual = false
	p.settle()
}, askCases.Must("WIRE-PeerAsk-01", "IBTA 9.7.6.1.3", "ACK timeout",
	"A request without an answer is sent again, unchanged and from the oldest one without an answer on. It completes "+
		"when it is answered."))

// settle answers the program's requests until its message has arrived, and sends the next one.
func (p *peer) settle() {
	p.stock.asked = nil
	for deadline := time.Now().Add(min(2*longer, p.t.Remaining())); len(p.stock.heard) == 0; {
		x := p.arrival(max(time.Until(deadline), 0), p.service)
		if x == nil {
			p.t.Fail(validate.Failure{Where: "requests of the program that are answered at last",
				Expected: "a message of the program", Got: "none by the deadline", Doubt: validate.DoubtTime})
		}
		p.isAnswer(x)
	}
	p.barrier("a message of the program", -1)
}

var _ = askCases.Add("peer.ask.sequence", "a NAK of a sequence error", func(t *validate.T) {
	p := dial(t)
	p.ask()
	first := p.mustAsk("request after " + p.program.Name + " was asked")
	p.answer(wire.RCAcknowledge, first.BTH.PSN, wire.NAKPSNSequence, p.stock.msn, nil)
	for {
		x := p.mustAsk("request again after a NAK of a sequence error")
		if x.BTH.PSN == first.BTH.PSN {
			break
		}
	}
	p.stock.isManual = false
	p.settle()
}, askCases.Must("WIRE-PeerAsk-02", "IBTA 9.7.5.2.1", "NAK sequence error",
	"After a NAK of a sequence error, the requests are sent again unchanged from the PSN of the NAK on."))

var _ = askCases.Add("peer.ask.rnr", "an RNR NAK", func(t *validate.T) {
	p := dial(t)
	p.ask()
	first := p.mustAsk("request after " + p.program.Name + " was asked")
	if first.BTH.Opcode.Op() == wire.OpReadRequest {
		first = nil // RNR NAKs answer SENDs only, so the READ is answered
		p.stock.isManual = false
		for deadline := time.Now().Add(min(longer, t.Remaining())); first == nil; {
			x := p.arrival(max(time.Until(deadline), 0), p.service)
			if x == nil {
				t.Inconclusive("%s sent no message after its READ", p.program.Name)
			}
			if x.at >= 0 && x.BTH.DestQP == p.qpn && x.BTH.Opcode.Op() == wire.OpSend {
				p.stock.isManual, first = true, x
			}
			p.isAnswer(x)
		}
		p.stock.asked = nil
	}
	for p.asks(time.Millisecond) != nil { // sent again meanwhile
	}
	const code = 24 // 40.96 ms
	sent := time.Now()
	p.answer(wire.RCAcknowledge, first.BTH.PSN, wire.RNRNAK(code), p.stock.msn, nil)
	for {
		x := p.mustAsk("request again after an RNR NAK")
		if x.BTH.PSN != first.BTH.PSN {
			continue
		}
		if d := x.when.Sub(sent); d < wire.RNRTimer(code) {
			p.wrong(x, "time until a request is sent again after an RNR NAK", "at least "+wire.RNRTimer(code).String(),
				d.String())
		}
		break
	}
	p.stock.isManual = false
	p.settle()
}, askCases.Must("WIRE-PeerAsk-03", "IBTA 9.7.5.2.8", "RNR NAK",
	"After an RNR NAK, a SEND is sent again unchanged, when the time of the NAK is over."))

// strayAnswer sends an answer that the program's adapter must drop, between its request and the answer to that.
func strayAnswer(t *validate.T, send func(p *peer, first uint32)) {
	p := dial(t)
	p.ask()
	first := p.mustAsk("request after " + p.program.Name + " was asked")
	send(p, first.BTH.PSN)
	p.stock.isManual = false
	p.settle()
}

var _ = askCases.Add("peer.ask.stray-answers", "duplicate and corrupt answers, and answers of old requests",
	func(t *validate.T) {
		strayAnswer(t, func(p *peer, first uint32) {
			old := wire.PSNAdd(first, -1)
			p.ack(old, p.stock.msn)
			p.answer(wire.RCAcknowledge, old, wire.NAKRemoteAccess, p.stock.msn, nil)
			p.answer(wire.RCAcknowledge, first, wire.NAKRemoteAccess, 0, nil, func(o *outgoing) { o.icrcDelta = 1 })
		})
	}, askCases.Must("WIRE-PeerAsk-04", "IBTA 9.7.6", "duplicate acknowledgements",
		"Acknowledgements of requests that are acknowledged, and ones with a wrong ICRC, are dropped. The program's "+
			"requests complete when they are answered."))

var _ = askCases.Add("peer.ask.ghost", "an ACK of a request that was not sent", func(t *validate.T) {
	strayAnswer(t, func(p *peer, first uint32) { p.ack(wire.PSNAdd(first, 1000), 1000) })
}, wireReact02)

var _ = askCases.Add("peer.ask.corrupt", "READ responses that are lost, corrupt, duplicated and out of order",
	func(t *validate.T) {
		s := open(t)
		if s.program.AskLen == 0 {
			t.Skip("%s sends no READs", s.program.Name)
		}
		p := s.dial(kit.MTU(ci.MTU256))
		p.ask()
		x := p.mustAsk("request after " + p.program.Name + " was asked")
		n := p.packets(int(x.RETH.DMALen))
		send := func(k int, twists ...twist) {
			op, _ := wire.Make(wire.RC, wire.OpReadResponse, k == 0, k == n-1, false, false)
			data := p.stock.memory[min(k*p.mtu, p.program.AskLen):min((k+1)*p.mtu, p.program.AskLen)]
			p.answer(op, x.BTH.PSN+uint32(k), wire.ACK(wire.CreditsInvalid), 1, data, twists...)
		}
		if n < 3 {
			t.Skip("%s reads %d bytes, which is less than three packets", p.program.Name, x.RETH.DMALen)
		}
		if int(x.RETH.DMALen) != p.program.AskLen || x.RETH.VA != memoryAddr {
			p.wrong(x, "the READ", fmt.Sprintf("%d bytes at %#x", p.program.AskLen, memoryAddr), x.String())
		}
		send(0)
		send(0) // a duplicate
		send(1, func(o *outgoing) { o.icrcDelta = 1 })
		send(2) // before the second
		p.stock.due, p.stock.msn = wire.PSNAdd(x.BTH.PSN, n), 1
		p.stock.isManual = false
		p.settle()
	}, askCases.Must("WIRE-PeerAsk-05", "IBTA 9.7.6", "lost READ response",
		"Duplicates, corrupt packets and gaps in a READ response do no harm: the rest is requested again, from the "+
			"first packet that is missing or from the start."))

var _ = askCases.Add("peer.ask.refused", "a NAK of a remote access error", func(t *validate.T) {
	p := dial(t)
	p.ask()
	first := p.mustAsk("request after " + p.program.Name + " was asked")
	p.answer(wire.RCAcknowledge, first.BTH.PSN, wire.NAKRemoteAccess, p.stock.msn, nil)
	sent := time.Now()
	for x := p.asks(p.patience()); x != nil; x = p.asks(p.patience()) {
		if x.when.Sub(sent) > 100*time.Millisecond {
			p.wrong(x, "requests after a NAK of a remote access error", "none", x.String())
		}
	}
	p.stock.isManual = false
	p.request(wire.RCWriteOnly, nil)
	p.silent("a request to a QP that got a NAK of a remote access error")
}, askCases.Must("WIRE-PeerAsk-06", "IBTA 9.9.2.4", "fatal NAK",
	"After a NAK of a remote access error the QP is in Error: it sends no requests, and acknowledges none."))

// The case is one ping of rping, whose data have to arrive although the certifier drops, repeats, reorders and corrupts
// packets in both directions.
var _ = askCases.With(validate.Case{Timeout: 30 * time.Second}).Add("peer.ask.impaired",
	"transfers over a link with faults", func(t *validate.T) {
		p := dial(t)
		if p.program.Service == 0 {
			t.Skip("%s does not transfer what it has read", p.program.Name)
		}
		p.impaired()
	}, askCases.Must("WIRE-PeerAsk-07", "IBTA 9.7.3", "reliability",
		"Data that the program reads and writes back arrive unchanged and once, although packets are lost, repeated, "+
			"reordered and corrupted in both directions."))

// impaired does a ping of rping over a link with faults.
func (p *peer) impaired() {
	r := p.t.Rand()
	clean, one := p.w, func(n uint32) bool { return r.Uint32N(n) == 0 }
	p.w = &faulty{Wire: clean, one: one}
	p.stock.loses = func() bool { return one(12) }
	defer func() { p.w, p.stock.loses = clean, nil }()
	p.t.Logf("the certifier drops, repeats, reorders and corrupts one packet in twelve, after they were recorded")
	n := p.program.AskLen
	for range 3 {
		p.fill()
		p.stock.heard = nil
		for half := range 2 {
			p.deliver(p.question(half), half+1)
		}
		if got := p.stock.memory[n:]; !bytes.Equal(got, p.stock.memory[:n]) {
			p.t.Failf("data that the program has read and written back", "the bytes that it has read", "others: % x",
				got[:min(n, 64)])
		}
	}
}

// deliver sends a SEND until it is acknowledged, and waits until the program has sent messages.
func (p *peer) deliver(data []byte, messages int) {
	at, isAcked := p.psn, false
	p.psn = wire.PSNAdd(at, 1)
	for p.t.Remaining() > time.Millisecond {
		if !isAcked {
			p.stray(wire.RCSendOnly, data, withPSN(at))
		}
		x := p.next(min(200*time.Millisecond, p.t.Remaining()))
		isAnswer := x != nil && x.BTH.PSN == at && x.BTH.Opcode == wire.RCAcknowledge
		isAcked = isAcked || isAnswer && x.AETH.Syndrome.IsACK()
		if isAcked && len(p.stock.heard) >= messages {
			return
		}
	}
	p.t.Fail(validate.Failure{Where: "a ping over a link with faults", Doubt: validate.DoubtTime,
		Expected: "an ACK of the SEND and a message of the program",
		Got:      fmt.Sprintf("ACK: %v, messages: %d of %d", isAcked, len(p.stock.heard), messages)})
}

// faulty is an end of the link that loses, repeats, holds back and corrupts packets that it sends.
type faulty struct {
	validate.Wire
	one  func(n uint32) bool // reports true once in n times
	held []byte
}

// Send implements validate.Wire.
func (f *faulty) Send(b []byte) error {
	held := f.held
	f.held = nil
	switch {
	case f.one(12):
		return nil
	case f.one(12):
		b = bytes.Clone(b)
		b[len(b)-1] ^= 0x10
	case held == nil && f.one(12):
		f.held = bytes.Clone(b)
		return nil
	case f.one(12):
		held = b
	}
	if err := f.Wire.Send(b); err != nil || held == nil {
		return err
	}
	return f.Wire.Send(held)
}
