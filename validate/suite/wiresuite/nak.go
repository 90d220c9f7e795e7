package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// nakCases are the cases of requests that are out of order, invalid or too early, and of the NAK that each gets.
// (IBTA 9.7.4, 9.7.5, 9.9.)
var nakCases = area()

var wireNak01 = nakCases.Must("WIRE-Nak-01", "IBTA 9.7.5", "PSN sequence error",
	"A request beyond the expected PSN is answered with a NAK 0x60 that has the expected PSN and the current MSN.")

var _ = nakCases.Add("wire.nak.gap", "a gap: one NAK, then the missing packet", func(t *validate.T) {
	p := dial(t)
	p.barrier("nothing", 1)
	due := p.psn
	p.stray(wire.RCWriteOnly, nil, withPSN(due+1))
	p.expect("answer to a request one PSN beyond the expected one", nak(due, wire.NAKPSNSequence, 1))
	p.request(wire.RCWriteOnly, nil)
	p.expect("acknowledgement of the missing request", acked(due, 2))
	p.request(wire.RCWriteOnly, nil)
	p.expect("acknowledgement of the retransmitted request after it", acked(due+1, 3))
}, wireNak01)

var _ = nakCases.Add("wire.nak.once", "five requests after a gap", func(t *validate.T) {
	p := dial(t)
	due := p.psn
	for i := range uint32(5) {
		p.stray(wire.RCWriteOnly, nil, withPSN(due+1+i))
	}
	p.expect("answer to five requests after a gap", nak(due, wire.NAKPSNSequence, 0))
	p.barrier("the one NAK", 1)
}, nakCases.Must("WIRE-Nak-02", "IBTA 9.7.5", "PSN sequence error",
	"Until the expected PSN arrives, further requests beyond it are dropped without another NAK."), wireNak01)

var _ = nakCases.Add("wire.nak.again", "a second gap", func(t *validate.T) {
	p := dial(t)
	for i := range 3 {
		due := p.psn
		p.stray(wire.RCWriteOnly, nil, withPSN(due+2))
		p.expect(fmt.Sprintf("answer to gap %d", i+1), nak(due, wire.NAKPSNSequence, i))
		p.request(wire.RCWriteOnly, nil)
		p.expect("acknowledgement of the missing request", acked(due, i+1))
	}
}, nakCases.Must("WIRE-Nak-03", "IBTA 9.7.5", "PSN sequence error",
	"After the expected PSN has arrived, the next gap gets a NAK of its own."), wireNak01)

var _ = nakCases.Add("wire.nak.far", "a request 2^23-1 PSNs ahead", func(t *validate.T) {
	p := dial(t)
	due := p.psn
	p.stray(wire.RCWriteOnly, nil, withPSN(due+1<<23-1))
	p.expect("answer to a request 2^23-1 PSNs beyond the expected one", nak(due, wire.NAKPSNSequence, 0))
	p.barrier("the NAK", 1)
}, wireNak01)

var _ = nakCases.Add("wire.nak.not-executed", "a WRITE after a gap", func(t *validate.T) {
	p := dial(t)
	p.blank()
	due := p.psn
	p.stray(wire.RCWriteOnly, p.bytes(16), withPSN(due+1), p.reth(0, 16))
	p.expect("answer to a WRITE after a gap", nak(due, wire.NAKPSNSequence, 0))
	p.barrier("the NAK", 1)
	p.wrote("target memory of a WRITE after a gap", 0, nil)
}, nakCases.Must("WIRE-Nak-04", "IBTA 9.7.4", "responder PSN verification",
	"A request beyond the expected PSN is not executed."), wireNak01)

// refused is an invalid packet after valid ones. Each is sent to a QP of its own, since the NAK moves the QP to Error.
type refused struct {
	what   string
	before func(p *peer) // sends valid packets, none of which requests an answer
	bad    func(p *peer) // sends the invalid packet, at the peer's PSN
}

