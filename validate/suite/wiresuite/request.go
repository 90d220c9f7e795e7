package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// requestCases are the cases of the requests that a QP sends. (IBTA 9.7.3, 9.4, 9.3.)
var requestCases = area()

var _ = requestCases.Add("wire.request.send", "SENDs of 0 bytes to several packets",
	func(t *validate.T) { dial(t).outbound(wire.OpSend) },
	requestCases.Must("WIRE-Req-01", "IBTA 9.7.3", "SEND",
		"A SEND is sent as full packets and a rest, with the opcodes FIRST, MIDDLE, LAST or ONLY and its bytes in "+
			"order."), wireReq09)

var _ = requestCases.Add("wire.request.write", "WRITEs of 0 bytes to several packets",
	func(t *validate.T) { dial(t).outbound(wire.OpWrite) },
	requestCases.Must("WIRE-Req-02", "IBTA 9.7.3", "RDMA WRITE; RETH",
		"A WRITE is sent like a SEND. Its first packet, and no other, has a RETH with the address, the key and the "+
			"length of the whole WRITE."), wireReq09)

// elsewhere is remote memory that does not exist. The certifier answers requests for it.
var elsewhere = ci.Remote{Addr: 0x0000123456789abc, RKey: 0xdeadbe01}

// outbound posts messages with sizes around packet boundaries, with each operation, and expects their packets.
func (p *peer) outbound(ops ...wire.Op) {
	id, msn, psn := uint64(0), uint32(0), p.from
	for _, op := range kit.Variants(p.t, "operation", ops) {
		for _, n := range kit.Variants(p.t, "bytes", []int{0, 1, 2, 3, 4, p.mtu - 1, p.mtu, p.mtu + 1, 3*p.mtu + 1}) {
			id++
			w := p.SendWR(id, 32, n)
			if op == wire.OpWrite {
				w.Op, w.Remote = ci.OpWrite, elsewhere
			}
			p.Send(w)
			psn = p.departs(op, w, n, psn)
			if p.service == wire.RC {
				msn++
				p.ack(wire.PSNAdd(psn, -1), msn)
			}
			p.CQ.WaitOK(id)
		}
	}
}

// departs expects the packets of a SEND or WRITE of n bytes from byte 32 of the buffer on. The first packet has that
// PSN. It returns the PSN after the last.
func (p *peer) departs(op wire.Op, w ci.SendWR, n int, psn uint32) uint32 {
	count := p.packets(n)
	imm, inv, se := w.Flags&ci.SendImmediate != 0, w.Flags&ci.SendInvalidate != 0, w.Flags&ci.SendSolicited != 0
	for k := range count {
		last := k == count-1
		code, _ := wire.Make(p.service, op, k == 0, last, last && imm, last && inv)
		where := fmt.Sprintf("packet %d of %d of %v of %d bytes", k+1, count, op, n)
		x := p.expect(where, want{
			op:      []wire.Opcode{code},
			psn:     wire.PSNAdd(psn, k),
			payload: append([]byte{}, p.Buf.Bytes[32+k*p.mtu:32+min((k+1)*p.mtu, n)]...),
		})
		if r := (wire.RETH{VA: w.Remote.Addr, RKey: uint32(w.Remote.RKey), DMALen: uint32(n)}); code.HasRETH() &&
			x.RETH != r {
			p.wrong(x, where, fmt.Sprintf("RETH %+v", r), fmt.Sprintf("%+v", x.RETH))
		}
		if last && imm && x.ImmDt.Imm != w.Imm {
			p.wrong(x, where, fmt.Sprintf("immediate data %#x", w.Imm), fmt.Sprintf("%#x", x.ImmDt.Imm))
		}
		if last && inv && x.IETH.RKey != uint32(w.Inv) {
			p.wrong(x, where, fmt.Sprintf("key to invalidate %#x", w.Inv), fmt.Sprintf("%#x", x.IETH.RKey))
		}
		if x.BTH.SE != (last && se) {
			p.wrong(x, where, fmt.Sprintf("solicited event %v", last && se), fmt.Sprintf("%v", x.BTH.SE))
		}
	}
	return wire.PSNAdd(psn, count)
}

// readWR returns a READ of n bytes of remote memory into the buffer at byte 32.
func (p *peer) readWR(id uint64, n int) ci.SendWR {
	return ci.SendWR{ID: id, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: p.Buf.SGL(32, n), Remote: elsewhere}
}

// expectRead receives READ requests until they cover n bytes from psn on. A driver may split a long READ.
func (p *peer) expectRead(what string, n int, psn uint32) {
	for off := 0; ; {
		x := p.expect("request of "+what,
			want{op: []wire.Opcode{wire.RCReadRequest}, psn: wire.PSNAdd(psn, off/p.mtu), length: 0})
		part := int(x.RETH.DMALen)
		samePlace := x.RETH.VA == elsewhere.Addr+uint64(off) && x.RETH.RKey == uint32(elsewhere.RKey)
		fullPackets := part > 0 && part%p.mtu == 0
		if !samePlace || part > n-off || part < n-off && !fullPackets {
			p.wrong(x, "request of "+what,
				fmt.Sprintf("a RETH with address %#x, key %#x and the %d bytes left, or a part of them in full packets",
					elsewhere.Addr+uint64(off),
					uint32(elsewhere.RKey), n-off), x.String())
		}
		if off += part; off == n {
			return
		}
	}
}

