package wiresuite

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// Requests whose answers are missing, late, early or repeated, and what the QP does meanwhile. (IBTA 9.7.5, 9.7.6,
// 10.3.1, 10.8.5.)
var unanswered = area()

var _ = unanswered.Add("wire.react.rnr-twice", "an RNR NAK that comes twice, with one RNR retry", reactRNRTwice,
	wireReact06)

// longRNR is the code of an RNR timer of 82 ms, in which the certifier sends several packets.
const longRNR = 26

// slowRNR is the code of the longest RNR timer, of 655 ms.
const slowRNR = 0

func reactRNRTwice(t *validate.T) {
	p := dial(t, kit.RNRRetry(1))
	p.sent(2)
	begin := time.Now()
	for range 3 {
		p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(longRNR), 0, nil)
	}
	if time.Since(begin) > wire.RNRTimer(longRNR)/2 {
		t.Note("the machine is too slow to repeat an RNR NAK before the retransmission")
		return
	}
	for i := range 2 {
		p.sendOf(i, "retransmission after an RNR NAK that came three times")
	}
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(1, 2)
}

// The case sends copies of a NAK, as a network may. They do not report further losses, so that they may not use up the
// retries of the connection.
var _ = unanswered.Add("wire.react.sequence-twice",
	"a NAK 0x60 that comes three times, with one retry", func(t *validate.T) {
		p := dial(t, kit.Retry(1))
		p.sent(2)
		for range 3 {
			p.answer(wire.RCAcknowledge, p.from, wire.NAKPSNSequence, 0, nil)
		}
		for i := range 2 {
			p.sendOf(i, "retransmission after a NAK 0x60 that came three times")
		}
		p.ack(p.from+1, 2)
		p.CQ.WaitOK(1, 2)
		p.WantState(ci.QPRTS)
	}, wireReact04)

var _ = unanswered.Add("wire.react.rnr-unlimited", "ten RNR NAKs to a QP with RNR retry count 7", func(t *validate.T) {
	p := dial(t, kit.RNRRetry(7))
	p.Send(p.SendWR(1, 0, 8))
	for i := range 10 {
		p.sendOf(0, fmt.Sprintf("transmission %d of a SEND with an RNR retry count of 7, for ever", i+1))
		p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(1), 0, nil)
	}
	p.sendOf(0, "transmission after ten RNR NAKs")
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
}, wireReact06)

var _ = unanswered.Add("wire.react.rnr-refreshed",
	"RNR NAKs for several SENDs, each with one RNR retry", func(t *validate.T) {
		p := dial(t, kit.RNRRetry(1))
		for i := range 3 {
			p.Send(p.SendWR(uint64(i+1), 8*i, 8))
			p.sendOf(i, "first transmission")
			p.answer(wire.RCAcknowledge, p.from+uint32(i), wire.RNRNAK(1), uint32(i), nil)
			p.sendOf(i, "transmission after an RNR NAK")
			p.ack(p.from+uint32(i), uint32(i+1))
			p.CQ.WaitOK(uint64(i + 1))
		}
	}, wireReact15)

var _ = unanswered.Add("wire.react.rnr-overtaken", "an ACK that arrives while the QP waits after an RNR NAK",
	reactRNROvertaken, wireReact01)

// waiting posts a request without packets that waits for all before it, if the adapter has one, and returns its id.
func (p *peer) waiting() []uint64 {
	if !p.t.Claims().Has(ci.CapFastReg) {
		return nil
	}
	mr, err := p.PD.AllocFastRegMR(1)
	kit.OK(p.t, err, "PD.AllocFastRegMR")
	kit.Own(p.t, mr, "fast registration MR")
	p.Send(ci.SendWR{ID: 99, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: mr.Region().RKey})
	return []uint64{99}
}

func reactRNROvertaken(t *validate.T) {
	s := open(t)
	for _, acks := range kit.Variants(t, "acknowledged", []int{1, 2, 3}) {
		p := s.dial()
		p.sent(3)
		later := p.waiting()
		begin := time.Now()
		p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(longRNR), 0, nil)
		p.ack(p.from+uint32(acks)-1, uint32(acks))
		if time.Since(begin) > wire.RNRTimer(longRNR)/2 {
			t.Note("the machine is too slow to acknowledge before the retransmission")
			return
		}
		for i := range acks {
			p.CQ.WaitOK(uint64(i + 1))
		}
		// What has been acknowledged is not sent again.
		for i := acks; i < 3; i++ {
			p.sendOf(i, fmt.Sprintf("retransmission after an RNR NAK of the first and an ACK of SEND %d", acks))
		}
		p.ack(p.from+2, 3)
		for i := acks; i < 3; i++ {
			p.CQ.WaitOK(uint64(i + 1))
		}
		p.CQ.WaitOK(later...)
		p.Send(p.SendWR(4, 24, 8))
		p.sendOf(3, "the next SEND")
		p.ack(p.from+3, 4)
		p.CQ.WaitOK(4)
	}
}