// refuse sends the packets of the list to one adapter. Each must be answered with a NAK that has its PSN, complete no
// receive with success, and move its QP to Error.
func refuse(t *validate.T, syn wire.Syndrome, list []refused) {
	s := open(t)
	for _, x := range list {
		p := s.dial()
		p.Recv(p.RecvWRs(2, 4*p.mtu)...)
		if x.before != nil {
			x.before(p)
		}
		at := p.psn
		x.bad(p)
		p.expect("answer to "+x.what, nak(at, syn, 0))
		p.fatal()
		for _, wc := range p.RecvCQ.Wait(2) {
			if wc.Status == ci.WCSuccess {
				t.Failf("receive after "+x.what, "an error", "%s", kit.Completions([]ci.WC{wc}))
			}
		}
	}
}

var _ = nakCases.Add("wire.nak.sequence", "packets that do not fit the message", func(t *validate.T) {
	sendFirst := func(p *peer) { p.request(wire.RCSendFirst, p.bytes(p.mtu)) }
	writeFirst := func(p *peer) { p.request(wire.RCWriteFirst, p.bytes(p.mtu), p.reth(0, 3*p.mtu)) }
	one := func(op wire.Opcode, full bool) func(*peer) {
		return func(p *peer) {
			n := 8
			if full {
				n = p.mtu
			}
			p.request(op, p.bytes(n), ackReq(true))
		}
	}
	write := func(op wire.Opcode, n int) func(*peer) {
		return func(p *peer) { p.request(op, p.bytes(n), p.reth(0, n), ackReq(true)) }
	}
	read := func(p *peer) { p.request(wire.RCReadRequest, nil, p.reth(0, 8)) }
	refuse(t, wire.NAKInvalidRequest, []refused{
		{"SEND MIDDLE without FIRST", nil, one(wire.RCSendMiddle, true)},
		{"SEND LAST without FIRST", nil, one(wire.RCSendLast, false)},
		{"WRITE MIDDLE without FIRST", nil, one(wire.RCWriteMiddle, true)},
		{"WRITE LAST without FIRST", nil, one(wire.RCWriteLast, false)},
		{"SEND FIRST after SEND FIRST", sendFirst, one(wire.RCSendFirst, true)},
		{"SEND ONLY after SEND FIRST", sendFirst, one(wire.RCSendOnly, false)},
		{"WRITE ONLY after SEND FIRST", sendFirst, write(wire.RCWriteOnly, 8)},
		{"WRITE MIDDLE after SEND FIRST", sendFirst, one(wire.RCWriteMiddle, true)},
		{"SEND LAST after WRITE FIRST", writeFirst, one(wire.RCSendLast, false)},
		{"SEND ONLY after WRITE FIRST", writeFirst, one(wire.RCSendOnly, false)},
		{"READ after WRITE FIRST", writeFirst, read},
		{"READ after SEND FIRST", sendFirst, read},
	})
}, nakCases.Must("WIRE-Nak-05", "IBTA 9.7.4", "OpCode sequence",
	"A packet that does not fit the message in progress is answered with a NAK 0x61 that has its PSN. This is a "+
		"MIDDLE or LAST without FIRST, a FIRST or ONLY inside a message, or a change of operation."))

var wireNak06 = nakCases.Must("WIRE-Nak-06", "IBTA 9.7.4", "length validation",
	"A packet of a wrong length is answered with a NAK 0x61 that has its PSN. This is a FIRST or MIDDLE that is "+
		"not full, an empty LAST, a payload above the MTU, or a WRITE of more or less than the length in its "+
		"RETH.")

