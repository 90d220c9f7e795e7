package wiresuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// reactCases are the cases of a requester that gets valid or invalid answers, or none. (IBTA 9.7.5, 9.7.6, 9.9.)
var reactCases = area()

var _ = reactCases.Add("wire.react.kind", "answers of another kind than the request", reactKind,
	reactCases.Must("WIRE-React-16", "IBTA 9.9.2", "response of another kind",
		"A READ response to a request that is no READ, or an ATOMIC acknowledge of a request that is no atomic, "+
			"completes the request with a bad response error and writes nothing."))

// sent posts n SENDs of 8 bytes with ids from 1, and receives their packets.
func (p *peer) sent(n int) {
	for i := range n {
		p.Send(p.SendWR(uint64(i+1), 8*i, 8))
	}
	for i := range n {
		p.sendOf(i, fmt.Sprintf("SEND %d of %d", i+1, n))
	}
}

// sendOf expects the packet of the SEND with index i of sent.
func (p *peer) sendOf(i int, what string) *packet {
	return p.expect(what, want{
		op:      []wire.Opcode{wire.RCSendOnly},
		psn:     p.from + uint32(i),
		payload: append([]byte{}, p.Buf.Bytes[8*i:8*i+8]...),
	})
}

// noMore expects that there are no further completions. It first sends a WRITE without data and waits for its
// acknowledgement, so that the adapter has handled all earlier packets.
func (p *peer) noMore(what string) {
	p.settled(what)
	var wc [1]ci.WC
	n, err := p.CQ.Poll(wc[:])
	kit.OK(p.t, err, "CQ.Poll")
	if n != 0 {
		p.t.Failf("send queue after "+what, "no further completion", "%s", kit.Completions(wc[:]))
	}
}

// settled sends a WRITE without data and expects its acknowledgement to be the next packet.
func (p *peer) settled(what string) {
	p.request(wire.RCWriteOnly, nil)
	p.expect("acknowledgement of the WRITE sent after "+what, acked(p.last(), -1))
}

var wireReact01 = reactCases.Must("WIRE-React-01", "IBTA 9.7.6", "coalesced acknowledgements",
	"An ACK completes each SEND and WRITE up to its PSN, in order, and none after it.")

var _ = reactCases.Add("wire.react.coalesced", "one ACK for five messages", func(t *validate.T) {
	p := dial(t)
	p.sent(5)
	p.ack(p.from+2, 3)
	p.CQ.WaitOK(1, 2, 3)
	p.noMore("an ACK of the third of five SENDs")
	p.ack(p.from+4, 5)
	p.CQ.WaitOK(4, 5)
}, wireReact01)

var _ = reactCases.Add("wire.react.partly", "an ACK in the middle of a message", func(t *validate.T) {
	p := dial(t)
	n := 2*p.mtu + 5
	p.Send(p.SendWR(1, 32, n))
	p.departs(wire.OpSend, p.SendWR(1, 32, n), n, p.from)
	p.ack(p.from+1, 0)
	p.noMore("an ACK of the second of three packets")
	p.ack(p.from+2, 1)
	p.CQ.WaitOK(1)
}, wireReact01)

var wireReact02 = reactCases.Must("WIRE-React-02", "IBTA 9.7.6", "ACK of a PSN not sent",
	"An ACK or NAK of a PSN that has not been sent is ignored.")

var _ = reactCases.Add("wire.react.unsent", "answers to PSNs not sent", func(t *validate.T) {
	p := dial(t)
	p.sent(2)
	p.ack(p.from+2, 3)
	p.noMore("an ACK one PSN beyond those sent")
	p.answer(wire.RCAcknowledge, p.from+9, wire.NAKRemoteAccess, 0, nil)
	p.noMore("a NAK of a PSN beyond those sent")
	p.ack(p.from+1<<22, 3)
	p.noMore("an ACK of a PSN far beyond those sent")
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(1, 2)
}, wireReact02)

