package wiresuite

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// respondCases are the cases of the responder's answers to valid requests. (IBTA 9.7.4, 9.7.5.)
var respondCases = area()

var wireAck01 = respondCases.Must("WIRE-Ack-01", "IBTA 9.7.5", "acknowledge messages",
	"A message with AckReq in its last packet is acknowledged once it has been executed. The acknowledgement has "+
		"that packet's PSN and an ACK syndrome.")

var _ = respondCases.Add("wire.ack.send", "SENDs of one packet", func(t *validate.T) {
	p := dial(t)
	p.Recv(p.RecvWRs(3, 64)...)
	for i := range 3 {
		p.request(wire.RCSendOnly, p.bytes(20+i))
		p.expect(fmt.Sprintf("acknowledgement of SEND %d", i+1), acked(p.last(), i+1))
	}
	p.received(1, 2, 3)
}, wireAck01)

// The case checks that a consumer that spins on its CQs does not hold up acknowledgements.
var _ = respondCases.Add("wire.ack.polling", "SENDs to a consumer that polls without a pause", func(t *validate.T) {
	const n = 12
	p := dial(t)
	p.Recv(p.RecvWRs(n, 64)...)
	var isOver atomic.Bool
	defer isOver.Store(true) // if the case fails
	var seen []uint64
	var err error
	done := make(chan struct{})
	t.Go(func() {
		defer close(done)
		var wc [4]ci.WC
		for err == nil && len(seen) < n && !isOver.Load() {
			for _, q := range []ci.CQ{p.RecvCQ, p.CQ} {
				var k int
				k, err = q.Poll(wc[:])
				for _, w := range wc[:k] {
					seen = append(seen, w.ID)
				}
			}
			runtime.Gosched()
		}
	})
	for i := range n {
		p.request(wire.RCSendOnly, p.bytes(20+i))
		p.expect(fmt.Sprintf("acknowledgement of SEND %d, while the consumer polls", i+1), acked(p.last(), i+1))
	}
	<-done
	kit.OK(t, err, "CQ.Poll")
	var want []uint64
	for i := range uint64(n) {
		want = append(want, i+1)
	}
	kit.True(t, slices.Equal(seen, want), "ids of the completions", fmt.Sprint(want), "%v", seen)
}, wireAck01)

var _ = respondCases.Add("wire.ack.write", "a WRITE of one packet", func(t *validate.T) {
	p := dial(t)
	p.blank()
	data := p.bytes(33)
	p.request(wire.RCWriteOnly, data, p.reth(7, len(data)))
	p.expect("acknowledgement of the WRITE", acked(p.last(), 1))
	p.wrote("memory after the acknowledgement", 7, data)
}, wireAck01, wireWrite01)

var _ = respondCases.Add("wire.ack.last", "a message of three packets: one acknowledgement", func(t *validate.T) {
	p := dial(t)
	data := p.bytes(2*p.mtu + 5)
	p.message(wire.OpWrite, data, false, p.reth(0, len(data)))
	p.expect("first answer to a WRITE of three packets with AckReq in its last", acked(p.last(), 1))
	p.barrier("a WRITE of three packets", 2)
}, wireAck01)

var _ = respondCases.Add("wire.ack.inside", "AckReq in the first packet of a message",
	func(t *validate.T) { acksInside(t, false) }, respondCases.Must("WIRE-Ack-02", "IBTA 9.7.5", "BTH AckReq",
		"A packet with AckReq inside a message is acknowledged with its PSN before the message ends."))

var wireAck03 = respondCases.Must("WIRE-Ack-03", "IBTA 9.7.7", "AETH MSN",
	"The MSN counts every executed message exactly once since the QP was connected. Only the last packet of a "+
		"message increments it.")

var _ = respondCases.Add("wire.ack.msn-inside", "the MSN inside a message",
	func(t *validate.T) { acksInside(t, true) }, wireAck03)

// acksInside sends a WRITE of three packets that all have AckReq. counted reports whether the MSN is checked.
func acksInside(t *validate.T, counted bool) {
	p := dial(t)
	data := p.bytes(3 * p.mtu)
	inside, done := -1, -1
	if counted {
		inside, done = 0, 1
	}
	p.request(wire.RCWriteFirst, data[:p.mtu], p.reth(0, len(data)), ackReq(true))
	p.expect("acknowledgement of the FIRST packet", acked(p.last(), inside))
	p.request(wire.RCWriteMiddle, data[p.mtu:2*p.mtu], ackReq(true))
	p.expect("acknowledgement of the MIDDLE packet", acked(p.last(), inside))
	p.request(wire.RCWriteLast, data[2*p.mtu:])
	p.expect("acknowledgement of the LAST packet", acked(p.last(), done))
}