var _ = nakCases.Add("wire.nak.length", "packets of wrong lengths", func(t *validate.T) {
	sendFirst := func(p *peer) { p.request(wire.RCSendFirst, p.bytes(p.mtu)) }
	send := func(op wire.Opcode, n func(mtu int) int) func(*peer) {
		return func(p *peer) { p.request(op, p.bytes(n(p.mtu)), ackReq(true)) }
	}
	write := func(op wire.Opcode, n, dma func(mtu int) int) func(*peer) {
		return func(p *peer) { p.request(op, p.bytes(n(p.mtu)), p.reth(0, dma(p.mtu)), ackReq(true)) }
	}
	is := func(n int) func(int) int { return func(int) int { return n } }
	mtu := func(add int) func(int) int { return func(m int) int { return m + add } }
	duplicate := func(m int) int { return 2 * m }
	writeFirst := func(p *peer) { p.request(wire.RCWriteFirst, p.bytes(p.mtu), p.reth(0, p.mtu+8)) }
	writeMost := func(p *peer) {
		p.request(wire.RCWriteFirst, p.bytes(p.mtu), p.reth(0, 4*p.mtu+8))
		for range 3 {
			p.request(wire.RCWriteMiddle, p.bytes(p.mtu))
		}
	}
	refuse(t, wire.NAKInvalidRequest, []refused{
		{"SEND FIRST of less than the MTU", nil, send(wire.RCSendFirst, mtu(-4))},
		{"SEND FIRST of more than the MTU", nil, send(wire.RCSendFirst, mtu(4))},
		{"SEND ONLY of more than the MTU", nil, send(wire.RCSendOnly, mtu(4))},
		{"SEND MIDDLE of less than the MTU", sendFirst, send(wire.RCSendMiddle, mtu(-4))},
		{"SEND LAST of no bytes", sendFirst, send(wire.RCSendLast, is(0))},
		{"SEND LAST of more than the MTU", sendFirst, send(wire.RCSendLast, mtu(4))},
		{"WRITE FIRST of less than the MTU", nil, write(wire.RCWriteFirst, mtu(-4), duplicate)},
		{"WRITE ONLY of less than the length in its RETH", nil, write(wire.RCWriteOnly, is(8), is(12))},
		{"WRITE ONLY of more than the length in its RETH", nil, write(wire.RCWriteOnly, is(12), is(8))},
		{"WRITE LAST that ends before the length in the RETH", writeFirst, write(wire.RCWriteLast, is(4), is(0))},
		{"WRITE LAST that exceeds the length in the RETH", writeFirst, write(wire.RCWriteLast, is(12), is(0))},
		{"WRITE LAST that exceeds the length, after 4 packets", writeMost, write(wire.RCWriteLast, is(12), is(0))},
		{"WRITE LAST that ends too early, after 4 packets", writeMost, write(wire.RCWriteLast, is(4), is(0))},
		{"WRITE MIDDLE of less than the MTU, after 4 packets", writeMost, write(wire.RCWriteMiddle, is(4), is(0))},
	})
}, wireNak06)

var wireNak07 = nakCases.Must("WIRE-Nak-07", "IBTA 9.7.4", "R_Key validation",
	"A WRITE or READ with a wrong key, outside the region, or without the region's access right is answered with "+
		"a NAK 0x62 that has its PSN. Nothing is written or returned.")