var _ = unanswered.Add("wire.react.rnr-part",
	"an ACK of a part of a message while the QP waits after an RNR NAK", func(t *validate.T) {
		p := dial(t)
		n := 3*p.mtu + 5
		w := p.SendWR(1, 32, n)
		p.Send(w)
		after := p.departs(wire.OpSend, w, n, p.from)
		begin := time.Now()
		p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(longRNR), 0, nil)
		p.ack(p.from+1, 0)
		if time.Since(begin) > wire.RNRTimer(longRNR)/2 {
			t.Note("the machine is too slow to acknowledge before the retransmission")
			return
		}
		for k := 2; k < 4; k++ {
			code, _ := wire.Make(wire.RC, wire.OpSend, false, k == 3, false, false)
			p.expect(fmt.Sprintf("retransmission of packet %d of 4, of which two are acknowledged", k+1),
				want{op: []wire.Opcode{code}, psn: p.from + uint32(k),
					payload: append([]byte{}, p.Buf.Bytes[32+k*p.mtu:32+min((k+1)*p.mtu, n)]...)})
		}
		p.ack(wire.PSNAdd(after, -1), 1)
		p.CQ.WaitOK(1)
	}, wireReact01)

var _ = unanswered.Add("wire.react.sequence-count",
	"NAKs 0x60 and implied NAKs to a QP without retries", func(t *validate.T) {
		s := open(t)
		p := s.dial(kit.Retry(0))
		p.sent(2)
		p.answer(wire.RCAcknowledge, p.from+1, wire.NAKPSNSequence, 1, nil)
		p.CQ.WaitOK(1)
		p.CQ.WaitStatus(2, ci.WCTimeoutRetryErr)
		p.fatal()
		s.over(p, "a NAK 0x60 without a retry left")

		p = s.dial(kit.Retry(0))
		p.Send(p.readWR(1, 8), p.SendWR(2, 0, 8))
		p.expectRead("a READ", 8, p.from)
		p.expect("SEND after the READ", want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 1, length: 8})
		p.ack(p.from+1, 2)
		p.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
		p.CQ.WaitFlushed(2)
		p.fatal()
		s.over(p, "an implied NAK without a retry left")
	}, unanswered.Must("WIRE-React-21", "IBTA 9.7.5", "retry counter; NAK 0x60, implied NAK",
		"A NAK 0x60 and an implied NAK each use a retry. Without a retry left, the request completes with the status "+
			"transport retries exhausted and is not sent again."))

var _ = unanswered.Add("wire.react.response-acks",
	"a READ response and an ATOMIC acknowledge after SENDs without an ACK", func(t *validate.T) {
		p := dial(t)
		p.sent(3)
		n := p.mtu + 8
		data := p.bytes(n)
		p.blank()
		p.Send(p.readWR(4, n))
		p.expectRead("a READ of two packets", n, p.from+3)
		p.serveFrom(p.from+3, data, 0, 1, 4)
		p.CQ.WaitOK(1, 2, 3)
		p.noMore("the first packet of a READ response")
		p.serveFrom(p.from+3, data, 1, 2, 4)
		p.CQ.WaitOK(4)
		p.Buf.WantOnly(t, "data of the READ", 32, data)
		if t.Attr().Atomicity == ci.AtomicNone {
			return
		}
		w := p.SendWR(6, 64, 8)
		w.Op, w.Remote = ci.OpFetchAdd, elsewhere8
		p.Send(p.SendWR(5, 0, 8), w)
		at := p.from + 5
		p.expect("a SEND", want{op: []wire.Opcode{wire.RCSendOnly}, psn: at, length: 8})
		p.expect("a fetch and add", want{op: []wire.Opcode{wire.RCFetchAdd}, psn: at + 1, length: 0})
		p.answer(wire.RCAtomicAcknowledge, at+1, wire.ACK(wire.CreditsInvalid), 6, nil, withOrig(77))
		p.CQ.WaitOK(5, 6)
		kit.Equal(t, "original value", kit.LoadWord(p.Buf.Bytes[64:]), 77)
	}, unanswered.Must("WIRE-React-22", "IBTA 9.7.5", "responses as acknowledgements",
		"A READ response or an ATOMIC acknowledge acknowledges each SEND and WRITE before its request."))

