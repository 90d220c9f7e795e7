package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// Packets that do not fit what came before them, to services without acknowledgements, and requests for too much. (IBTA
// 9.7.4, 9.7.5.1.2, 9.8.2.2, 9.8.3.)
var unfit = area()

var _ = unfit.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.unfit",
	"UC packets in a wrong place, of a wrong length or without permission", ucUnfit,
	unfit.Must("WIRE-Uc-06", "IBTA 9.8.2.2", "UC, validation of requests",
		"A UC packet that does not fit the message in progress, has a wrong length or is not permitted is dropped "+
			"with the rest of its message and without an answer. It completes no receive, and the next message is "+
			"accepted."))

// ucPacket is a packet to a UC QP: its payload in packets of the path MTU and bytes, and the length in its RETH.
type ucPacket struct {
	op    wire.Opcode
	mtus  int
	bytes int
	dma   int // -1: that of the payload
}

func ucUnfit(t *validate.T) {
	first := ucPacket{wire.UCSendFirst, 1, 0, -1}
	write := func(op wire.Opcode, mtus, bytes int) ucPacket { return ucPacket{op, mtus, bytes, -1} }
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		opt  kit.Option
		list []ucPacket
	}{
		{"a MIDDLE without FIRST", nil, []ucPacket{{wire.UCSendMiddle, 1, 0, -1}}},
		{"a LAST without FIRST", nil, []ucPacket{{wire.UCSendLast, 0, 8, -1}}},
		{"a WRITE LAST without FIRST", nil, []ucPacket{{wire.UCWriteLast, 0, 8, -1}}},
		{"a WRITE MIDDLE inside a SEND", nil,
			[]ucPacket{first, {wire.UCWriteMiddle, 1, 0, -1}, {wire.UCSendLast, 0, 8, -1}}},
		{"a SEND LAST inside a WRITE", nil,
			[]ucPacket{{wire.UCWriteFirst, 1, 0, 1 << 10}, {wire.UCSendLast, 0, 8, -1}}},
		{"a SEND FIRST of less than the MTU", nil,
			[]ucPacket{{wire.UCSendFirst, 1, -4, -1}, {wire.UCSendLast, 0, 8, -1}}},
		{"a SEND MIDDLE of less than the MTU", nil,
			[]ucPacket{first, {wire.UCSendMiddle, 1, -4, -1}, {wire.UCSendLast, 0, 8, -1}}},
		{"an empty SEND LAST", nil, []ucPacket{first, {wire.UCSendLast, 0, 0, -1}}},
		{"a SEND LAST of more than the MTU", nil, []ucPacket{first, {wire.UCSendLast, 1, 4, -1}}},
		{"a SEND ONLY of more than the MTU", nil, []ucPacket{{wire.UCSendOnly, 1, 4, -1}}},
		{"a SEND that is longer than the receive", nil,
			[]ucPacket{first, {wire.UCSendMiddle, 1, 0, -1}, {wire.UCSendMiddle, 1, 0, -1},
				{wire.UCSendLast, 0, 8, -1}}},
		{"a WRITE of less than the length in its RETH", nil, []ucPacket{{wire.UCWriteOnly, 0, 8, 12}}},
		{"a WRITE of more than the length in its RETH", nil, []ucPacket{{wire.UCWriteOnly, 0, 12, 8}}},
		{"a WRITE of more than 2^31 bytes", nil, []ucPacket{{wire.UCWriteFirst, 1, 0, 1<<31 + 1}}},
		{"a WRITE to a QP without remote write", qpAccess(ci.RemoteRead), []ucPacket{write(wire.UCWriteOnly, 0, 8)}},
		{"an empty WRITE with immediate data to a QP without remote write", qpAccess(ci.RemoteRead),
			[]ucPacket{write(wire.UCWriteOnlyImm, 0, 0)}},
		{"a WRITE to a region without remote write", bufAccess(ci.LocalWrite | ci.RemoteRead),
			[]ucPacket{write(wire.UCWriteOnlyImm, 0, 8)}},
	}) {
		opts := []kit.Option{kit.Type(ci.UC)}
		if x.opt != nil {
			opts = append(opts, x.opt)
		}
		p := s.dial(opts...)
		size := 2*p.mtu + 64
		p.Recv(p.RecvWRs(2, size)...)
		for _, k := range x.list {
			n := k.mtus*p.mtu + k.bytes
			dma := k.dma
			if dma < 0 {
				dma = n
			}
			r := p.Buf.Remote(uint64(2 * size))
			p.request(k.op, p.bytes(n), withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey), DMALen: uint32(dma)}))
		}
		for id := uint64(1); id <= 2; id++ { // of several packets, and of one
			data := p.bytes(p.mtu + 24)
			if id == 2 {
				p.blank() // the first message has come, and with it what was sent before it
				data = data[:24]
			}
			p.message(wire.OpSend, data, false)
			wc := p.RecvCQ.WaitOK(id)[0]
			kit.Equal(t, fmt.Sprintf("Length of message %d after %s", id, x.what), wc.Length, uint32(len(data)))
			kit.SameBytes(t, "data of a message after "+x.what, p.Buf.Bytes[(int(id)-1)*size:][:len(data)], data)
		}
		p.RecvCQ.Empty()
		for i, b := range p.Buf.Bytes[2*size:] {
			kit.True(t, b == 0xee, "memory of a WRITE after "+x.what, "nothing written by later messages",
				"byte %d is %#02x", i, b)
		}
		p.mute(x.what)
		kit.Equal(t, "state of the QP after "+x.what, p.State(), ci.QPRTS)
	}
}