var _ = nakCases.Add("wire.nak.access", "WRITE and READ without access rights", func(t *validate.T) {
	s := open(t)
	key := func(f func(r *wire.RETH)) twist { return func(o *outgoing) { f(&o.RETH) } }
	for _, x := range kit.Variants(t, "", []struct {
		what    string
		opt     kit.Option
		op      wire.Opcode
		off, n  int
		changed twist
	}{
		{"a WRITE with a wrong key", nil, wire.RCWriteOnly, 0, 8, key(func(r *wire.RETH) { r.RKey ^= 0x5a00 })},
		{"a WRITE that begins before the region", nil, wire.RCWriteOnly, 0, 8, key(func(r *wire.RETH) { r.VA -= 4 })},
		{"a WRITE that ends after the region", nil, wire.RCWriteOnly, 4092, 8, nil},
		{"a WRITE that wraps around the end of the address space", nil, wire.RCWriteOnly, 0, 8,
			key(func(r *wire.RETH) { r.VA = ^uint64(3) })},
		{"a WRITE to a region without remote write", bufAccess(ci.LocalWrite | ci.RemoteRead), wire.RCWriteOnly, 0, 8,
			nil},
		{"a READ with a wrong key", nil, wire.RCReadRequest, 0, 8, key(func(r *wire.RETH) { r.RKey ^= 0x5a00 })},
		{"a WRITE of 1 byte with a wrong key", nil, wire.RCWriteOnly, 0, 1,
			key(func(r *wire.RETH) { r.RKey ^= 0x5a00 })},
		{"a READ of 1 byte with a wrong key", nil, wire.RCReadRequest, 0, 1,
			key(func(r *wire.RETH) { r.RKey ^= 0x5a00 })},
		{"a READ that ends after the region", nil, wire.RCReadRequest, 4092, 8, nil},
		{"a READ of a region without remote read", bufAccess(ci.LocalWrite | ci.RemoteWrite), wire.RCReadRequest, 0, 8,
			nil},
	}) {
		opts := []kit.Option{kit.Size(4096)}
		if x.opt != nil {
			opts = append(opts, x.opt)
		}
		p := s.dial(opts...)
		p.blank()
		at := p.psn
		var data []byte
		if x.op == wire.RCWriteOnly {
			data = p.bytes(x.n)
		}
		r := p.Buf.Remote(0)
		twists := []twist{withReth(wire.RETH{VA: r.Addr + uint64(x.off), RKey: uint32(r.RKey), DMALen: uint32(x.n)})}
		if x.changed != nil {
			twists = append(twists, x.changed)
		}
		p.request(x.op, data, twists...)
		p.expect("answer to "+x.what, nak(at, wire.NAKRemoteAccess, 0))
		p.Buf.WantOnly(t, "memory after "+x.what, 0, nil)
		p.fatal()
	}
}, wireNak07)

// qpAccess sets the access rights of the QP. The region grants all.
func qpAccess(a ci.Access) kit.Option { return func(c *kit.Config) { c.Access = a } }

var wireNak15 = nakCases.Must("WIRE-Nak-15", "IBTA 9.9.3", "unsupported function",
	"A WRITE, READ or atomic that the QP does not grant is answered with a NAK 0x61 that has its PSN, whatever "+
		"its key and the rights of the region are. Nothing is written or returned.")

var _ = nakCases.Add("wire.nak.unsupported", "WRITE and READ that the QP does not grant", func(t *validate.T) {
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		what    string
		granted ci.Access
		op      wire.Opcode
		n       int
		key     uint32
	}{
		{"a WRITE to a QP without remote write", ci.RemoteRead, wire.RCWriteOnly, 8, 0},
		{"a WRITE of no bytes to a QP without remote write", ci.RemoteRead, wire.RCWriteOnly, 0, 0},
		{"a WRITE with a wrong key to a QP without remote write", ci.RemoteRead, wire.RCWriteOnly, 8, 0x5a00},
		{"a READ from a QP without remote read", ci.RemoteWrite, wire.RCReadRequest, 8, 0},
		{"a READ with a wrong key from a QP without remote read", ci.RemoteWrite, wire.RCReadRequest, 8, 0x5a00},
	}) {
		p := s.dial(kit.Size(4096), qpAccess(x.granted))
		p.blank()
		at := p.psn
		var data []byte
		if x.op == wire.RCWriteOnly {
			data = p.bytes(x.n)
		}
		r := p.Buf.Remote(0)
		p.request(x.op, data, withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey) ^ x.key, DMALen: uint32(x.n)}))
		p.expect("answer to "+x.what, nak(at, wire.NAKInvalidRequest, 0))
		p.Buf.WantOnly(t, "memory after "+x.what, 0, nil)
		p.fatal()
	}
}, wireNak15)