var _ = reactCases.Add("wire.react.old", "duplicate answers", func(t *validate.T) {
	p := dial(t)
	p.sent(3)
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(1, 2)
	p.ack(p.from, 1)
	p.noMore("a duplicate ACK")
	p.answer(wire.RCAcknowledge, p.from, wire.NAKRemoteAccess, 1, nil)
	p.noMore("a NAK of a PSN that was already acknowledged")
	p.ack(p.from-5, 0)
	p.noMore("an ACK of a PSN before the first")
	p.ack(p.from+2, 3)
	p.CQ.WaitOK(3)
	p.ack(p.from+2, 3)
	p.noMore("a duplicate ACK when nothing is outstanding")
	p.answer(wire.RCAcknowledge, p.from+2, wire.NAKPSNSequence, 3, nil)
	p.noMore("a NAK 0x60 when nothing is outstanding")
	kit.Equal(t, "state of the QP", p.State(), ci.QPRTS)
}, reactCases.Must("WIRE-React-03", "IBTA 9.7.6", "duplicate ACK",
	"An ACK or NAK of a PSN that was already acknowledged is ignored."))

var wireReact04 = reactCases.Must("WIRE-React-04", "IBTA 9.7.6", "PSN sequence error",
	"After a NAK 0x60 the requester resumes at its PSN, inside a message with the opcode of that packet. "+
		"Requests before that PSN count as acknowledged.")

var _ = reactCases.Add("wire.react.sequence", "a NAK 0x60 in the middle of a message", func(t *validate.T) {
	p := dial(t)
	n := 4*p.mtu + 5
	w := p.SendWR(1, 32, n)
	for _, op := range kit.Variants(t, "opcode", []wire.Op{wire.OpSend, wire.OpWrite}) {
		if op == wire.OpWrite {
			w.Op, w.Remote = ci.OpWrite, elsewhere
		}
		psn := p.from
		p.Send(w)
		p.from = p.departs(op, w, n, psn)
		p.answer(wire.RCAcknowledge, psn+2, wire.NAKPSNSequence, 0, nil)
		for k := 2; k < 5; k++ {
			code, _ := wire.Make(wire.RC, op, false, k == 4, false, false)
			p.expect(fmt.Sprintf("retransmission of packet %d of 5 of %v after a NAK 0x60 of packet 3", k+1, op),
				want{op: []wire.Opcode{code}, psn: psn + uint32(k),
					payload: append([]byte{}, p.Buf.Bytes[32+k*p.mtu:32+min((k+1)*p.mtu, n)]...)})
		}
		p.ack(psn+4, 1)
		p.CQ.WaitOK(1)
	}
}, wireReact04)

var _ = reactCases.Add("wire.react.sequence-message", "a NAK 0x60 between messages", func(t *validate.T) {
	p := dial(t)
	p.sent(4)
	p.answer(wire.RCAcknowledge, p.from+2, wire.NAKPSNSequence, 2, nil)
	p.CQ.WaitOK(1, 2)
	for i := 2; i < 4; i++ {
		p.sendOf(i, fmt.Sprintf("retransmission of SEND %d of 4 after a NAK 0x60 of the third", i+1))
	}
	p.ack(p.from+3, 4)
	p.CQ.WaitOK(3, 4)
}, wireReact04)

var wireReact05 = reactCases.Must("WIRE-React-05", "IBTA 9.7.6", "RNR NAK; RNR timer",
	"After an RNR NAK the requester retransmits from its PSN, and not before the time of its timer code has "+
		"passed.")

var _ = reactCases.Add("wire.react.rnr", "RNR NAKs with several timer codes", func(t *validate.T) {
	p := dial(t)
	p.sent(2)
	for _, code := range kit.Variants(t, "RNR timer code", []uint8{8, 14, 18, 20}) {
		refused := time.Now()
		p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(code), 0, nil)
		x := p.sendOf(0, "retransmission of a SEND that got an RNR NAK")
		// The first time is taken before the NAK is sent, the second after the packet has arrived. A busy machine can
		// only make the wait look longer.
		if wait := x.when.Sub(refused); wait < wire.RNRTimer(code)*9/10 {
			p.wrong(x, fmt.Sprintf("retransmission of a SEND that got an RNR NAK with timer code %d", code),
				fmt.Sprintf("at least %v after the NAK", wire.RNRTimer(code)), fmt.Sprintf("after %v", wait))
		}
		p.sendOf(1, "retransmission of the SEND after it")
	}
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(1, 2)
}, wireReact05)