var wireReact23 = unanswered.Must("WIRE-React-23", "IBTA 9.7.5", "duplicate response",
	"A READ response or an ATOMIC acknowledge of a PSN that was already answered, or that was not requested, is "+
		"ignored, and nothing of it is written.")

var _ = unanswered.Add("wire.react.response-again",
	"READ responses and ATOMIC acknowledges that come again, or for no request", func(t *validate.T) {
		ack := wire.ACK(wire.CreditsInvalid)
		p := dial(t)
		m := p.mtu
		p.answer(wire.RCReadResponseOnly, p.from, ack, 1, p.bytes(8))
		p.noMore("a READ response before any request")
		n := 2*m + 8
		data := p.bytes(n)
		p.blank()
		p.Send(p.readWR(1, n))
		p.expectRead("a READ of three packets", n, p.from)
		p.serveFrom(p.from, data, 0, 1, 1)
		p.answer(wire.RCReadResponseFirst, p.from, ack, 1, p.bytes(m))
		p.noMore("the first packet of a READ response again")
		p.serveFrom(p.from, data, 1, 2, 1)
		p.answer(wire.RCReadResponseFirst, p.from, ack, 1, p.bytes(m))
		p.answer(wire.RCReadResponseMiddle, p.from+1, ack, 1, p.bytes(m))
		p.noMore("two packets of a READ response again")
		p.serveFrom(p.from, data, 2, 3, 1)
		p.CQ.WaitOK(1)
		p.answer(wire.RCReadResponseLast, p.from+2, ack, 1, p.bytes(8))
		p.noMore("the last packet of a READ response again")
		p.answer(wire.RCReadResponseOnly, p.from+3, ack, 2, p.bytes(8))
		p.noMore("a READ response behind all requests")
		p.Buf.WantOnly(t, "data of the READ", 32, data)
		if t.Attr().Atomicity == ci.AtomicNone {
			return
		}
		w := p.SendWR(2, 64, 8)
		w.Op, w.Remote = ci.OpFetchAdd, elsewhere8
		p.Send(w)
		at := p.from + 3
		p.expect("a fetch and add", want{op: []wire.Opcode{wire.RCFetchAdd}, psn: at, length: 0})
		p.answer(wire.RCAtomicAcknowledge, at-1, ack, 1, nil, withOrig(55))
		p.noMore("an ATOMIC acknowledge of the PSN of a READ that is answered")
		p.answer(wire.RCAtomicAcknowledge, at, ack, 2, nil, withOrig(77))
		p.CQ.WaitOK(2)
		p.answer(wire.RCAtomicAcknowledge, at, ack, 2, nil, withOrig(66))
		p.noMore("an ATOMIC acknowledge again")
		kit.Equal(t, "original value", kit.LoadWord(p.Buf.Bytes[64:]), 77)
		kit.Equal(t, "state of the QP", p.State(), ci.QPRTS)
	}, wireReact23)

var _ = unanswered.Add("wire.react.rtr", "answers to a QP in RTR, which has sent nothing", func(t *validate.T) {
	ack := wire.ACK(wire.CreditsInvalid)
	p := open(t).raw()
	p.Init()
	p.RTRTo(p.av, ci.QPN(p.qpn), ci.PSN(p.psn))
	p.ack(p.from, 1)
	p.answer(wire.RCAcknowledge, p.from, wire.NAKRemoteAccess, 0, nil)
	p.answer(wire.RCReadResponseOnly, p.from, ack, 1, p.bytes(8))
	p.answer(wire.RCAtomicAcknowledge, p.from, ack, 1, nil, withOrig(66))
	p.barrier("answers to a QP in RTR", 1)
	p.RTS()
	p.sent(1)
	p.noMore("answers that came in RTR")
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
}, wireReact23)