var _ = nakCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.nak.unsupported.atomic",
	"an atomic that the QP does not grant", func(t *validate.T) {
		p := dial(t, kit.Size(4096), qpAccess(ci.RemoteRead|ci.RemoteWrite))
		p.blank()
		r := p.Buf.Remote(0)
		at := p.psn
		p.request(wire.RCFetchAdd, nil, withAtomic(wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey), SwapAdd: 1}))
		p.expect("answer to an atomic to a QP without remote atomic", nak(at, wire.NAKInvalidRequest, 0))
		p.Buf.WantOnly(t, "memory after an atomic that the QP does not grant", 0, nil)
		p.fatal()
	}, wireNak15)

// bufAccess sets the access rights of the region. The QP grants all.
func bufAccess(a ci.Access) kit.Option { return func(c *kit.Config) { c.BufAccess = a } }

var wireNak08 = nakCases.Must("WIRE-Nak-08", "IBTA 9.9", "message longer than the receive",
	"A SEND longer than its receive is answered with a NAK 0x61, and the receive completes with a local length "+
		"error.")

var _ = nakCases.Add("wire.nak.too-long", "a SEND longer than the receive", func(t *validate.T) {
	s := open(t)
	for _, n := range kit.Variants(t, "bytes", []int{17, 2000}) {
		p := s.dial()
		p.Recv(p.RecvWR(1, 0, 16))
		first := p.psn
		p.message(wire.OpSend, p.bytes(n), false)
		p.expect(fmt.Sprintf("answer to a SEND of %d bytes into a receive of 16", n),
			nak(first, wire.NAKInvalidRequest, 0))
		p.RecvCQ.WaitStatus(1, ci.WCLocalLenErr)
		p.fatal()
	}
	// Packets that come close together may be handled as one. The NAK still names the first that does not fit.
	for range 4 {
		for _, fit := range kit.Variants(t, "packets", []int{1, 4, 7}) {
			p := s.dial(kit.MTU(ci.MTU256))
			p.Recv(p.RecvWR(1, 0, fit*p.mtu+8))
			at := wire.PSNAdd(p.psn, fit)
			p.message(wire.OpSend, p.bytes(8*p.mtu), false)
			p.expect(fmt.Sprintf("answer to a SEND of 8 packets into a receive of %d and 8 bytes", fit),
				nak(at, wire.NAKInvalidRequest, 0))
			p.RecvCQ.WaitStatus(1, ci.WCLocalLenErr)
			p.fatal()
		}
	}
}, wireNak08)

var _ = nakCases.Add("wire.nak.bad-receive", "a receive with an invalid key", func(t *validate.T) {
	p := dial(t)
	r := p.RecvWR(1, 0, 64)
	r.SGL[0].LKey ^= 0x5a00
	p.Recv(r)
	at := p.psn
	p.request(wire.RCSendOnly, p.bytes(8))
	p.expect("answer to a SEND into a receive with a wrong key", nak(at, wire.NAKRemoteOperation, 0))
	p.RecvCQ.WaitStatus(1, ci.WCLocalProtErr)
	p.fatal()
}, nakCases.Must("WIRE-Nak-09", "IBTA 9.9", "remote operational error",
	"A SEND into a receive with an invalid key is answered with a NAK 0x63, and the receive completes with a "+
		"local protection error."))