var _ = respondCases.Add("wire.ack.msn",
	"the MSN after SEND, WRITE and READ of one and of several packets", func(t *validate.T) {
		p := dial(t)
		msn := 0
		p.Recv(p.RecvWRs(2, 4*p.mtu)...)
		step := func(what string) {
			msn++
			p.expect("acknowledgement of "+what, acked(p.last(), msn))
		}
		p.message(wire.OpSend, p.bytes(1), false)
		step("a SEND of one packet")
		p.message(wire.OpSend, p.bytes(3*p.mtu), false)
		step("a SEND of three packets")
		p.message(wire.OpWrite, p.bytes(2*p.mtu+1), false, p.reth(0, 2*p.mtu+1))
		step("a WRITE of three packets")
		first := p.psn
		p.request(wire.RCReadRequest, nil, p.reth(0, 2*p.mtu+1))
		msn++
		p.readAnswer("READ of three packets", first, p.Buf.Bytes[:2*p.mtu+1], msn)
		p.request(wire.RCWriteOnly, nil)
		step("a WRITE of no bytes")
	}, wireAck03)

var _ = respondCases.With(validate.Case{Timeout: time.Minute}).Add("wire.ack.msn-carry",
	"the MSN after more messages than 16 bits count", func(t *validate.T) {
		const burst = 32 // which the link takes at once
		p := dial(t)
		for n := burst; n <= 1<<16+burst; n += burst {
			for range burst - 1 {
				p.request(wire.RCWriteOnly, nil, ackReq(false))
			}
			p.request(wire.RCWriteOnly, nil)
			p.expect(fmt.Sprintf("acknowledgement of WRITE %d", n), acked(p.last(), n))
		}
	}, wireAck03)

// readAnswer expects all packets of a READ response with that data and first PSN.
func (p *peer) readAnswer(what string, first uint32, data []byte, msn int) {
	n := p.packets(len(data))
	for k := range n {
		op := wire.RCReadResponseMiddle
		switch {
		case n == 1:
			op = wire.RCReadResponseOnly
		case k == 0:
			op = wire.RCReadResponseFirst
		case k == n-1:
			op = wire.RCReadResponseLast
		}
		part := data[min(k*p.mtu, len(data)):min((k+1)*p.mtu, len(data))]
		w := want{op: []wire.Opcode{op}, psn: first + uint32(k), syn: wire.ACK(wire.CreditsInvalid), msn: msn,
			payload: append([]byte{}, part...), length: len(part)}
		if p.program != nil { // whose memory is not known
			w.payload = nil
		}
		p.expect(fmt.Sprintf("packet %d of %d of the response to the %s", k+1, n, what), w)
	}
}

var _ = respondCases.Needing(validate.Needs{Caps: ci.CapSRQ}).Add("wire.ack.srq-credits",
	"credits of a QP with an SRQ", func(t *validate.T) {
		s := open(t)
		pd := s.ca.PD()
		srq, _ := s.ca.SRQ(pd, 8, 1)
		p := s.dial(kit.WithSRQ(srq))
		p.request(wire.RCWriteOnly, nil)
		x := p.expect("acknowledgement of a WRITE", acked(p.last(), 1))
		if x.AETH.Syndrome.Value() != wire.CreditsInvalid {
			p.wrong(x, "credit code of a QP with an SRQ", "31", fmt.Sprintf("%d", x.AETH.Syndrome.Value()))
		}
	}, respondCases.Must("WIRE-Ack-04", "IBTA 9.7.7", "AETH credit count; SRQ",
		"A responder with a shared receive queue grants no credits: its ACKs have the credit code 31."))

var wireAck05 = respondCases.Must("WIRE-Ack-05", "IBTA 9.7.1", "PSN modulo 2^24",
	"Expected and acknowledged PSNs continue with 0 after 0xffffff.")

var _ = respondCases.Add("wire.ack.wrap", "messages across PSN 0xffffff", func(t *validate.T) {
	p := open(t).raw().at(0xfffffe, 5).connect()
	data := p.bytes(3 * p.mtu)
	p.blank()
	p.message(wire.OpWrite, data, false, p.reth(0, len(data)))
	p.expect("acknowledgement of a WRITE with PSNs 0xfffffe to 0", acked(0, 1))
	p.wrote("memory", 0, data)
	p.barrier("a WRITE across PSN 0xffffff", 2)
}, wireAck05)

var wireSend01 = respondCases.Must("WIRE-Send-01", "IBTA 9.7.4", "SEND",
	"A SEND of several packets fills one receive with their payloads in order. The completion has the immediate "+
		"data.")

