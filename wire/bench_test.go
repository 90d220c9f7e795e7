package wire_test

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/wire"
)

// The sinks keep the compiler from removing the measured code.
var (
	sinkICRC wire.ICRC
	sinkN    int
	sinkID   uint16
	sinkOp   wire.Opcode
)

// must panics on an error, since a path that fails would be fast.
func must(ok bool) {
	if !ok {
		panic("a hot path failed")
	}
}

// hotPaths returns the operations of a transport on each packet, for an RDMA WRITE of n bytes.
func hotPaths(tb testing.TB, n int) map[string]func() {
	tb.Helper()
	p := wire.Packet{BTH: wire.BTH{Opcode: wire.RCWriteOnly, PKey: 0xffff, DestQP: 17, AckReq: true, PSN: 99},
		RETH: wire.RETH{VA: 1 << 40, RKey: 77, DMALen: uint32(n)}, Payload: make([]byte, n)}
	flow := wire.NewFlow4([4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}, 50000, wire.RoCEv2Port, wire.IPv4DontFragment)
	flow6 := wire.NewFlow6([16]byte{15: 1}, [16]byte{15: 2}, 50000, wire.RoCEv2Port)
	b := wire.AppendPacket(nil, &p)
	end := len(b) - wire.ICRCLen
	flow.Start(len(b), 4711).Transport(b[:end]).Put(b[end:])
	b6 := append([]byte(nil), b...)
	flow6.Start(len(b6)).Transport(b6[:end]).Put(b6[end:])
	lp := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHGlobal}, Packet: p}
	lb := wire.AppendLinkPacket(nil, &lp)
	fr := wire.Frame{Eth: wire.Ethernet{EtherType: wire.EtherTypeIPv4}, Packet: p}
	fb := wire.AppendFrame(nil, &fr)
	half := n / 2
	got, want := uint32(flow.Start(len(b), 0).Transport(b[:end])), uint32(flow.Start(len(b), 4711).Transport(b[:end]))
	var q wire.Packet
	var lq wire.LinkPacket
	var fq wire.Frame
	return map[string]func(){
		"PutHeaders": func() {
			var h [wire.MaxHeaderLen]byte // on the stack
			sinkN = p.PutHeaders(h[:])
		},
		"ParsePacket": func() {
			must(wire.ParsePacket(b, &q) == nil)
		},
		"ICRC4/send": func() { // headers on the stack, two segments
			var h [wire.MaxHeaderLen]byte
			k := p.PutHeaders(h[:])
			sinkICRC = flow.Start(len(b),
				3).Headers(h[:k]).Update(p.Payload[:half]).Update(p.Payload[half:]).Pad(p.BTH.Pad)
		},
		"ICRC6/send": func() {
			var h [wire.MaxHeaderLen]byte
			k := p.PutHeaders(h[:])
			sum := flow6.Start(len(b)).Headers(h[:k])
			sinkICRC = sum.Update(p.Payload[:half]).Update(p.Payload[half:]).Pad(p.BTH.Pad)
		},
		"ICRC4/check": func() {
			id, ok := flow.Check(b)
			must(ok)
			sinkID = id
		},
		"ICRC6/check": func() { must(flow6.Check(b6)) },
		"NewFlow4": func() {
			sinkICRC = wire.NewFlow4([4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}, 50000, wire.RoCEv2Port,
				0).Start(len(b), 0)
		},
		"NewFlow6": func() { sinkICRC = wire.NewFlow6([16]byte{1}, [16]byte{2}, 50000, wire.RoCEv2Port).Start(len(b)) },
		"SolveIPv4ID": func() {
			id, ok := wire.SolveIPv4ID(got, want, end)
			must(ok)
			sinkID = id
		},
		"Link/parse":   func() { must(wire.ParseLinkPacket(lb, &lq) == nil && wire.CheckLinkCRC(lb, &lq) == nil) },
		"Link/append":  func() { lb = wire.AppendLinkPacket(lb[:0], &lp) },
		"Frame/parse":  func() { must(wire.ParseFrame(fb, &fq) == nil && fq.CheckICRC() == nil) },
		"Frame/append": func() { fb = wire.AppendFrame(fb[:0], &fr) },
		"Opcode/Make": func() {
			o, ok := wire.Make(wire.RC, wire.OpSend, true, true, true, false)
			must(ok)
			sinkOp = o
		},
		"yardstick/crc": func() { sinkICRC = wire.ICRC(crc32.ChecksumIEEE(b)) },
	}
}

// TestNoAllocations checks that no hot path allocates.
func TestNoAllocations(t *testing.T) {
	for _, n := range []int{0, 61, 1024} {
		for name, f := range hotPaths(t, n) {
			assert.Zero(t, testing.AllocsPerRun(20, f), "%s, %d bytes", name, n)
		}
	}
}

func benchmarkHotPath(b *testing.B, name string, n int) {
	f := hotPaths(b, n)[name]
	b.ReportAllocs()
	if n > 0 {
		b.SetBytes(int64(n))
	}
	for b.Loop() {
		f()
	}
}

func BenchmarkPutHeaders(b *testing.B)  { benchmarkHotPath(b, "PutHeaders", 0) }
func BenchmarkParsePacket(b *testing.B) { benchmarkHotPath(b, "ParsePacket", 0) }
func BenchmarkNewFlow4(b *testing.B)    { benchmarkHotPath(b, "NewFlow4", 0) }
func BenchmarkNewFlow6(b *testing.B)    { benchmarkHotPath(b, "NewFlow6", 0) }
func BenchmarkSolveIPv4ID(b *testing.B) { benchmarkHotPath(b, "SolveIPv4ID", 0) }
func BenchmarkMake(b *testing.B)        { benchmarkHotPath(b, "Opcode/Make", 0) }

func BenchmarkPayload(b *testing.B) {
	for _, name := range []string{"yardstick/crc", "ICRC4/send", "ICRC4/check", "ICRC6/send", "ICRC6/check",
		"Link/append", "Link/parse",
		"Frame/append", "Frame/parse"} {
		for _, size := range []struct {
			name string
			n    int
		}{{"64", 64}, {"4096", 4096}} {
			b.Run(name+"/"+size.name, func(b *testing.B) { benchmarkHotPath(b, name, size.n) })
		}
	}
}