var _ = nakCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.nak.atomic",
	"atomics without access rights, and misaligned ones", func(t *validate.T) {
		s := open(t)
		for _, x := range kit.Variants(t, "", []struct {
			what string
			opt  kit.Option
			off  uint64
			key  uint32
			syn  wire.Syndrome
		}{
			{"an atomic with a wrong key", kit.Size(4096), 0, 0x5a00, wire.NAKRemoteAccess},
			{"an atomic after the end of the region", kit.Size(4096), 4096, 0, wire.NAKRemoteAccess},
			{"an atomic on a region without remote atomic", bufAccess(ci.LocalWrite | ci.RemoteWrite), 0, 0,
				wire.NAKRemoteAccess},
			{"an atomic at an address that is not a multiple of 8", kit.Size(4096), 4, 0, wire.NAKInvalidRequest},
		}) {
			p := s.dial(x.opt)
			p.blank()
			r := p.Buf.Remote(0)
			at := p.psn
			p.request(wire.RCFetchAdd, nil,
				withAtomic(wire.AtomicETH{VA: r.Addr + x.off, RKey: uint32(r.RKey) ^ x.key, SwapAdd: 1}))
			p.expect("answer to "+x.what, nak(at, x.syn, 0))
			p.Buf.WantOnly(t, "memory after "+x.what, 0, nil)
			p.fatal()
		}
	}, nakCases.Must("WIRE-Nak-10", "IBTA 9.7.4", "atomic validation",
		"An atomic with a wrong key or without the region's access right is answered with a NAK 0x62, and one at an "+
			"address that is not a multiple of 8 with a NAK 0x61. The memory does not change."))

var wireNak11 = nakCases.Must("WIRE-Nak-11", "IBTA 9.9", "responder error",
	"After a fatal NAK the QP is in Error and sends no more answers.")

var _ = nakCases.Add("wire.nak.dead", "requests after a fatal NAK", func(t *validate.T) {
	s := open(t)
	p, other := s.dial(), s.dial()
	p.blank()
	at := p.psn
	p.request(wire.RCWriteOnly, p.bytes(8), withReth(wire.RETH{VA: 8, RKey: 0xffffff01, DMALen: 8}))
	p.expect("answer to a WRITE with a wrong key", nak(at, wire.NAKRemoteAccess, 0))
	p.fatal()
	p.stray(wire.RCWriteOnly, p.bytes(8), withPSN(at), p.reth(0, 8))
	p.request(wire.RCWriteOnly, p.bytes(8), p.reth(0, 8))
	p.request(wire.RCReadRequest, nil, p.reth(0, 8))
	// A packet to another QP arrives through the same port after these requests.
	other.barrier("requests to a QP in Error", 1)
	p.Buf.WantOnly(t, "memory after requests to a QP in Error", 0, nil)
}, wireNak11, wireNak07)

// reservedOps are opcodes of RC that no version of the specification defines (IBTA volume 1, table of opcodes). The
// list omits those of FLUSH and ATOMIC WRITE, which wire.place.unclaimed sends to adapters without them.
var reservedOps = []byte{0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f}

var _ = nakCases.Add("wire.nak.reserved", "reserved opcodes", func(t *validate.T) {
	s := open(t)
	s.needBytes()
	for _, code := range kit.Variants(t, "opcode", reservedOps) {
		p := s.dial()
		p.blank()
		p.Recv(p.RecvWR(1, 2048, 64))
		what := fmt.Sprintf("a request with the reserved opcode %#02x", code)
		at := p.psn
		p.stray(wire.RCWriteOnly, p.bytes(16), p.reth(0, 16),
			func(o *outgoing) { o.alter = func(b []byte) { b[0] = code } })
		data := p.bytes(8)
		p.request(wire.RCSendOnly, data) // same PSN: if the request was executed, this is a duplicate
		x := p.next(t.Remaining())
		switch {
		case x == nil:
			t.Failf("answer to the SEND after "+what,
				"an acknowledgement of the SEND, or a NAK 0x61 of the request before it", "no packet by the deadline")
		case x.BTH.Opcode == wire.RCAcknowledge && x.BTH.PSN == at && x.AETH.Syndrome == wire.NAKInvalidRequest:
			t.Note("a reserved opcode is answered with a NAK 0x61 and not dropped")
			p.fatal()
			p.RecvCQ.WaitStatus(1, ci.WCFlushErr, ci.WCRemInvalidReqErr)
			data = nil
		default:
			p.match(x, "acknowledgement of the SEND after "+what, acked(at, 1))
			p.RecvCQ.WaitOK(1)
			p.barrier(what, 2)
		}
		p.Buf.WantOnly(t, "memory after "+what, 2048, data)
	}
}, nakCases.Must("WIRE-Nak-12", "IBTA 9.9", "reserved OpCode",
	"A request with a reserved opcode of the service is not executed. It is dropped, or answered with a NAK 0x61 "+
		"that has its PSN."))