var _ = unfit.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.no-receive",
	"UC messages without a receive", func(t *validate.T) {
		s := open(t)
		p := s.dial(kit.Type(ci.UC))
		p.request(wire.UCSendOnly, p.bytes(8))
		p.message(wire.OpSend, p.bytes(2*p.mtu+8), false)
		p.request(wire.UCWriteOnlyImm, p.bytes(8), p.reth(1024, 8), withImm(9))
		s.over(p, "messages without a receive") // a packet to another QP shows that these have been handled
		p.blank()
		p.Recv(p.RecvWRs(2, 64)...)
		data := p.bytes(8)
		p.request(wire.UCWriteOnlyImm, data, p.reth(1024, 8), withImm(0x0badcafe))
		kit.WantRecv(t, "WRITE with immediate data after messages without a receive", p.RecvCQ.WaitOK(1)[0],
			ci.WC{ID: 1, Op: ci.WCRecvWrite, Length: 8, QPN: p.Num(), Flags: ci.WCImmediate, Imm: 0x0badcafe,
				Context: p.Events})
		p.Buf.WantOnly(t, "memory", 1024, data)
		p.request(wire.UCSendOnlyImm, data, withImm(7))
		kit.WantRecv(t, "SEND after messages without a receive", p.RecvCQ.WaitOK(2)[0],
			ci.WC{ID: 2, Op: ci.WCRecv, Length: 8, QPN: p.Num(), Flags: ci.WCImmediate, Imm: 7, Context: p.Events})
		p.RecvCQ.Empty()
		kit.Equal(t, "state of the QP", p.State(), ci.QPRTS)
	}, unfit.Must("WIRE-Uc-07", "IBTA 9.8.2.2", "UC, no receive",
		"A UC SEND or WRITE with immediate data without a posted receive is dropped without an answer, and the QP "+
			"stays as it is."))

var _ = unfit.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.bad-receive",
	"a UC SEND into a receive with an invalid key", func(t *validate.T) {
		s := open(t)
		p := s.dial(kit.Type(ci.UC))
		r := p.RecvWR(1, 0, 64)
		r.SGL[0].LKey ^= 0x5a00
		p.Recv(r, p.RecvWR(2, 64, 64))
		p.request(wire.UCSendOnly, p.bytes(8))
		p.RecvCQ.WaitStatus(1, ci.WCLocalProtErr)
		p.RecvCQ.WaitFlushed(2)
		p.fatal()
		s.over(p, "a SEND into a receive with an invalid key")
	}, unfit.Must("WIRE-Uc-08", "IBTA 10.10.2", "UC, receive that is in error",
		"A UC SEND into a receive with an invalid key completes the receive with a local protection error. The QP "+
			"goes to Error and sends no answer."))

var _ = unfit.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.psn",
	"UC messages across PSN 0xffffff, repeated, and from earlier PSNs", func(t *validate.T) {
		p := open(t).raw(kit.Type(ci.UC)).at(0xfffffe, 5).connect()
		id := uint64(0)
		good := func(what string, n int) {
			id++
			p.Recv(p.RecvWR(id, 0, 4*p.mtu))
			data := p.bytes(n)
			p.message(wire.OpSend, data, false)
			kit.Equal(t, "Length of "+what, p.RecvCQ.WaitOK(id)[0].Length, uint32(n))
			kit.SameBytes(t, "data of "+what, p.Buf.Bytes[:n], data)
		}
		good("a message with PSNs 0xfffffe to 0", 2*p.mtu+8)
		good("the next message", 8)
		// A message that begins anew, inside another one and with any PSN, is accepted.
		for _, d := range kit.Variants(t, "shift", []int{-1, 3, -100, 1 << 22}) {
			p.request(wire.UCSendFirst, p.bytes(p.mtu))
			p.psn = wire.PSNAdd(p.psn, d)
			good(fmt.Sprintf("a message whose PSN is off by %d, after one without its end", d), p.mtu+8)
		}
		p.mute("messages of any PSN")
	}, wireUc03)

