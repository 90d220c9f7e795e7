package wiresuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// What Modify changes for the packets that follow, and what a QP keeps in Reset. (IBTA 10.3.1, 10.8.3.3, 11.2.5.2.)
var changes = area()

var wireModify01 = changes.Must("WIRE-Modify-01", "IBTA 11.2.5.2", "QP.Modify in RTS and SQD",
	"An attribute that QP.Modify changes in RTS or in SQD has its new value for the requests that follow.")

var _ = changes.Add("wire.modify.responder",
	"RNR timer, access rights and responder resources of a QP in use", func(t *validate.T) {
		p := dial(t, kit.MinRNR(3), kit.Reads(1, 2))
		for i, code := range kit.Variants(t, "RNR timer code", []uint8{3, 17, 30}) {
			if i > 0 {
				kit.OK(t, p.Modify(ci.QPFieldMinRNRTimer, ci.QPAttr{MinRNRTimer: code}),
					"QP.Modify of the RNR timer in RTS")
			}
			p.stray(wire.RCSendOnly, p.bytes(8))
			p.expect("answer to a SEND without a receive", nak(p.psn, wire.RNRNAK(code), 0))
		}
		p.barrier("RNR NAKs", 1)
		for i := range 3 { // more than there are resources: the third takes the place of the first
			first := p.psn
			p.request(wire.RCReadRequest, nil, p.reth(i, 8))
			p.readAnswer("READ with resources for two", first, p.Buf.Bytes[i:][:8], 2+i)
		}
		p.To(ci.QPSQD)
		p.Becomes(ci.QPSQD)
		kit.OK(t, p.Modify(ci.QPFieldRespRes, ci.QPAttr{RespRes: 4}), "QP.Modify of the responder resources in SQD")
		p.To(ci.QPRTS)
		n := 2*p.mtu + 9
		at := p.psn
		for i := range 4 {
			p.request(wire.RCReadRequest, nil, p.reth(i*8, n))
		}
		for i := range 4 {
			p.readAnswer(fmt.Sprintf("READ %d of 4, with resources for four", i+1), at+uint32(i*p.packets(n)),
				p.Buf.Bytes[i*8:][:n], 5+i)
		}
		// Each of them is remembered, in spite of the resources at the beginning.
		for _, i := range kit.Variants(t, "duplicate", []int{0, 3, 1, 2}) {
			first := at + uint32(i*p.packets(n))
			p.stray(wire.RCReadRequest, nil, withPSN(first), p.reth(i*8, n))
			p.readAnswer("READ again", first, p.Buf.Bytes[i*8:][:n], -1)
		}
		kit.OK(t, p.Modify(ci.QPFieldAccess, ci.QPAttr{Access: ci.RemoteRead}), "QP.Modify of the access rights in RTS")
		first := p.psn
		p.request(wire.RCReadRequest, nil, p.reth(0, 8))
		p.readAnswer("READ of a QP that still grants it", first, p.Buf.Bytes[:8], -1)
		due := p.psn
		p.blank()
		p.request(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8))
		p.expect("answer to a WRITE to a QP that grants no WRITE any more", nak(due, wire.NAKInvalidRequest, -1))
		p.Buf.WantOnly(t, "memory after a WRITE that is not granted any more", 0, nil)
		p.fatal()
	}, wireModify01)

