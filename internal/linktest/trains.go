package linktest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Trains returns one train for every shape that the engine sends, with MTU 256.
func Trains(rt rvt.Route) []rvt.Packet {
	body := func(n int) [][]byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7)
		}
		return [][]byte{b[:n/3], b[n/3 : n/2], {}, b[n/2:]}
	}
	const mtu = 256
	p := func(s wire.Service, op wire.Op, n, size int, f func(p *rvt.Packet)) rvt.Packet {
		p := rvt.Packet{Service: s, Op: op, Start: true, End: true, PKey: 0xffff, DestQP: 0x123456, PSN: 0xfffffe,
			N: uint32(n), MTU: mtu,
			Len: uint32(size), Payload: body(size), Route: rt}
		if f != nil {
			f(&p)
		}
		return p
	}
	reth := func(p *rvt.Packet) { p.VA, p.RKey, p.DMALen = 0x1122334455667788, 0x99aabbcc, p.Len }
	aeth := func(p *rvt.Packet) { p.Syndrome, p.MSN = wire.ACK(31), 77 }
	return []rvt.Packet{
		p(wire.RC, wire.OpSend, 1, 0, nil),
		p(wire.RC, wire.OpSend, 1, 5, func(p *rvt.Packet) {
			p.HasImm, p.Imm = true, 0x01020304
			p.SE, p.Ack = true, true
		}),
		p(wire.RC, wire.OpSend, 1, 64, func(p *rvt.Packet) { p.HasInv, p.Inv, p.MigReq = true, 0xcafe, true }),
		p(wire.RC, wire.OpSend, 5, 4*mtu+3, func(p *rvt.Packet) { p.Ack = true }),
		p(wire.RC, wire.OpSend, 3, 3*mtu, func(p *rvt.Packet) { p.HasImm, p.Imm = true, 9 }),
		p(wire.RC, wire.OpSend, 2, 2*mtu, func(p *rvt.Packet) { p.Start, p.End = false, false }),
		p(wire.RC, wire.OpWrite, 1, 7, reth),
		p(wire.RC, wire.OpWrite, 70, 69*mtu+1, reth),
		p(wire.RC, wire.OpWrite, 4, 4*mtu, func(p *rvt.Packet) {
			p.Start, p.SE = false, true
			p.HasImm, p.Imm = true, 3
		}),
		p(wire.RC, wire.OpReadRequest, 1, 0, func(p *rvt.Packet) { reth(p); p.DMALen = 1 << 30 }),
		p(wire.RC, wire.OpReadResponse, 1, 9, aeth),
		p(wire.RC, wire.OpReadResponse, 3, 3*mtu, aeth),
		p(wire.RC, wire.OpReadResponse, 3, 2*mtu+8, func(p *rvt.Packet) { aeth(p); p.Start = false }),
		p(wire.RC, wire.OpAcknowledge, 1, 0, aeth),
		p(wire.RC, wire.OpAtomicAcknowledge, 1, 0, func(p *rvt.Packet) { aeth(p); p.Swap = 0xfedcba9876543210 }),
		p(wire.RC, wire.OpCompareSwap, 1, 0, func(p *rvt.Packet) {
			p.VA, p.RKey = 8, 9
			p.Swap, p.Compare = 10, 11
		}),
		p(wire.RC, wire.OpFetchAdd, 1, 0, func(p *rvt.Packet) { p.VA, p.RKey, p.Swap = 8, 9, 10 }),
		p(wire.RC, wire.OpAtomicWrite, 1, 8, func(p *rvt.Packet) { reth(p); p.DMALen = 8 }),
		p(wire.RC, wire.OpFlush, 1, 0, func(p *rvt.Packet) { reth(p); p.FlushTypes, p.FlushSel = 3, 1 }),
		p(wire.UC, wire.OpSend, 2, mtu+4, nil),
		p(wire.UC, wire.OpWrite, 3, 2*mtu+1, reth),
		p(wire.UD, wire.OpSend, 1, 100, func(p *rvt.Packet) {
			p.SrcQP, p.QKey = 0x654321, 0x80010000
			p.HasImm, p.Imm = true, 5
		}),
		p(wire.UD, wire.OpSend, 1, 0, func(p *rvt.Packet) { p.SrcQP, p.QKey = 1, 2 }),
	}
}

// A Single is one packet of a train in a comparable form.
type Single struct {
	Opcode            wire.Opcode
	SE, Ack, MigReq   bool
	PKey              ci.PKey
	DestQP, SrcQP     ci.QPN
	QKey              ci.QKey
	PSN               ci.PSN
	VA, Swap, Compare uint64
	RKey, Inv         ci.Key
	DMALen, MSN, Imm  uint32
	Syndrome          wire.Syndrome
	FETH              wire.FETH
	Payload           string
	Src, Dst          rvt.Addr
}

// Singles splits trains into packets by their definition, without the code under test.
func Singles(t testing.TB, pkts []rvt.Packet, src, dst rvt.Addr) (out []Single) {
	t.Helper()
	for _, p := range pkts {
		body := bytes.Join(p.Payload, nil)[:p.Len]
		for k := range p.N {
			last := k == p.N-1
			n := int(p.MTU)
			if last {
				n = len(body)
			}
			op, ok := wire.Make(p.Service, p.Op, p.Start && k == 0, p.End && last, p.HasImm && last, p.HasInv && last)
			require.True(t, ok)
			s := Single{Opcode: op, MigReq: p.MigReq, PKey: p.PKey, DestQP: p.DestQP,
				PSN: ci.PSN((uint32(p.PSN) + k) & 0xffffff),
				SE:  p.SE && last, Ack: p.Ack && last, Payload: string(body[:n]), Src: src, Dst: dst}
			body = body[n:]
			if op.HasDETH() {
				s.SrcQP, s.QKey = p.SrcQP, p.QKey
			}
			if op.HasRETH() {
				s.VA, s.RKey, s.DMALen = p.VA, p.RKey, p.DMALen
			}
			if op.HasFETH() {
				s.FETH = wire.FETH{Types: p.FlushTypes, Sel: p.FlushSel}
			}
			if op.HasAtomicETH() {
				s.VA, s.RKey = p.VA, p.RKey
				s.Swap, s.Compare = p.Swap, p.Compare
			}
			if op.HasAETH() {
				s.Syndrome, s.MSN = p.Syndrome, p.MSN
			}
			if op.HasAtomicAckETH() {
				s.Swap = p.Swap
			}
			if op.HasImm() {
				s.Imm = p.Imm
			}
			if op.HasIETH() {
				s.Inv = p.Inv
			}
			out = append(out, s)
		}
		require.Empty(t, body)
	}
	return out
}