var wireReact06 = reactCases.Must("WIRE-React-06", "IBTA 9.7.6", "RNR retry count",
	"A request that gets only RNR NAKs is retransmitted as often as the RNR retry count allows. Then it "+
		"completes with the status RNR retries exhausted.")

var _ = reactCases.Add("wire.react.rnr-count", "RNR NAKs for each transmission", func(t *validate.T) {
	s := open(t)
	for _, n := range kit.Variants(t, "retry count", []uint8{0, 1, 3}) {
		p := s.dial(kit.RNRRetry(n))
		p.Send(p.SendWR(1, 0, 8))
		for i := range int(n) + 1 {
			p.sendOf(0, fmt.Sprintf("transmission %d of a SEND with an RNR retry count of %d", i+1, n))
			p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(1), 0, nil)
		}
		p.CQ.WaitStatus(1, ci.WCRNRRetryErr)
		p.fatal()
		s.over(p, fmt.Sprintf("%d transmissions", n+1))
	}
}, wireReact06)

// over expects no further packet from a QP that has failed. The next packet must be the answer to a request to another
// QP.
func (s *station) over(p *peer, what string) {
	other := s.dial()
	other.request(wire.RCWriteOnly, nil)
	x := s.arrival(s.t.Remaining(), wire.RC)
	if x == nil {
		s.t.Failf("answer to a request to another QP", "an acknowledgement", "no packet by the deadline")
	}
	if x.BTH.DestQP != other.qpn {
		p.wrong(x, "next packet after "+what, "none from the QP", x.String())
	}
	other.match(x, "acknowledgement on another QP", acked(other.last(), 1))
}

var _ = reactCases.Add("wire.react.fatal", "NAKs that move the QP to Error", func(t *validate.T) {
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		syn wire.Syndrome
		st  ci.WCStatus
	}{{wire.NAKInvalidRequest, ci.WCRemInvalidReqErr}, {wire.NAKRemoteAccess, ci.WCRemAccessErr},
		{wire.NAKRemoteOperation, ci.WCRemOpErr}}) {
		p := s.dial()
		p.sent(3)
		p.answer(wire.RCAcknowledge, p.from+1, x.syn, 1, nil)
		p.CQ.WaitOK(1)
		p.CQ.WaitStatus(2, x.st)
		p.CQ.WaitFlushed(3)
		p.fatal()
		s.over(p, fmt.Sprintf("a NAK %#02x", uint8(x.syn)))
	}
}, reactCases.Must("WIRE-React-07", "IBTA 9.9", "NAK codes",
	"A NAK 0x61, 0x62 or 0x63 completes the request of its PSN with remote invalid request, remote access error "+
		"or remote operation error. Requests before it complete with success, and those after it as flushed."))

var wireReact08 = reactCases.Must("WIRE-React-08", "IBTA 9.7.6", "implied NAK",
	"An ACK beyond an unanswered READ or atomic does not complete it. The requester sends the READ or atomic "+
		"again.")

var _ = reactCases.Add("wire.react.implied", "an ACK beyond a READ", func(t *validate.T) {
	p := dial(t)
	n := 2 * p.mtu
	p.Send(p.readWR(1, n), p.SendWR(2, 0, 8))
	p.expectRead("a READ", n, p.from)
	after := p.from + 2
	p.expect("SEND after the READ", want{op: []wire.Opcode{wire.RCSendOnly}, psn: after, length: 8})
	p.ack(after, 2)
	p.expectRead("a READ again, because the SEND after it was acknowledged before the READ was answered", n, p.from)
	data := p.bytes(n)
	p.serve(p.from, data, 1)
	// The SEND may be retransmitted, too.
	p.ack(after, 2)
	p.CQ.WaitOK(1, 2)
	kit.SameBytes(t, "data of the READ", p.Buf.Bytes[32:32+n], data)
}, wireReact08)