var _ = nakCases.Add("wire.nak.no-resources",
	"a READ and atomics to a QP without responder resources", func(t *validate.T) {
		s := open(t)
		ops := []wire.Opcode{wire.RCReadRequest}
		if t.Attr().Atomicity != ci.AtomicNone {
			ops = append(ops, wire.RCFetchAdd, wire.RCCompareSwap)
		}
		for _, op := range kit.Variants(t, "opcode", ops) {
			p := s.dial(kit.Reads(1, 0))
			p.blank()
			at := p.psn
			r := p.Buf.Remote(0)
			p.request(op, nil, p.reth(0, 8), withAtomic(wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey), SwapAdd: 1}))
			p.expect(fmt.Sprintf("answer of a QP without responder resources to a %v", op),
				nak(at, wire.NAKInvalidRequest, 0))
			p.Buf.WantOnly(t, "memory after the atomic or READ", 0, nil)
			p.fatal()
		}
	}, nakCases.Must("WIRE-Nak-13", "IBTA 9.7.4", "responder resources",
		"A READ or atomic to a QP without responder resources is answered with a NAK 0x61 that has its PSN."))

var _ = nakCases.Add("wire.nak.resources", "eight READs to a QP with resources for two", func(t *validate.T) {
	const resources, reads = 2, 8
	p := dial(t, kit.Reads(1, resources))
	n := 2*p.mtu + 9
	at := p.psn
	for i := range reads {
		p.request(wire.RCReadRequest, nil, p.reth(i*p.mtu, n))
	}
	for i := range reads {
		first := wire.PSNAdd(at, i*p.packets(n))
		if x := p.next(t.Remaining()); x == nil {
			t.Failf(fmt.Sprintf("answer to READ %d of %d", i+1, reads),
				"a READ response, or a NAK 0x61 of the first READ beyond the responder resources",
				"no packet by the deadline")
		} else if i >= resources && x.BTH.Opcode == wire.RCAcknowledge && x.AETH.Syndrome == wire.NAKInvalidRequest {
			p.match(x, fmt.Sprintf("NAK of READ %d of %d", i+1, reads), nak(first, wire.NAKInvalidRequest, i))
			t.Note("READs beyond the responder resources are answered with a NAK 0x61")
			p.fatal()
			return
		} else {
			p.ready = append([]*packet{x}, p.ready...)
		}
		p.readAnswer(fmt.Sprintf("READ %d of %d", i+1, reads), first, p.Buf.Bytes[i*p.mtu:i*p.mtu+n], i+1)
	}
}, nakCases.Must("WIRE-Nak-14", "IBTA 9.7.4", "responder resources",
	"READs beyond the responder resources of the QP are answered in order. Alternatively, the first of them is "+
		"answered with a NAK 0x61 that has its PSN, after the answers to the READs before it."))

var wireRnr01 = nakCases.Must("WIRE-Rnr-01", "IBTA 9.7.5", "RNR NAK; MinRNRTimer",
	"A SEND without a posted receive is answered with an RNR NAK that has its PSN and the timer code of the QP. "+
		"It is executed when it is retransmitted after a receive was posted.")

var _ = nakCases.Add("wire.rnr.refused", "a SEND without a receive", func(t *validate.T) {
	p := dial(t, kit.MinRNR(14))
	data := p.bytes(40)
	for i := range 2 {
		p.stray(wire.RCSendOnly, data)
		p.expect(fmt.Sprintf("answer to a SEND without a receive, transmission %d", i+1),
			nak(p.psn, wire.RNRNAK(14), 0))
	}
	p.blank()
	p.Recv(p.RecvWR(1, 0, 64))
	p.request(wire.RCSendOnly, data)
	p.expect("acknowledgement of the retransmitted SEND", acked(p.last(), 1))
	p.RecvCQ.WaitOK(1)
	p.Buf.WantOnly(t, "receive", 0, data)
}, wireRnr01)