// serve answers the READ with that PSN.
func (p *peer) serve(psn uint32, data []byte, msn uint32) {
	p.serveFrom(psn, data, 0, p.packets(len(data)), msn)
}

// serveFrom sends packets [a, b) of the answer.
func (p *peer) serveFrom(psn uint32, data []byte, a, b int, msn uint32) {
	n := p.packets(len(data))
	for k := a; k < b; k++ {
		code, _ := wire.Make(wire.RC, wire.OpReadResponse, k == 0, k == n-1, false, false)
		p.answer(code, wire.PSNAdd(psn, k), wire.ACK(wire.CreditsInvalid), msn,
			data[min(k*p.mtu, len(data)):min((k+1)*p.mtu, len(data))])
	}
}

var _ = requestCases.Add("wire.request.read", "READs of 0 bytes to several packets", func(t *validate.T) {
	p := dial(t)
	psn := p.from
	for i, n := range kit.Variants(t, "bytes", []int{0, 1, 3, p.mtu - 1, p.mtu, p.mtu + 1, 3*p.mtu + 1}) {
		id := uint64(i + 1)
		p.blank()
		p.Send(p.readWR(id, n))
		what := fmt.Sprintf("a READ of %d bytes", n)
		p.expectRead(what, n, psn)
		data := p.bytes(n)
		p.serve(psn, data, uint32(id))
		kit.Equal(t, "Length of "+what, p.CQ.WaitOK(id)[0].Length, uint32(n))
		p.Buf.WantOnly(t, what, 32, data)
		psn = wire.PSNAdd(psn, p.packets(n))
	}
}, requestCases.Must("WIRE-Req-03", "IBTA 9.7.3", "RDMA READ request",
	"A READ is sent as requests without payload. Their RETHs cover the requested address, key and length without "+
		"gap or overlap."))

var _ = requestCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.request.atomic",
	"compare and swap, fetch and add", func(t *validate.T) {
		p := dial(t)
		psn := p.from
		to := ci.Remote{Addr: 0x1234567890, RKey: 0xdeadbe01}
		for i, x := range kit.Variants(t, "", []struct {
			op   ci.SendOp
			code wire.Opcode
			a    ci.Atomic
			eth  wire.AtomicETH
		}{
			{ci.OpCompareSwap, wire.RCCompareSwap, ci.Atomic{Compare: 0x1111222233334444, Swap: 0x5555666677778888},
				wire.AtomicETH{SwapAdd: 0x5555666677778888, Compare: 0x1111222233334444}},
			{ci.OpFetchAdd, wire.RCFetchAdd, ci.Atomic{Compare: 0x0102030405060708},
				wire.AtomicETH{SwapAdd: 0x0102030405060708}},
		}) {
			id := uint64(i + 1)
			p.Send(ci.SendWR{ID: id, Op: x.op, Flags: ci.SendSignaled, SGL: p.Buf.SGL(64, 8), Remote: to, Atomic: x.a})
			y := p.expect("request of an atomic", want{op: []wire.Opcode{x.code}, psn: psn, length: 0})
			x.eth.VA, x.eth.RKey = to.Addr, uint32(to.RKey)
			if x.code == wire.RCFetchAdd {
				y.AtomicETH.Compare = 0
			}
			if y.AtomicETH != x.eth {
				p.wrong(y, "request of an atomic", fmt.Sprintf("AtomicETH %+v", x.eth), fmt.Sprintf("%+v", y.AtomicETH))
			}
			p.answer(wire.RCAtomicAcknowledge, psn, wire.ACK(wire.CreditsInvalid), uint32(id), nil,
				withOrig(0xa1a2a3a4a5a6a7a8))
			p.CQ.WaitOK(id)
			kit.Equal(t, "original value", kit.LoadWord(p.Buf.Bytes[64:]), 0xa1a2a3a4a5a6a7a8)
			psn = wire.PSNAdd(psn, 1)
		}
	}, requestCases.Must("WIRE-Req-04", "IBTA 9.7.3", "atomics; AtomicETH",
		"An atomic is sent as one packet with its address, key and operands. The compare value of a fetch and add is "+
			"not checked."))

// one posts a request, expects its packets and acknowledges them.
func (p *peer) one(op wire.Op, w ci.SendWR, n int, psn, msn uint32) uint32 {
	if op == wire.OpWrite {
		w.Op, w.Remote = ci.OpWrite, elsewhere
	}
	p.Send(w)
	psn = p.departs(op, w, n, psn)
	p.ack(wire.PSNAdd(psn, -1), msn)
	p.CQ.WaitOK(w.ID)
	return psn
}