var _ = reactCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.react.implied-atomic",
	"an ACK beyond an atomic", reactImpliedAtomic, wireReact08)

func reactImpliedAtomic(t *validate.T) {
	p := dial(t)
	p.Send(ci.SendWR{
		ID:     1,
		Op:     ci.OpFetchAdd,
		Flags:  ci.SendSignaled,
		SGL:    p.Buf.SGL(64, 8),
		Remote: elsewhere8,
		Atomic: ci.Atomic{Compare: 3},
	}, p.SendWR(2, 0, 8))
	atomic := want{op: []wire.Opcode{wire.RCFetchAdd}, psn: p.from, length: 0}
	p.expect("fetch and add", atomic)
	p.expect("SEND after the fetch and add", want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 1, length: 8})
	p.ack(p.from+1, 2)
	p.expect("fetch and add again, because the SEND after it was acknowledged before the fetch and add was answered",
		atomic)
	p.answer(wire.RCAtomicAcknowledge, p.from, wire.ACK(wire.CreditsInvalid), 1, nil, withOrig(77))
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(1, 2)
	kit.Equal(t, "original value", kit.LoadWord(p.Buf.Bytes[64:]), 77)
}

// elsewhere8 is an aligned word of remote memory.
var elsewhere8 = ci.Remote{Addr: 0x0000123456789ab8, RKey: 0xdeadbe01}

var _ = reactCases.Add("wire.react.read-gap", "a READ response with a packet missing", func(t *validate.T) {
	p := dial(t)
	n := 3*p.mtu + 7
	data := p.bytes(n)
	p.blank()
	p.Send(p.readWR(1, n))
	p.expectRead("a READ of four packets", n, p.from)
	p.serveFrom(p.from, data, 0, 1, 1)
	p.serveFrom(p.from, data, 2, 3, 1) // the packet with index 1 is missing
	x := p.expect("repeated READ request after a response without its second packet",
		want{op: []wire.Opcode{wire.RCReadRequest}, psn: p.from + 1, length: 0})
	rest := wire.RETH{VA: elsewhere.Addr + uint64(p.mtu), RKey: uint32(elsewhere.RKey), DMALen: uint32(n - p.mtu)}
	if x.RETH.VA != rest.VA || x.RETH.RKey != rest.RKey || x.RETH.DMALen > rest.DMALen {
		p.wrong(x, "RETH for the rest of a READ", fmt.Sprintf("%+v", rest), fmt.Sprintf("%+v", x.RETH))
	}
	for i := 2 * p.mtu; i < 3*p.mtu; i++ {
		kit.True(t, p.Buf.Bytes[32+i] == 0xee, "target memory of a packet that is out of order", "nothing written",
			"byte %d is %#02x", i, p.Buf.Bytes[32+i])
	}
	for off := p.mtu; ; {
		part := int(x.RETH.DMALen)
		p.serve(p.from+uint32(off/p.mtu), data[off:off+part], 1)
		if off += part; off == n {
			break
		}
		x = p.expect("request for the next part of the READ",
			want{op: []wire.Opcode{wire.RCReadRequest}, psn: p.from + uint32(off/p.mtu), length: 0})
	}
	p.CQ.WaitOK(1)
	p.Buf.WantOnly(t, "data of the READ", 32, data)
}, reactCases.Must("WIRE-React-09", "IBTA 9.7.6", "READ response out of order",
	"A READ response packet beyond the expected PSN is not written to memory. The requester sends the READ again "+
		"from the missing PSN, with the rest of its address and length."))

var wireReact10 = reactCases.Must("WIRE-React-10", "IBTA 9.7.6", "READ response of wrong length or opcode",
	"A READ response packet of a wrong length completes the READ with a bad response error and is not accepted "+
		"as data.")

