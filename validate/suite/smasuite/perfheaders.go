package smasuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = perf.Add("sma.perf.headers",
	"the bytes of packets of each operation, and of datagrams with and without a GRH", perfHeaders,
	perf.Must("SMA-Perf-09", "IBTA 16.1.3.5", perfVerb,
		"PortXmitData and PortRcvData count the bytes of each kind of packet: its extension headers, its GRH, and "+
			"its payload with the pad."))

// perfOp is an operation with one packet in each direction, or a datagram.
type perfOp struct {
	name  string
	op    ci.SendOp
	flags ci.SendFlags
	n     int // bytes of the message
	// Bytes of extension headers and payload of the packet that is sent, and of the answer.
	out, in int
	isNext  bool // uses a receive
}

var perfOps = []perfOp{
	{name: "SEND of 255 bytes", op: ci.OpSend, n: 255, out: 256, in: 4, isNext: true},
	{name: "SEND with immediate data", op: ci.OpSend, flags: ci.SendImmediate, n: 1, out: 4 + 4, in: 4, isNext: true},
	{name: "WRITE", op: ci.OpWrite, n: 6, out: 16 + 8, in: 4},
	{name: "WRITE with immediate data", op: ci.OpWrite, flags: ci.SendImmediate, n: 8, out: 20 + 8, in: 4,
		isNext: true},
	{name: "READ", op: ci.OpRead, n: 33, out: 16, in: 4 + 36},
	{name: "fetch and add", op: ci.OpFetchAdd, n: 8, out: 28, in: 4 + 8},
	{name: "compare and swap", op: ci.OpCompareSwap, n: 8, out: 28, in: 4 + 8},
}

// perfMessages is the number of messages of each kind.
const perfMessages = 5

// wantWords compares the words that were counted with those of numbers of equal messages, each of n packets with that
// many bytes of extension headers and payload in all. Other packets, such as retransmissions and answers of QP1, are at
// least minWords long.
func wantWords(t *validate.T, what string, words, pkts, n uint32, bytes int) {
	n *= perfMessages
	kit.AtLeast(t, "packets of "+what, pkts, n)
	want := (n*(8+12+4) + perfMessages*uint32(bytes)) / 4
	if extra := pkts - n; extra > 0 {
		kit.AtLeast(t, fmt.Sprintf("words of %s and of %d other packets", what, extra), words, want+extra*minWords)
		return
	}
	kit.Equal(t, "words of "+what, words, want)
}

func perfHeaders(t *validate.T) {
	p := kit.RC(t)
	m := newMeter(t, p.A.QP.CA)
	packets := uint32(1) // of a message and of its answer
	measured := func(what string, out, in int, run func(id uint64)) {
		m.clear(0xffff) // full counters stop
		before := m.counters()
		for id := range uint64(perfMessages) {
			run(id)
		}
		now := m.counters()
		if out > 0 {
			wantWords(t, what+", sent", now.PortXmitData-before.PortXmitData,
				now.PortXmitPkts-before.PortXmitPkts, packets, out)
		}
		if pkts := now.PortRcvPkts - before.PortRcvPkts; in > 0 && pkts >= perfMessages*packets {
			wantWords(t, what+", received", now.PortRcvData-before.PortRcvData, pkts, packets, in)
		}
	}
	for _, o := range kit.Variants(t, "", perfOps) {
		if (o.op == ci.OpFetchAdd || o.op == ci.OpCompareSwap) && t.Attr().Atomicity == ci.AtomicNone {
			continue
		}
		measured(o.name, o.out, o.in, func(id uint64) {
			if o.isNext {
				p.B.Recv(p.B.RecvWR(id, 0, 256))
			}
			w := p.A.RDMA(o.op, id, 0, o.n, p.B, 512)
			w.Flags |= o.flags
			p.A.Send(w)
			p.A.CQ.WaitOK(id)
			if o.isNext {
				p.B.RecvCQ.WaitOK(id)
			}
		})
	}
	// Messages of three packets: the first or the last ones alone have extension headers.
	packets = 3
	mtu := p.A.PathMTU()
	long := p.Another(kit.Size(4 * mtu))
	for _, o := range kit.Variants(t, "", []perfOp{
		{name: "SEND of three packets", op: ci.OpSend, out: 3 * mtu, isNext: true},
		{name: "SEND of three packets with immediate data", op: ci.OpSend, flags: ci.SendImmediate, out: 3*mtu + 4,
			isNext: true},
		{name: "WRITE of three packets", op: ci.OpWrite, out: 16 + 3*mtu},
		{name: "READ of three packets", op: ci.OpRead, in: 4 + 3*mtu + 4},
	}) {
		measured(o.name, o.out, o.in, func(id uint64) {
			if o.isNext {
				long.B.Recv(long.B.RecvWR(id, 0, 3*mtu))
			}
			w := long.A.RDMA(o.op, id, 0, 3*mtu, long.B, 0)
			w.Flags |= o.flags
			long.A.Send(w)
			long.A.CQ.WaitOK(id)
			if o.isNext {
				long.B.RecvCQ.WaitOK(id)
			}
		})
	}
	packets = 1
	if !t.Claims().Has(ci.CapUD | ci.CapAV) {
		return
	}
	u := p.Another(kit.Type(ci.UD))
	for _, grh := range kit.Variants(t, "GRH", []int{0, grhLen}) {
		for _, e := range []struct{ from, to *kit.End }{{u.A, u.B}, {u.B, u.A}} {
			attr := e.from.QP.CA.AddressOf(e.to.QP.CA)
			if grh > 0 {
				attr.Global = true
				attr.GRH = ci.GRH{DGID: e.to.QP.CA.Port.GIDs[0].GID, HopLimit: 1}
			}
			av, err := e.from.PD.CreateAV(attr)
			kit.OK(t, err, "PD.CreateAV")
			kit.Own(t, av, "AV")
			bytes, out, in := grh+8+32, 0, 0
			what := fmt.Sprintf("a datagram of 30 bytes with %d bytes of GRH", grh)
			if e.from == u.A {
				out = bytes
			} else {
				in = bytes
			}
			measured(what, out, in, func(id uint64) {
				e.to.Recv(e.to.RecvWR(id, 0, grhLen+30))
				w := e.from.SendWR(id, 0, 30)
				w.To.AV = av
				e.from.Send(w)
				e.from.CQ.WaitOK(id)
				e.to.RecvCQ.WaitOK(id)
			})
		}
	}
}