var _ = nakCases.Add("wire.rnr.codes", "each RNR timer code", func(t *validate.T) {
	s := open(t)
	for code := uint8(1); code < 32; code += 5 {
		p := s.dial(kit.MinRNR(code))
		p.stray(wire.RCSendOnly, p.bytes(4))
		p.expect(fmt.Sprintf("answer of a QP with timer code %d to a SEND without a receive", code),
			nak(p.psn, wire.RNRNAK(code), 0))
	}
}, wireRnr01)

var _ = nakCases.Add("wire.rnr.behind", "requests after a SEND that got an RNR NAK", func(t *validate.T) {
	p := dial(t)
	due := p.psn
	data := p.bytes(24)
	p.stray(wire.RCSendOnly, data[:8])
	p.expect("answer to a SEND without a receive", nak(due, wire.RNRNAK(p.Config.MinRNR), 0))
	p.blank()
	p.Recv(p.RecvWRs(2, 8)...)
	// The SEND after the refused one is dropped. Some implementations answer it with a PSN sequence error, which adds
	// nothing to the RNR NAK.
	p.stray(wire.RCSendOnly, data[8:16], withPSN(due+1))
	p.request(wire.RCSendOnly, data[:8])
	x := p.next(t.Remaining())
	isSequenceNAK := x != nil && x.BTH.Opcode == wire.RCAcknowledge && x.AETH.Syndrome == wire.NAKPSNSequence
	if isSequenceNAK && x.BTH.PSN == due&wire.Mask24 {
		t.Note("a request after one that got an RNR NAK is answered with a NAK of its own (PSN sequence error)")
		x = p.next(t.Remaining())
	}
	if x == nil {
		t.Failf("answer to the retransmitted SEND", "an acknowledgement", "no packet by the deadline")
	}
	p.match(x, "acknowledgement of the retransmitted SEND", acked(due, 1))
	p.request(wire.RCSendOnly, data[16:])
	p.expect("acknowledgement of the next SEND", acked(due+1, 2))
	p.RecvCQ.WaitOK(1, 2)
	kit.SameBytes(t, "data of both receives", p.Buf.Bytes[:16], append(append([]byte(nil), data[:8]...), data[16:]...))
}, nakCases.Must("WIRE-Rnr-02", "IBTA 9.7.5", "RNR NAK",
	"Requests after a SEND that got an RNR NAK are not executed before that SEND has been retransmitted."),
	wireRnr01)

var _ = nakCases.Add("wire.rnr.write", "a WRITE with immediate data without a receive", func(t *validate.T) {
	p := dial(t)
	data := p.bytes(p.mtu + 8)
	p.message(wire.OpWrite, data, true, p.reth(0, len(data)), withImm(5))
	p.expect("answer to a WRITE with immediate data without a receive", nak(p.last(), wire.RNRNAK(p.Config.MinRNR), 0))
	p.blank()
	p.Recv(p.RecvWR(1, 0, 0))
	p.stray(wire.RCWriteLastImm, data[p.mtu:], withPSN(p.last()), withImm(5))
	p.expect("acknowledgement of the retransmitted last packet", acked(p.last(), 1))
	kit.Equal(t, "Length of the WRITE", p.RecvCQ.WaitOK(1)[0].Length, uint32(len(data)))
}, nakCases.Must("WIRE-Rnr-03", "IBTA 9.7.5", "RNR NAK of a WRITE with immediate",
	"A WRITE with immediate data without a posted receive is answered with an RNR NAK that has the PSN of its "+
		"last packet."))