var _ = respondCases.Add("wire.send.placed", "SENDs of 0 bytes to several packets", func(t *validate.T) {
	p := dial(t)
	for i, n := range kit.Variants(t, "bytes", []int{0, 1, 2, 3, 4, p.mtu - 1, p.mtu, p.mtu + 1, 3*p.mtu + 9}) {
		id := uint64(i + 1)
		p.blank()
		p.Recv(p.RecvWR(id, 100, 4*p.mtu))
		data := p.bytes(n)
		p.message(wire.OpSend, data, false)
		p.expect(fmt.Sprintf("acknowledgement of a SEND of %d bytes", n), acked(p.last(), i+1))
		kit.Equal(t, fmt.Sprintf("Length of a SEND of %d bytes", n), p.RecvCQ.WaitOK(id)[0].Length, uint32(n))
		p.Buf.WantOnly(t, fmt.Sprintf("SEND of %d bytes", n), 100, data)
	}
}, wireSend01)

var _ = respondCases.Add("wire.send.immediate",
	"SENDs with immediate data, of one packet and of three", func(t *validate.T) {
		p := dial(t)
		for i, n := range kit.Variants(t, "bytes", []int{5, 2*p.mtu + 3}) {
			id := uint64(i + 1)
			p.blank()
			p.Recv(p.RecvWR(id, 0, 4*p.mtu))
			data := p.bytes(n)
			p.message(wire.OpSend, data, true, withImm(0xa1b2c3d4))
			p.expect("acknowledgement of a SEND with immediate data", acked(p.last(), i+1))
			kit.WantRecv(t, fmt.Sprintf("SEND of %d bytes with immediate data", n), p.RecvCQ.WaitOK(id)[0],
				ci.WC{ID: id, Op: ci.WCRecv,
					Length: uint32(n), QPN: p.Num(), Flags: ci.WCImmediate, Imm: 0xa1b2c3d4, Context: p.Events})
			p.Buf.WantOnly(t, "receive", 0, data)
		}
	}, wireSend01)

// The case takes a QP to Error inside a message. The receive that the message has begun to fill is flushed, before
// those behind it.
var _ = respondCases.Add("wire.send.unfinished", "a QP goes to Error inside a message", func(t *validate.T) {
	p := dial(t)
	p.Recv(p.RecvWRs(3, 2*p.mtu)...)
	p.request(wire.RCSendFirst, p.bytes(p.mtu), ackReq(true))
	p.expect("acknowledgement of the FIRST packet", acked(p.last(), 0))
	p.To(ci.QPError)
	p.RecvCQ.WaitFlushed(1, 2, 3)
	p.WantDrained()
}, wireSend01)

var wireWrite01 = respondCases.Must("WIRE-Write-01", "IBTA 9.7.4", "RDMA WRITE",
	"A WRITE of several packets writes their payloads in order at the address of the RETH in its first packet. "+
		"It uses no receive.")

var _ = respondCases.Add("wire.write.placed", "WRITEs of 1 byte to several packets", func(t *validate.T) {
	p := dial(t)
	p.Recv(p.RecvWR(1, 0, 16))
	for i, n := range kit.Variants(t, "bytes", []int{1, 2, 3, 4, p.mtu - 1, p.mtu, p.mtu + 1, 3*p.mtu + 9}) {
		p.blank()
		data := p.bytes(n)
		p.message(wire.OpWrite, data, false, p.reth(50+i, n))
		p.expect(fmt.Sprintf("acknowledgement of a WRITE of %d bytes", n), acked(p.last(), i+1))
		p.wrote(fmt.Sprintf("WRITE of %d bytes", n), 50+i, data)
	}
	p.notReceived()
}, wireWrite01)

var _ = respondCases.Add("wire.write.immediate", "WRITEs with immediate data", func(t *validate.T) {
	p := dial(t)
	for i, n := range kit.Variants(t, "bytes", []int{0, 5, 2*p.mtu + 3}) {
		id := uint64(i + 1)
		p.blank()
		p.Recv(p.RecvWR(id, 0, 16))
		data := p.bytes(n)
		p.message(wire.OpWrite, data, true, p.reth(64, n), withImm(0x01020304))
		p.expect("acknowledgement of a WRITE with immediate data", acked(p.last(), i+1))
		kit.WantRecv(t, fmt.Sprintf("WRITE of %d bytes with immediate data", n), p.RecvCQ.WaitOK(id)[0],
			ci.WC{ID: id, Op: ci.WCRecvWrite,
				Length: uint32(n), QPN: p.Num(), Flags: ci.WCImmediate, Imm: 0x01020304, Context: p.Events})
		p.Buf.WantOnly(t, "memory", 64, data)
	}
}, respondCases.Must("WIRE-Write-02", "IBTA 9.7.4", "RDMA WRITE with immediate",
	"A WRITE with immediate data uses one receive at its last packet. The completion has the immediate data and "+
		"the length written."))