var _ = changes.Add("wire.modify.requester", "retry counts, timeout and depth of a QP in use", func(t *validate.T) {
	s := open(t)
	drained := func(set ci.QPField, a ci.QPAttr, opts ...kit.Option) *peer {
		p := s.dial(append([]kit.Option{kit.Retry(7), kit.RNRRetry(7)}, opts...)...)
		p.sent(1)
		p.ack(p.from, 1)
		p.CQ.WaitOK(1)
		p.To(ci.QPSQD)
		p.Becomes(ci.QPSQD)
		kit.OK(t, p.Modify(set, a), "QP.Modify in SQD")
		p.To(ci.QPRTS)
		p.from++
		return p
	}
	p := drained(ci.QPFieldRetryCount|ci.QPFieldAckTimeout,
		ci.QPAttr{RetryCount: 1, Primary: ci.Path{AckTimeout: tick}})
	p.Send(p.SendWR(1, 0, 8))
	for i := range 2 {
		p.sendOf(0, fmt.Sprintf("transmission %d of a SEND of a QP whose retry count was changed to 1", i+1))
	}
	p.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
	p.fatal()
	s.over(p, "two transmissions")

	p = drained(ci.QPFieldRNRRetry, ci.QPAttr{RNRRetry: 1})
	p.Send(p.SendWR(1, 0, 8))
	for i := range 2 {
		p.sendOf(0, fmt.Sprintf("transmission %d of a SEND of a QP whose RNR retry count was changed to 1", i+1))
		p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(1), 0, nil)
	}
	p.CQ.WaitStatus(1, ci.WCRNRRetryErr)
	p.fatal()
	s.over(p, "two transmissions")

	p = drained(ci.QPFieldInitDepth, ci.QPAttr{InitDepth: 2}, kit.Reads(1, 1))
	p.blank()
	data := p.bytes(24)
	read := func(id uint64, off int) ci.SendWR {
		return ci.SendWR{ID: id, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: p.Buf.SGL(off, 8), Remote: elsewhere}
	}
	p.Send(read(1, 0), read(2, 8), read(3, 16))
	for i := range 2 {
		p.expect(fmt.Sprintf("READ %d of a QP whose depth was changed to 2", i+1),
			want{op: []wire.Opcode{wire.RCReadRequest}, psn: p.from + uint32(i), length: 0})
	}
	p.noMore("two READs of a QP whose depth was changed to 2")
	p.serve(p.from, data[:8], 2)
	p.expect("the third READ, after the answer to the first",
		want{op: []wire.Opcode{wire.RCReadRequest}, psn: p.from + 2, length: 0})
	p.serve(p.from+1, data[8:16], 3)
	p.serve(p.from+2, data[16:], 4)
	p.CQ.WaitOK(1, 2, 3)
	p.Buf.WantOnly(t, "data of the READs", 0, data)
}, wireModify01)

