package wiresuite

import (
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// Cases in which several requests, or the timers of several answers, are under way at once. They prove requirements of
// the areas for one request at a time. (IBTA 9.7.5, 9.7.6, 9.9.)
var depths = area()

// failingMemory is memory without a direct view whose bytes cannot be read from an offset on.
type failingMemory struct {
	kit.CopyMemory
	from int64
}

var errFailing = errors.New("the memory cannot be read")

func (m failingMemory) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > m.from {
		return 0, errFailing
	}
	return m.CopyMemory.ReadAt(p, off)
}

var _ = depths.Add("wire.nak.read-fails",
	"READs of memory that fails at one of their packets, with a WRITE behind them", func(t *validate.T) {
		s := open(t)
		for _, bad := range kit.Variants(t, "packet that fails", []int{0, 1, 5, 199}) {
			p := s.dial(kit.MTU(ci.MTU256))
			b := kit.Random(t, kit.Pages(200*p.mtu, 4096))
			m := failingMemory{kit.CopyMemory{B: b}, int64(bad * p.mtu)}
			mr, err := p.PD.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
			if err != nil {
				kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
				t.Skip("memory without a direct view is rejected")
			}
			r := kit.Own(t, mr, "MR").Region().Remote(0)
			first := p.psn
			p.request(wire.RCReadRequest, nil,
				withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey), DMALen: uint32(len(b))}))
			p.request(wire.RCWriteOnly, nil)
			what := fmt.Sprintf("answer to a READ of memory that fails at packet %d", bad+1)
			for k := 0; ; k++ {
				x := p.next(t.Remaining())
				if x == nil {
					t.Failf(what, "READ responses, then a NAK 0x62 or 0x63", "no packet by the deadline")
				}
				at := wire.PSNAdd(first, k)
				if syn := wire.NAKRemoteAccess; x.BTH.Opcode == wire.RCAcknowledge {
					if x.AETH.Syndrome != syn {
						syn = wire.NAKRemoteOperation
					}
					p.match(x, what, nak(at, syn, -1))
					if syn == wire.NAKRemoteAccess {
						p.Events.Wait(ci.EventWQAccessError)
					}
					break
				}
				if k == bad {
					p.wrong(x, what, nak(at, wire.NAKRemoteAccess, -1).String(), x.String())
				}
				op := wire.RCReadResponseMiddle
				if k == 0 {
					op = wire.RCReadResponseFirst
				}
				p.match(x, what, want{op: []wire.Opcode{op}, psn: at, syn: wire.ACK(wire.CreditsInvalid), msn: -1,
					payload: b[k*p.mtu : (k+1)*p.mtu]})
			}
			p.fatal()
			s.over(p, "a READ of memory that fails")
		}
	}, depths.Must("WIRE-Nak-17", "IBTA 9.9.3", "READ whose memory fails",
		"A READ whose memory fails while it is answered ends with a NAK 0x62 or 0x63 that has the PSN of the first "+
			"packet without data. The QP goes to Error, and requests behind the READ are not acknowledged. With a "+
			"NAK 0x62 it raises the event of an access error."))

// The case sends requests of which the second is refused, while the first is still being answered.
var _ = depths.Add("wire.nak.behind-read",
	"a WRITE without rights and a valid one behind a long READ", func(t *validate.T) {
		s := open(t)
		p := s.dial(kit.MTU(ci.MTU256), kit.Size(1<<16))
		p.blank()
		n := 200 * p.mtu
		first := p.psn
		p.request(wire.RCReadRequest, nil, p.reth(0, n))
		at := p.psn
		p.request(wire.RCWriteOnly, p.bytes(8), withReth(wire.RETH{VA: 8, RKey: 0xffffff01, DMALen: 8}))
		p.request(wire.RCWriteOnly, p.bytes(8), p.reth(n, 8))
		p.readAnswer("READ of 200 packets", first, p.Buf.Bytes[:n], -1)
		p.expect("answer to a WRITE with a wrong key behind a READ", nak(at, wire.NAKRemoteAccess, 1))
		p.fatal()
		s.over(p, "the NAK of a WRITE behind a READ")
		p.Buf.WantOnly(t, "memory of a WRITE behind one that was refused", 0, nil)
	}, wireNak11, wireNak07)

// The case sends a duplicate that the network has delayed. It takes no resource of the responder.
var _ = depths.Add("wire.dup.read-behind",
	"a new READ behind the duplicate of a long one, with resources for one", func(t *validate.T) {
		p := dial(t, kit.MTU(ci.MTU256), kit.Size(1<<16), kit.Reads(1, 1))
		n := 200 * p.mtu
		first := p.psn
		p.request(wire.RCReadRequest, nil, p.reth(0, n))
		p.readAnswer("READ of 200 packets", first, p.Buf.Bytes[:n], 1)
		p.stray(wire.RCReadRequest, nil, withPSN(first), p.reth(0, n))
		p.request(wire.RCReadRequest, nil, p.reth(n, 8))
		p.readAnswer("duplicate of a READ of 200 packets", first, p.Buf.Bytes[:n], -1)
		p.readAnswer("READ behind a duplicate", p.last(), p.Buf.Bytes[n:n+8], -1)
	}, wireDup03)