var _ = reactCases.Add("wire.react.read-length", "READ responses of wrong lengths", func(t *validate.T) {
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		op   wire.Opcode
		n    func(mtu int) int // bytes of the packet
		all  func(mtu int) int // bytes of the READ
	}{
		{"a FIRST of less than the MTU", wire.RCReadResponseFirst, func(m int) int { return m - 4 },
			func(m int) int { return 2 * m }},
		{"an ONLY of less than requested", wire.RCReadResponseOnly, func(int) int { return 8 },
			func(int) int { return 12 }},
		{"an ONLY of more than requested", wire.RCReadResponseOnly, func(int) int { return 16 },
			func(int) int { return 12 }},
		{"an ONLY for a READ of two packets", wire.RCReadResponseOnly, func(m int) int { return m },
			func(m int) int { return 2 * m }},
	}) {
		p := s.dial()
		n := x.all(p.mtu)
		p.Send(p.readWR(1, n))
		p.expectRead("a READ", n, p.from)
		p.answer(x.op, p.from, wire.ACK(wire.CreditsInvalid), 1, p.bytes(x.n(p.mtu)))
		p.CQ.WaitStatus(1, ci.WCBadRespErr, ci.WCLocalLenErr)
		p.fatal()
	}
}, wireReact10)

// tick is the shortest timeout that the cases use. A requester rounds it up by little, and a case can wait for several
// ticks.
const tick = ci.TimeExp(11) // 8.4 ms

// unhurried is the timeout of a QP whose requests are to be retransmitted and then acknowledged. Eight transmissions
// take two seconds, in which a busy machine acknowledges, too.
const unhurried = ci.TimeExp(16) // 268 ms

var wireReact11 = reactCases.Must("WIRE-React-11", "IBTA 9.7.6", "transport timer, retry count",
	"A request without an answer is sent once and retransmitted as a whole as often as the retry count allows. "+
		"Then it completes with the status transport retries exhausted.")

var _ = reactCases.Add("wire.react.timeout", "no answer at all", func(t *validate.T) {
	s := open(t)
	for _, n := range kit.Variants(t, "retry count", []uint8{0, 1, 3}) {
		p := s.dial(kit.AckTime(tick), kit.Retry(n))
		p.Send(p.SendWR(1, 0, 8))
		for i := range int(n) + 1 {
			p.sendOf(0, fmt.Sprintf("transmission %d of a SEND with a retry count of %d", i+1, n))
		}
		p.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
		p.fatal()
		s.over(p, fmt.Sprintf("%d transmissions", n+1))
	}
}, wireReact11, wireReact14)

var wireReact12 = reactCases.Must("WIRE-React-12", "IBTA 9.7.6", "transport timer",
	"A request is not retransmitted before the local ACK timeout has passed.")

var _ = reactCases.Add("wire.react.timeout-time", "the time between two transmissions", func(t *validate.T) {
	const exp = ci.TimeExp(14) // 67 ms
	p := dial(t, kit.AckTime(exp), kit.Retry(2))
	posted := time.Now()
	p.Send(p.SendWR(1, 0, 8))
	p.sendOf(0, "first transmission")
	// A packet is observed late, never early. Transmission k must arrive at least k timeouts after the post.
	timeout := 4096 * time.Nanosecond << exp
	for i := 1; i <= 2; i++ {
		x := p.sendOf(0, fmt.Sprintf("transmission %d", i+1))
		if wait := x.when.Sub(posted); wait < time.Duration(i)*timeout*9/10 {
			p.wrong(x, fmt.Sprintf("transmission %d of a SEND without an answer", i+1),
				fmt.Sprintf("at least %v after the first post", time.Duration(i)*timeout),
				fmt.Sprintf("after %v", wait))
		}
	}
	p.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
}, wireReact12, wireReact11)

var _ = reactCases.Add("wire.react.bad", "invalid responses", func(t *validate.T) {
	p := dial(t)
	p.sent(1)
	bad := func(what string, f twist) {
		p.answer(wire.RCAcknowledge, p.from, wire.ACK(wire.CreditsInvalid), 1, nil, f)
		p.noMore(what)
	}
	if p.info.Raw {
		bad("an ACK with a wrong ICRC", func(o *outgoing) { o.icrcDelta = 0x100 })
		bad("an ACK with TVer 2", func(o *outgoing) { o.alter = func(b []byte) { b[1] |= 2 } })
	}
	bad("an ACK of another partition", func(o *outgoing) { o.BTH.PKey ^= 0x0100 })
	bad("an ACK to another QP", withQP(uint32(p.Num())^0x155555))
	if p.hasOther() {
		bad("an ACK from another address", p.fromOther)
	}
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
}, reactCases.Must("WIRE-React-13", "IBTA 9.6", "packet validation",
	"A response with a wrong ICRC, of another partition, from another address or to another QP is dropped."))