var _ = changes.Add("wire.modify.reset",
	"Reset in the middle of messages, READs, gaps and RNR waits", func(t *validate.T) {
		s := open(t)
		for _, x := range kit.Variants(t, "", []struct {
			what   string
			before func(p *peer)
		}{
			{"inside a SEND", func(p *peer) {
				p.Recv(p.RecvWR(9, 0, 2*p.mtu))
				p.request(wire.RCSendFirst, p.bytes(p.mtu), ackReq(true))
				p.expect("acknowledgement of a FIRST", acked(p.last(), -1))
			}},
			{"inside a WRITE", func(p *peer) {
				p.request(wire.RCWriteFirst, p.bytes(p.mtu), p.reth(0, 2*p.mtu), ackReq(true))
				p.expect("acknowledgement of a FIRST", acked(p.last(), -1))
			}},
			{"behind a gap", func(p *peer) {
				p.stray(wire.RCWriteOnly, nil, withPSN(p.psn+1))
				p.expect("answer to a request behind a gap", nak(p.psn, wire.NAKPSNSequence, -1))
			}},
			{"after an RNR NAK that the QP has sent", func(p *peer) {
				p.stray(wire.RCSendOnly, p.bytes(8))
				p.expect("answer to a SEND without a receive", nak(p.psn, wire.RNRNAK(p.Config.MinRNR), -1))
			}},
			{"with SENDs that are not acknowledged", func(p *peer) { p.sent(3) }},
			{"with a READ that is not answered", func(p *peer) {
				p.Send(p.readWR(1, 2*p.mtu))
				p.expectRead("a READ", 2*p.mtu, p.from)
			}},
			{"with a READ that is answered in part", func(p *peer) {
				p.Send(p.readWR(1, 2*p.mtu))
				p.expectRead("a READ", 2*p.mtu, p.from)
				p.serveFrom(p.from, p.bytes(2*p.mtu), 0, 1, 1)
				p.settled("a part of a READ response")
			}},
			{"while it waits after an RNR NAK", func(p *peer) {
				p.sent(1)
				p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(slowRNR), 0, nil)
				p.settled("an RNR NAK")
			}},
			{"while it drains", func(p *peer) {
				p.sent(1)
				p.To(ci.QPSQD)
			}},
			{"in Error after a NAK", func(p *peer) {
				p.sent(1)
				p.answer(wire.RCAcknowledge, p.from, wire.NAKRemoteAccess, 0, nil)
				p.CQ.WaitStatus(1, ci.WCRemAccessErr)
				p.fatal()
			}},
		}) {
			p := s.dial()
			p.request(wire.RCWriteOnly, nil)
			p.expect("acknowledgement of a WRITE", acked(p.last(), 1))
			x.before(p)
			p.To(ci.QPReset)
			r := t.Rand()
			p.at(r.Uint32()&wire.Mask24, r.Uint32()&wire.Mask24).connect()
			p.blank()
			p.Recv(p.RecvWR(1, 0, 2*p.mtu))
			data := p.bytes(p.mtu + 8)
			p.message(wire.OpSend, data, false)
			p.expect("acknowledgement of the first SEND after Reset "+x.what, acked(p.last(), 1))
			kit.Equal(t, "Length of the first SEND after Reset", p.RecvCQ.WaitOK(1)[0].Length, uint32(len(data)))
			p.Buf.WantOnly(t, "data of the first SEND after Reset", 0, data)
			begin := time.Now()
			p.Send(p.SendWR(5, 0, 8))
			p.sendOf(0, "the QP's first SEND after Reset "+x.what)
			if d := time.Since(begin); d > wire.RNRTimer(slowRNR)/2 {
				t.Fail(validate.Failure{Where: "the QP's first SEND after Reset " + x.what, Doubt: validate.DoubtTime,
					Expected: "at once, as of a new QP", Got: fmt.Sprintf("after %v", d)})
			}
			p.ack(p.from, 1)
			p.CQ.WaitOK(5)
			p.noMore("Reset " + x.what)
			p.RecvCQ.Empty()
		}
	}, changes.Must("WIRE-Reset-01", "IBTA 10.3.1.1", "Reset",
		"A QP that was moved to Reset and is connected again has nothing left of the connection before: no message "+
			"in progress, no unanswered request, no wait, no PSN and no MSN."))

var wireReq11 = changes.Must("WIRE-Req-11", "IBTA 10.8.3.3", "fence",
	"A request with the fence is not sent before the READs and atomics before it are answered. One without the "+
		"fence is.")