var _ = requestCases.Add("wire.request.immediate",
	"SENDs and WRITEs with immediate data, of one packet and of three", func(t *validate.T) {
		p := dial(t)
		psn, msn := p.from, uint32(0)
		for _, op := range kit.Variants(t, "opcode", []wire.Op{wire.OpSend, wire.OpWrite}) {
			for _, n := range kit.Variants(t, "bytes", []int{0, 5, 2*p.mtu + 3}) {
				msn++
				w := p.SendWR(uint64(msn), 32, n)
				w.Flags |= ci.SendImmediate
				w.Imm = 0x01020304
				psn = p.one(op, w, n, psn, msn)
			}
		}
	}, requestCases.Must("WIRE-Req-05", "IBTA 9.3", "ImmDt",
		"Immediate data are only in the last packet of a message, as the bytes 01 02 03 04 for 0x01020304."))

var _ = requestCases.Needing(validate.Needs{Caps: ci.CapSendInvalidate}).Add("wire.request.invalidate",
	"SENDs with invalidate, of one packet and of three", func(t *validate.T) {
		p := dial(t)
		psn := p.from
		for i, n := range kit.Variants(t, "bytes", []int{0, 5, 2*p.mtu + 3}) {
			w := p.SendWR(uint64(i+1), 32, n)
			w.Flags |= ci.SendInvalidate
			w.Inv = 0x00c0ff01
			psn = p.one(wire.OpSend, w, n, psn, uint32(i+1))
		}
	}, requestCases.Must("WIRE-Req-06", "IBTA 9.3", "IETH",
		"The key of a SEND with invalidate is only in its last packet."))

var _ = requestCases.Add("wire.request.solicited", "messages with and without a solicited event", func(t *validate.T) {
	p := dial(t)
	psn := p.from
	for i, n := range kit.Variants(t, "bytes", []int{5, 5, 2*p.mtu + 3, 2*p.mtu + 3}) {
		w := p.SendWR(uint64(i+1), 32, n)
		if i%2 == 1 {
			w.Flags |= ci.SendSolicited
		}
		psn = p.one(wire.OpSend, w, n, psn, uint32(i+1))
	}
}, requestCases.Must("WIRE-Req-07", "IBTA 9.2", "BTH SE",
	"The solicited event bit is set in the last packet of a message that requests it, and in no other."))

var _ = requestCases.Add("wire.request.ack", "AckReq at the end of messages", func(t *validate.T) {
	p := dial(t)
	psn := p.from
	for i, n := range kit.Variants(t, "bytes", []int{0, 5, p.mtu, 3*p.mtu + 1}) {
		w := p.SendWR(uint64(i+1), 32, n)
		p.Send(w)
		for k := range p.packets(n) {
			x := p.next(t.Remaining())
			if x == nil {
				t.Failf(fmt.Sprintf("packet %d of a SEND of %d bytes", k+1, n), "a packet", "no packet by the deadline")
			}
			if x.BTH.Opcode.End() && !x.BTH.AckReq {
				p.wrong(x, fmt.Sprintf("last packet of a SEND of %d bytes", n), "AckReq", x.String())
			}
		}
		psn = wire.PSNAdd(psn, p.packets(n))
		p.ack(wire.PSNAdd(psn, -1), uint32(i+1))
		p.CQ.WaitOK(uint64(i + 1))
	}
}, requestCases.Should("WIRE-Req-08", "IBTA 9.7.3", "BTH AckReq",
	"The last packet of a message requests an acknowledgement."))

var wireReq09 = requestCases.Must("WIRE-Req-09", "IBTA 9.7.3", "PSN",
	"The PSN of each request packet follows that of the previous one. A READ uses as many PSNs as its response "+
		"has packets.")

var _ = requestCases.Add("wire.request.psn", "PSNs over messages of all kinds", func(t *validate.T) {
	p := dial(t)
	p.mixed(p.from)
}, wireReq09)

// mixed makes the QP send messages of all kinds and checks their PSNs.
func (p *peer) mixed(psn uint32) {
	long := 2*p.mtu + 1
	psn = p.one(wire.OpSend, p.SendWR(1, 32, long), long, psn, 1)
	p.Send(p.readWR(2, long))
	p.expectRead("a READ of three packets", long, psn)
	p.serve(psn, p.bytes(long), 2)
	p.CQ.WaitOK(2)
	psn = wire.PSNAdd(psn, 3)
	psn = p.one(wire.OpWrite, p.SendWR(3, 32, 9), 9, psn, 3)
	p.Send(p.readWR(4, 0))
	p.expectRead("a READ of no bytes", 0, psn)
	p.serve(psn, nil, 4)
	p.CQ.WaitOK(4)
	psn = wire.PSNAdd(psn, 1)
	p.one(wire.OpSend, p.SendWR(5, 32, 0), 0, psn, 5)
}

var _ = requestCases.Add("wire.request.wrap", "PSNs across 0xffffff", func(t *validate.T) {
	s := open(t)
	for _, from := range kit.Variants(t, "PSN", []uint32{0xfffffe, 0xfffffc, 0xfffffa}) {
		s.raw().at(7, from).connect().mixed(from)
	}
}, requestCases.Must("WIRE-Req-10", "IBTA 9.7.1", "PSN modulo 2^24", "PSNs continue with 0 after 0xffffff."),
	wireReq09)