var wireReact14 = reactCases.Must("WIRE-React-14", "IBTA 9.7.6", "retry",
	"A retransmitted request has the bytes of the first transmission: opcode, PSN, headers and payload.")

var _ = reactCases.Add("wire.react.same",
	"a retransmitted message of three packets, also across PSN 0xffffff", func(t *validate.T) {
		s := open(t)
		for _, from := range kit.Variants(t, "PSN", []uint32{0x123456, 0xffffff, 0xfffffe}) {
			p := s.raw(kit.AckTime(unhurried), kit.Retry(7)).at(7, from).connect()
			n := 2*p.mtu + 5
			w := p.SendWR(1, 32, n)
			w.Op, w.Remote = ci.OpWrite, elsewhere
			w.Flags |= ci.SendImmediate
			w.Imm = 7
			p.Send(w)
			for range 2 {
				p.departs(wire.OpWrite, w, n, p.from)
			}
			p.ack(wire.PSNAdd(p.from, 2), 1)
			p.CQ.WaitOK(1)
		}
	}, wireReact14, wireReact11)

var wireReact15 = reactCases.Must("WIRE-React-15", "IBTA 9.7.6", "retry counter",
	"An answer that makes progress resets the requester's retry counter.")

var _ = reactCases.Add("wire.react.refreshed", "answers between timeouts", func(t *validate.T) {
	s := open(t)
	// on a busy machine the answer may be sent after the second timeout
	for _, exp := range kit.Variants(t, "timeout exponent", []ci.TimeExp{tick, tick + 3, tick + 6}) {
		t.Step("ACK timeout %v", 4096*time.Nanosecond<<exp)
		if s.refreshed(exp) {
			return
		}
	}
	t.Fail(validate.Failure{Where: "SEND that is answered after its second transmission, with a retry count of 1",
		Expected: ci.WCSuccess.String(),
		Got:      ci.WCTimeoutRetryErr.String(), Doubt: validate.DoubtLoss})
}, wireReact15, wireReact11)

var _ = reactCases.Add("wire.react.refreshed-inside", "NAKs that acknowledge a part of a message",
	func(t *validate.T) {
		p := dial(t, kit.Retry(1))
		ops := []wire.Opcode{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendMiddle, wire.RCSendLast}
		p.Send(p.SendWR(1, 0, len(ops)*p.mtu))
		for k := range ops {
			if k > 0 {
				p.answer(wire.RCAcknowledge, p.from+uint32(k), wire.NAKPSNSequence, 0, nil)
			}
			for i := k; i < len(ops); i++ {
				p.expect(fmt.Sprintf("packet %d of a SEND, from packet %d on", i+1, k+1),
					want{op: ops[i : i+1], psn: p.from + uint32(i), length: p.mtu})
			}
		}
		p.ack(p.from+uint32(len(ops)-1), 1)
		p.CQ.WaitOK(1)
	}, wireReact15)

// refreshed answers each of four SENDs of a new QP after its second transmission. It reports whether the QP had a retry
// for each.
func (s *station) refreshed(exp ci.TimeExp) bool {
	p := s.dial(kit.AckTime(exp), kit.Retry(1))
	for i := range 4 {
		p.Send(p.SendWR(uint64(i+1), 8*i, 8))
		p.sendOf(i, "first transmission")
		p.sendOf(i, "second transmission")
		p.ack(p.from+uint32(i), uint32(i+1))
		if p.CQ.WaitStatus(uint64(i+1), ci.WCSuccess, ci.WCTimeoutRetryErr).Status != ci.WCSuccess {
			return false
		}
	}
	return true
}