var _ = changes.Add("wire.request.fence", "a SEND with the fence behind a READ and an atomic", func(t *validate.T) {
	p := dial(t)
	fenced := func(id uint64) ci.SendWR {
		w := p.SendWR(id, 0, 8)
		w.Flags |= ci.SendFence
		return w
	}
	n := p.mtu + 8
	data := p.bytes(n)
	p.Send(p.SendWR(1, 0, 8), p.readWR(2, n), p.SendWR(3, 0, 8), fenced(4))
	p.expect("the SEND before a READ", want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from, length: 8})
	p.expectRead("a READ", n, p.from+1)
	p.expect("a SEND without the fence", want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 3, length: 8})
	p.noMore("a SEND with the fence behind a READ")
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
	p.serveFrom(p.from+1, data, 0, 1, 2)
	p.noMore("a part of the READ response")
	p.serveFrom(p.from+1, data, 1, 2, 2)
	p.CQ.WaitOK(2)
	p.expect("the SEND with the fence, after the READ",
		want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 4, length: 8})
	p.ack(p.from+4, 4)
	p.CQ.WaitOK(3, 4)
	// A fence does not wait for SENDs and WRITEs.
	p.Send(p.SendWR(5, 0, 8), fenced(6))
	for i := range 2 {
		p.expect("a SEND with the fence behind a SEND",
			want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 5 + uint32(i), length: 8})
	}
	p.ack(p.from+6, 6)
	p.CQ.WaitOK(5, 6)
	if t.Attr().Atomicity == ci.AtomicNone {
		return
	}
	w := p.SendWR(7, 64, 8)
	w.Op, w.Remote = ci.OpFetchAdd, elsewhere8
	p.Send(w, fenced(8))
	p.expect("a fetch and add", want{op: []wire.Opcode{wire.RCFetchAdd}, psn: p.from + 7, length: 0})
	p.noMore("a SEND with the fence behind an atomic")
	p.answer(wire.RCAtomicAcknowledge, p.from+7, wire.ACK(wire.CreditsInvalid), 7, nil, withOrig(1))
	p.expect("the SEND with the fence, after the atomic",
		want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 8, length: 8})
	p.ack(p.from+8, 8)
	p.CQ.WaitOK(7, 8)
}, wireReq11)

var _ = changes.Add("wire.request.fence-kinds",
	"requests of other kinds with the fence behind a READ", func(t *validate.T) {
		s := open(t)
		for _, v := range []struct {
			op      ci.SendOp
			request wire.Opcode
		}{{ci.OpWrite, wire.RCWriteOnly}, {ci.OpRead, wire.RCReadRequest}, {ci.OpCompareSwap, wire.RCCompareSwap},
			{ci.OpFetchAdd, wire.RCFetchAdd}} {
			if t.Attr().Atomicity == ci.AtomicNone && v.request != wire.RCWriteOnly && v.request != wire.RCReadRequest {
				continue
			}
			p := s.dial()
			data := p.bytes(8)
			w := p.SendWR(2, 64, 8)
			w.Op, w.Remote, w.Flags = v.op, elsewhere8, w.Flags|ci.SendFence
			p.Send(p.readWR(1, 8), w)
			p.expectRead("a READ", 8, p.from)
			p.noMore(fmt.Sprintf("a %s with the fence behind a READ", v.request))
			p.serve(p.from, data, 1)
			p.CQ.WaitOK(1)
			p.expect("the request with the fence, after the READ",
				want{op: []wire.Opcode{v.request}, psn: p.from + 1, length: -1})
		}
	}, wireReq11)

var _ = changes.Add("wire.react.timer-stops",
	"no retransmission after everything is acknowledged", func(t *validate.T) {
		const exp = tick + 3 // 67 ms: a busy machine has eight times as long to acknowledge
		p := dial(t, kit.AckTime(exp), kit.Retry(7))
		for i := range 3 {
			p.Send(p.SendWR(uint64(i+1), 8*i, 8))
			p.sendOf(i, "a SEND")
			p.ack(p.from+uint32(i), uint32(i+1))
			p.CQ.WaitOK(uint64(i + 1))
		}
		// The first SEND may have been retransmitted before its ACK arrived, but not later: two timeouts pass in which
		// nothing is outstanding.
		for {
			if x := p.next(2 * (4096 * time.Nanosecond << exp)); x == nil {
				break
			} else if x.BTH.Opcode != wire.RCSendOnly || wire.PSNDiff(x.BTH.PSN, p.from+2) > 0 {
				p.wrong(x, "packet after all SENDs were acknowledged", "none", x.String())
			}
			if t.Remaining() < time.Second {
				t.Failf("a QP whose SENDs are all acknowledged", "no packets", "it retransmits without end")
			}
		}
		kit.Equal(t, "state of the QP", p.State(), ci.QPRTS)
	}, wireReact11)