var _ = unanswered.Add("wire.react.read-opcode",
	"READ responses that begin or end with the wrong opcode", func(t *validate.T) {
		s := open(t)
		m := s.dial().mtu
		for _, x := range kit.Variants(t, "", []struct {
			what string
			all  int // bytes of the READ
			op   wire.Opcode
			n    int // bytes of the packet
		}{
			{"a MIDDLE at the beginning", 2 * m, wire.RCReadResponseMiddle, m},
			{"a LAST at the beginning", 2 * m, wire.RCReadResponseLast, m},
			{"a FIRST for a READ of one packet", m, wire.RCReadResponseFirst, m},
			{"a MIDDLE for a READ of one packet", m, wire.RCReadResponseMiddle, m},
			{"a LAST for a READ of one packet", 8, wire.RCReadResponseLast, 8},
			{"an ONLY of more than the MTU", m + 4, wire.RCReadResponseOnly, m + 4},
			{"an ONLY of one byte for a READ of none", 0, wire.RCReadResponseOnly, 1},
			{"an empty ONLY for a READ of one byte", 1, wire.RCReadResponseOnly, 0},
			{"an empty FIRST", 2 * m, wire.RCReadResponseFirst, 0},
		}) {
			p := s.dial()
			p.blank()
			p.Send(p.readWR(1, x.all))
			p.expectRead("a READ", x.all, p.from)
			p.answer(x.op, p.from, wire.ACK(wire.CreditsInvalid), 1, p.bytes(x.n))
			p.CQ.WaitStatus(1, ci.WCBadRespErr, ci.WCLocalLenErr)
			p.fatal()
			for i, b := range p.Buf.Bytes[32+x.all:] {
				kit.True(t, b == 0xee, "memory behind that of a READ that was answered with "+x.what, "nothing written",
					"byte %d behind it is %#02x", i, b)
			}
		}
	}, wireReact10)

var _ = unanswered.Needing(validate.Needs{Caps: ci.CapFastReg}).Add("wire.react.local-order",
	"an invalidation between SENDs that are not acknowledged", func(t *validate.T) {
		p := dial(t)
		mr, err := p.PD.AllocFastRegMR(1)
		kit.OK(t, err, "PD.AllocFastRegMR")
		page := slices.Min(t.Attr().PageSizes)
		list := kit.PageList(p.ca.DMA(kit.Pages(int(page), int(page))).Ranges(), page)
		kit.Own(t, mr, "fast registration MR")
		to := mr.Region().RKey
		reg := ci.SendWR{ID: 2, Op: ci.OpFastReg, Flags: ci.SendSignaled, Ext: &ci.SendExt{FastReg: ci.FastReg{
			MR: mr, Key: to, Pages: list, PageShift: uint8(bits.TrailingZeros64(page)), IOVA: 0x10000, Length: 64,
			Access: ci.LocalWrite | ci.RemoteWrite}}}
		p.Send(p.SendWR(1, 0, 8), reg, p.SendWR(3, 8, 8))
		p.sendOf(0, "the first SEND")
		p.expect("the SEND behind a fast registration",
			want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 1, length: 8})
		p.noMore("a fast registration behind a SEND that is not acknowledged")
		// Both are sent again, and the registration keeps its place between them.
		p.answer(wire.RCAcknowledge, p.from, wire.NAKPSNSequence, 0, nil)
		p.sendOf(0, "retransmission of the first SEND")
		p.expect("retransmission of the SEND behind the registration",
			want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 1, length: 8})
		p.noMore("a retransmission")
		p.ack(p.from, 1)
		p.CQ.WaitOK(1, 2)
		p.noMore("an ACK of the first SEND")
		p.ack(p.from+1, 2)
		p.CQ.WaitOK(3)

		// An invalidation waits for the SEND before it: the peer can write until then.
		inv := ci.SendWR{ID: 5, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: to}
		p.Send(p.SendWR(4, 0, 8), inv)
		at := p.from + 2
		p.expect("a SEND before an invalidation", want{op: []wire.Opcode{wire.RCSendOnly}, psn: at, length: 8})
		p.noMore("an invalidation behind a SEND that is not acknowledged")
		p.ack(at, 3)
		p.CQ.WaitOK(4, 5)
		due := p.psn
		p.request(wire.RCWriteOnly, p.bytes(8), withReth(wire.RETH{VA: 0x10000, RKey: uint32(to), DMALen: 8}))
		p.expect("answer to a WRITE with the key that was invalidated", nak(due, wire.NAKRemoteAccess, -1))
		p.fatal()
	}, unanswered.Must("WIRE-React-24", "IBTA 10.8.5", "order of completions; requests that send nothing",
		"A request that sends no packet, such as a local invalidate, does not complete before the requests that were "+
			"posted before it, and is executed once, also if these are sent again."))

var wireSqd01 = unanswered.Must("WIRE-Sqd-01", "IBTA 10.3.1.5", "send queue drained",
	"A QP that is moved to SQD completes the requests that it has begun, retransmits them if necessary, and "+
		"begins no other. It is drained, and raises the event if asked to, when they are complete. Back in RTS "+
		"it sends the rest.")