var _ = unfit.Add("wire.nak.huge", "a WRITE and a READ of more than 2^31 bytes", func(t *validate.T) {
	s := open(t)
	for _, x := range kit.Variants(t, "", []struct {
		op  wire.Opcode
		dma uint32
		syn wire.Syndrome
	}{
		{wire.RCWriteFirst, 1<<31 + 1, wire.NAKInvalidRequest},
		{wire.RCReadRequest, 1<<31 + 1, wire.NAKInvalidRequest},
		{wire.RCReadRequest, 0xffffffff, wire.NAKInvalidRequest},
		{wire.RCWriteFirst, 1 << 31, wire.NAKRemoteAccess}, // permitted, and more than the region
		{wire.RCReadRequest, 1 << 31, wire.NAKRemoteAccess},
	}) {
		p := s.dial()
		p.blank()
		var data []byte
		if x.op == wire.RCWriteFirst {
			data = p.bytes(p.mtu)
		}
		r := p.Buf.Remote(0)
		p.stray(x.op, data, withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey), DMALen: x.dma}), ackReq(true))
		what := fmt.Sprintf("%v of %d bytes", x.op, x.dma)
		p.expect("answer to a "+what, nak(p.psn, x.syn, 0))
		p.Buf.WantOnly(t, "memory after a "+what, 0, nil)
		p.fatal()
	}
}, unfit.Must("WIRE-Nak-16", "IBTA 9.7.4", "length validation",
	"A WRITE or READ of more than 2^31 bytes is answered with a NAK 0x61 that has its PSN."))

var wireDup09 = unfit.Must("WIRE-Dup-09", "IBTA 9.7.5.1.2", "duplicate READ, other memory",
	"A READ with the PSN of an earlier one that asks for memory or bytes which that one did not ask for is not "+
		"answered with data.")

var _ = unfit.Add("wire.dup.read-other", "duplicate READs of other memory", func(t *validate.T) {
	p := dial(t)
	n := 3 * p.mtu
	p.barrier("nothing", 1)
	first := p.psn
	p.request(wire.RCReadRequest, nil, p.reth(p.mtu, n))
	p.readAnswer("READ of three packets", first, p.Buf.Bytes[p.mtu:][:n], 2)
	r := p.Buf.Remote(uint64(p.mtu))
	for _, x := range kit.Variants(t, "", []struct {
		what string
		psn  uint32
		reth wire.RETH
	}{
		{"with the PSN of the WRITE before it", first - 1,
			wire.RETH{VA: r.Addr - uint64(p.mtu), RKey: uint32(r.RKey), DMALen: uint32(p.mtu)}},
		{"from an earlier address", first, wire.RETH{VA: r.Addr - 8, RKey: uint32(r.RKey), DMALen: uint32(n)}},
		{"from a later address", first, wire.RETH{VA: r.Addr + uint64(p.mtu), RKey: uint32(r.RKey), DMALen: 8}},
		{"of the second packet with the PSN of the third", first + 2,
			wire.RETH{VA: r.Addr + uint64(p.mtu), RKey: uint32(r.RKey), DMALen: 8}},
		{"of more bytes", first, wire.RETH{VA: r.Addr, RKey: uint32(r.RKey), DMALen: uint32(n + 1)}},
		{"of the second packet on, of more bytes", first + 1,
			wire.RETH{VA: r.Addr + uint64(p.mtu), RKey: uint32(r.RKey), DMALen: uint32(2*p.mtu + 1)}},
		{"with another key", first, wire.RETH{VA: r.Addr, RKey: uint32(r.RKey) ^ 0x5a00, DMALen: uint32(n)}},
	}) {
		p.stray(wire.RCReadRequest, nil, withPSN(x.psn), withReth(x.reth))
		p.barrier("a duplicate READ "+x.what, -1)
	}
	// Each part of the first READ is answered, in any order.
	for _, k := range kit.Variants(t, "first packet", []int{2, 0, 1}) {
		at := first + uint32(k)
		p.stray(wire.RCReadRequest, nil, withPSN(at), withReth(wire.RETH{VA: r.Addr + uint64(k*p.mtu),
			RKey: uint32(r.RKey), DMALen: uint32(n - k*p.mtu)}))
		p.readAnswer(fmt.Sprintf("duplicate READ from packet %d of 3", k+1), at,
			p.Buf.Bytes[p.mtu+k*p.mtu:][:n-k*p.mtu], -1)
	}
	p.barrier("duplicate READs", -1)
}, wireDup09)