var _ = depths.Add("wire.react.no-timer", "an ACK timeout of 0: no timer", func(t *validate.T) {
	s := open(t)
	p := s.dial(kit.AckTime(0), kit.Retry(0))
	p.sent(1)
	other := s.dial(kit.AckTime(tick), kit.Retry(2)) // the time that it takes is long enough for any timer
	other.Send(other.SendWR(1, 0, 8))
	for i := range 3 {
		other.sendOf(0, fmt.Sprintf("transmission %d of a SEND of another QP, with a retry count of 2", i+1))
	}
	other.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
	p.CQ.Empty()
	p.WantState(ci.QPRTS)
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
}, wireReact12)

// The case has the QP wait after an RNR NAK for longer than all of its transport retries would take. They do not count
// in that time.
var _ = depths.Add("wire.react.rnr-timer", "an RNR timer that is longer than the ACK timeout", func(t *validate.T) {
	const code = 0                              // 655 ms
	p := dial(t, kit.AckTime(15), kit.Retry(3)) // four transmissions of 134 ms
	p.sent(1)
	p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(code), 0, nil)
	p.sendOf(0, "retransmission after an RNR NAK whose timer is longer than four ACK timeouts")
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
}, wireReact05)

var _ = depths.Add("wire.react.timer-goes-on", "no answer to the second of two SENDs", func(t *validate.T) {
	p := dial(t, kit.AckTime(unhurried), kit.Retry(7))
	p.Send(p.SendWR(1, 0, 8), p.SendWR(2, 8, 8))
	p.sendOf(0, "the first of two SENDs")
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
	for n := 0; n < 3; {
		x := p.next(t.Remaining())
		if x == nil {
			t.Failf("transmissions of the second SEND, of which the first is acknowledged", "3", "%d", n)
		}
		if x.BTH.PSN == wire.PSNAdd(p.from, 1) {
			n++
		}
	}
	p.ack(p.from+1, 2)
	p.CQ.WaitOK(2)
}, wireReact11)

// The case answers the SEND and not the READ before it. The READ is sent again, and counts for itself.
var _ = depths.Add("wire.react.implied-nak", "NAKs of a SEND behind a READ without an answer", func(t *validate.T) {
	s := open(t)
	for _, syn := range kit.Variants(t, "syndrome",
		[]wire.Syndrome{wire.NAKRemoteAccess, wire.NAKPSNSequence, wire.RNRNAK(1), wire.NAKRemoteOperation}) {
		p := s.dial()
		p.Send(p.readWR(1, 8), p.SendWR(2, 0, 8))
		p.expectRead("a READ", 8, p.from)
		send := want{op: []wire.Opcode{wire.RCSendOnly}, psn: p.from + 1, length: 8}
		p.expect("SEND after the READ", send)
		p.answer(wire.RCAcknowledge, p.from+1, syn, 1, nil)
		p.expectRead(fmt.Sprintf("a READ again, because the SEND after it was answered with %#02x before it",
			uint8(syn)), 8, p.from)
		p.expect("SEND again", send)
		data := p.bytes(8)
		p.serve(p.from, data, 1)
		p.CQ.WaitOK(1)
		p.answer(wire.RCAcknowledge, p.from+1, wire.NAKRemoteOperation, 1, nil)
		p.CQ.WaitStatus(2, ci.WCRemOpErr)
		p.fatal()
		kit.SameBytes(t, "data of the READ", p.Buf.Bytes[32:40], data)
	}
}, wireReact08)

// The case answers the request behind one that got an RNR NAK, which acknowledges that one too. A second READ or atomic
// is sent then: the first no longer counts for the initiator depth.
var _ = depths.Add("wire.react.rnr-overtaken-read",
	"an answer to a READ or an atomic that arrives while the QP waits after an RNR NAK", func(t *validate.T) {
		ops := []ci.SendOp{ci.OpRead, ci.OpFetchAdd}
		if t.Attr().Atomicity == ci.AtomicNone {
			ops = ops[:1]
		}
		s := open(t)
		for _, op := range kit.Variants(t, "opcode", ops) {
			p := s.dial(kit.Reads(1, 1))
			w := p.SendWR(2, 64, 8)
			w.Op, w.Remote = op, elsewhere8
			p.Send(p.SendWR(1, 0, 8), w)
			p.sendOf(0, "a SEND")
			request := want{op: []wire.Opcode{wire.RCReadRequest, wire.RCFetchAdd}, psn: p.from + 1, length: 0}
			p.expect("the READ or atomic behind it", request)
			answer := func(psn uint32, msn uint32) {
				if op == ci.OpRead {
					p.serve(psn, p.bytes(8), msn)
				} else {
					p.answer(wire.RCAtomicAcknowledge, psn, wire.ACK(wire.CreditsInvalid), msn, nil, withOrig(77))
				}
			}
			p.answer(wire.RCAcknowledge, p.from, wire.RNRNAK(longRNR), 0, nil)
			answer(p.from+1, 2)
			p.CQ.WaitOK(1, 2)
			w.ID = 3
			p.Send(w)
			for x := p.next(t.Remaining()); ; x = p.next(t.Remaining()) {
				if x == nil || x.BTH.PSN == wire.PSNAdd(p.from, 2) {
					request.psn++
					if x == nil {
						t.Failf("the next READ or atomic", request.String(), "no packet by the deadline")
					}
					p.match(x, "the next READ or atomic", request)
					break
				} // else the RNR timer has ended before the answer, on a busy machine
			}
			answer(p.from+2, 3)
			p.CQ.WaitOK(3)
		}
	}, wireReact01)