var _ = unanswered.Add("wire.sqd.waits", "a QP that drains while SENDs are not acknowledged", func(t *validate.T) {
	p := dial(t)
	p.sent(2)
	kit.OK(t, p.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}),
		"QP.Modify to SQD")
	p.Send(p.SendWR(3, 16, 8))
	p.noMore("a SEND that is posted while the QP drains")
	kit.True(t, p.State() != ci.QPSQD, "state of a QP with requests that are not acknowledged", "not drained", "SQD")
	kit.Equal(t, "events before the queue has drained", p.Events.Count(ci.EventSQDrained), 0)
	// Attributes that need a drained queue do not change yet, and one that may change at any time does.
	err := p.Modify(ci.QPFieldRetryCount, ci.QPAttr{RetryCount: 3})
	kit.Want(t, err, "QP.Modify of the retry count while the QP drains", ci.InvalidQPState)
	a, err := p.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "retry count after a Modify that was refused", a.RetryCount, *p.Config.Retry)
	p.answer(wire.RCAcknowledge, p.from, wire.NAKPSNSequence, 0, nil)
	for i := range 2 {
		p.sendOf(i, "retransmission while the QP drains")
	}
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
	p.noMore("an ACK of the first of two SENDs, while the QP drains")
	kit.True(t, p.State() != ci.QPSQD, "state of a QP with a request that is not acknowledged", "not drained", "SQD")
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(2)
	p.Becomes(ci.QPSQD)
	p.Events.Wait(ci.EventSQDrained)
	p.noMore("the end of draining")
	p.To(ci.QPRTS)
	p.sendOf(2, "the SEND that was posted while the QP drained")
	p.ack(p.from+2, 3)
	p.CQ.WaitOK(3)
	kit.Equal(t, "events of a drained queue", p.Events.Count(ci.EventSQDrained), 1)
}, wireSqd01)

var _ = unanswered.Add("wire.sqd.silent",
	"a QP that drains without an event, and is moved on before it has drained", func(t *validate.T) {
		p := dial(t, kit.AckTime(tick+3), kit.Retry(7)) // a busy machine has half a second to acknowledge
		p.sent(1)
		p.To(ci.QPSQD)
		p.sendOf(0, "retransmission by the timer while the QP drains")
		p.ack(p.from, 1)
		p.CQ.WaitOK(1)
		p.Becomes(ci.QPSQD)
		p.To(ci.QPRTS)
		for p.Send(p.SendWR(2, 8, 8)); ; { // a retransmission of the first may have been on its way
			x := p.expect("the SEND after RTS", want{op: []wire.Opcode{wire.RCSendOnly}, anyPSN: true, length: 8})
			if x.BTH.PSN == (p.from+1)&wire.Mask24 {
				break
			}
		}
		p.ack(p.from+1, 2)
		p.CQ.WaitOK(2)
		p.Events.Only(ci.EventQPComm)
	}, wireSqd01)

var _ = unanswered.Add("wire.take.states",
	"SEND, WRITE and READ in RTR, RTS, while the QP drains, and in SQD", func(t *validate.T) {
		p := open(t).raw()
		p.Init()
		p.Recv(p.RecvWRs(5, 64)...)
		p.RTRTo(p.av, ci.QPN(p.qpn), ci.PSN(p.psn))
		msn := 0
		all := func(id uint64, where string) {
			data := p.bytes(24)
			p.request(wire.RCSendOnly, data)
			msn++
			p.expect("acknowledgement of a SEND "+where, acked(p.last(), msn))
			p.RecvCQ.WaitOK(id)
			kit.SameBytes(t, "data of a SEND "+where, p.Buf.Bytes[(id-1)*64:][:24], data)
			data = p.bytes(24)
			p.request(wire.RCWriteOnly, data, p.reth(1024, 24))
			msn++
			p.expect("acknowledgement of a WRITE "+where, acked(p.last(), msn))
			kit.SameBytes(t, "data of a WRITE "+where, p.Buf.Bytes[1024:][:24], data)
			first := p.psn
			p.request(wire.RCReadRequest, nil, p.reth(1024, 24))
			msn++
			p.readAnswer("READ "+where, first, data, msn)
		}
		all(1, "in RTR")
		p.RTS()
		all(2, "in RTS")
		p.Send(p.SendWR(1, 2048, 8))
		p.expect("a SEND", want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from, length: 8})
		p.To(ci.QPSQD)
		all(3, "while the QP drains")
		p.ack(p.from, 1)
		p.CQ.WaitOK(1)
		p.Becomes(ci.QPSQD)
		all(4, "in SQD")
		p.To(ci.QPRTS)
		all(5, "in RTS after SQD")
	}, unanswered.Must("WIRE-Take-09", "IBTA 10.3.1", "QP state; requests",
		"A QP executes and answers requests in RTR, in RTS, while it drains, and in SQD."))