var wireRead01 = respondCases.Must("WIRE-Read-01", "IBTA 9.7.5", "READ responses",
	"A READ is answered with as many packets as its length needs, with the opcodes FIRST, MIDDLE, LAST or ONLY "+
		"and consecutive PSNs from that of the request on. All except the last are full. FIRST, LAST and ONLY "+
		"have an AETH with an ACK syndrome.")

var _ = respondCases.Add("wire.read.sizes", "READs of 1 byte to several packets", func(t *validate.T) {
	p := dial(t)
	for i, n := range kit.Variants(t, "bytes", []int{1, 2, 3, 4, p.mtu - 1, p.mtu, p.mtu + 1, 3*p.mtu + 9}) {
		first := p.psn
		p.request(wire.RCReadRequest, nil, p.reth(i, n))
		p.readAnswer(fmt.Sprintf("READ of %d bytes", n), first, p.Buf.Bytes[i:i+n], i+1)
	}
	p.barrier("READs", 9)
}, wireRead01)

var _ = respondCases.Add("wire.read.wrap", "a READ response across PSN 0xffffff", func(t *validate.T) {
	p := open(t).raw().at(0xfffffe, 5).connect()
	p.request(wire.RCReadRequest, nil, p.reth(0, 4*p.mtu))
	p.readAnswer("READ of four packets from PSN 0xfffffe", 0xfffffe, p.Buf.Bytes[:4*p.mtu], 1)
	kit.Equal(t, "PSN of the next request", p.psn, 2)
	p.barrier("a READ across PSN 0xffffff", 2)
}, wireRead01, wireAck05)

var _ = respondCases.Add("wire.rdma.zero", "READ and WRITE of no bytes with an invalid key", func(t *validate.T) {
	p := dial(t)
	none := withReth(wire.RETH{VA: 0x10, RKey: 0xffffff01})
	first := p.psn
	p.request(wire.RCReadRequest, nil, none)
	p.readAnswer("READ of no bytes", first, nil, 1)
	p.request(wire.RCWriteOnly, nil, none)
	p.expect("acknowledgement of a WRITE of no bytes", acked(p.last(), 2))
}, respondCases.Must("WIRE-Read-02", "IBTA 9.7.4", "zero-length RDMA",
	"A READ or WRITE of no bytes is answered without a check of its key and address."))

var _ = respondCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.atomic.answers",
	"compare and swap, fetch and add", func(t *validate.T) {
		p := dial(t)
		put := func(v uint64) { kit.StoreWord(p.Buf.Bytes[64:], v) }
		get := func() uint64 { return kit.LoadWord(p.Buf.Bytes[64:]) }
		put(40)
		r := p.Buf.Remote(64)
		eth := func(swap, compare uint64) twist {
			return withAtomic(wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey), SwapAdd: swap, Compare: compare})
		}
		for i, x := range kit.Variants(t, "", []struct {
			what        string
			op          wire.Opcode
			eth         twist
			orig, after uint64
		}{
			{"a fetch and add of 2", wire.RCFetchAdd, eth(2, 0), 40, 42},
			{"a compare and swap whose compare value is equal", wire.RCCompareSwap, eth(7, 42), 42, 7},
			{"a compare and swap whose compare value differs", wire.RCCompareSwap, eth(9, 42), 7, 7},
			{"a fetch and add of -8", wire.RCFetchAdd, eth(^uint64(7), 0), 7, ^uint64(0)},
		}) {
			p.request(x.op, nil, x.eth)
			a := p.expect("answer to "+x.what, want{
				op:  []wire.Opcode{wire.RCAtomicAcknowledge},
				psn: p.last(),
				syn: wire.ACK(wire.CreditsInvalid),
				msn: i + 1,
			})
			if a.AtomicAckETH.Orig != x.orig {
				p.wrong(a, "answer to "+x.what, fmt.Sprintf("original value %#x", x.orig),
					fmt.Sprintf("%#x", a.AtomicAckETH.Orig))
			}
			kit.Equal(t, "memory after "+x.what, get(), x.after)
		}
	}, respondCases.Must("WIRE-Atomic-01", "IBTA 9.7.5", "atomic acknowledge",
		"An atomic is answered with an ATOMIC ACKNOWLEDGE that has the request's PSN and the original value of the "+
			"memory."))
