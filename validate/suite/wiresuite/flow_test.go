package wiresuite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/wire"
)

const flowMTU = 256

// step is a packet between two QPs. The first request has PSN 0xfffffe.
type step struct {
	op     wire.Opcode
	psn    int // relative to the first PSN
	n      int // bytes of payload
	dma    int // length in the RETH
	va     int
	syn    wire.Syndrome
	msn    uint32
	lost   bool
	fill   byte
	breaks string
}

func TestFlow(t *testing.T) {
	const ack = wire.Syndrome(wire.CreditsInvalid)
	send := func(op wire.Opcode, psn, n int) step { return step{op: op, psn: psn, n: n} }
	acked := func(psn int, msn uint32) step { return step{op: wire.RCAcknowledge, psn: psn, syn: ack, msn: msn} }
	bad := func(rule string, s step) step { s.breaks = rule; return s }
	lose := func(s step) step { s.lost = true; return s }
	read := func(psn, va, dma int) step { return step{op: wire.RCReadRequest, psn: psn, va: va, dma: dma} }
	resp := func(op wire.Opcode, psn, n int) step { return step{op: op, psn: psn, n: n, syn: ack, msn: 1} }
	const (
		first, middle = wire.RCSendFirst, wire.RCSendMiddle
		last, only    = wire.RCSendLast, wire.RCSendOnly
		rf, rm        = wire.RCReadResponseFirst, wire.RCReadResponseMiddle
		rl, ro        = wire.RCReadResponseLast, wire.RCReadResponseOnly
	)
	write := func(op wire.Opcode, psn, n, dma int) step { return step{op: op, psn: psn, n: n, dma: dma} }
	for name, steps := range map[string][]step{
		"right": {send(only, 0, 0), send(first, 1, 256), send(middle, 2, 256), send(last, 3, 1), acked(0, 1),
			acked(3, 2), read(4, 0, 600), send(only, 7, 9),
			{op: rf, psn: 4, n: 256, syn: ack, msn: 3}, {op: rm, psn: 5, n: 256},
			{op: rl, psn: 6, n: 88, syn: ack, msn: 4}},
		"sent again": {send(first, 0, 256), lose(send(last, 1, 8)), send(only, 2, 8), send(last, 1, 8),
			send(only, 2, 8), acked(2, 2)},
		"sent again, other bytes":  {send(only, 0, 8), bad(ruleAgain, step{op: only, psn: 0, n: 8, fill: 1})},
		"sent again, other opcode": {send(only, 0, 8), bad(ruleAgain, send(first, 0, 256))},
		"a PSN left out":           {send(only, 0, 8), bad(rulePSN, send(only, 2, 8))},
		"a PSN before the first":   {send(only, 0, 8), bad(rulePSN, send(only, -1, 8))},
		"FIRST in a message":       {send(first, 0, 256), bad(ruleOrder, send(first, 1, 256))},
		"MIDDLE without FIRST":     {bad(ruleOrder, send(middle, 0, 256))},
		"another operation":        {send(first, 0, 256), bad(ruleOrder, write(wire.RCWriteLast, 1, 8, 8))},
		"short FIRST":              {bad(ruleFull, send(first, 0, 252))},
		"empty LAST":               {send(first, 0, 256), bad(ruleFull, send(last, 1, 0))},
		"long ONLY":                {bad(ruleFull, send(only, 0, 260))},
		"WRITE": {write(wire.RCWriteFirst, 0, 256, 300), write(wire.RCWriteLast, 1, 44, 0),
			acked(1, 1)},
		"WRITE too short": {write(wire.RCWriteFirst, 0, 256, 300),
			bad(ruleTotal, write(wire.RCWriteLast, 1, 40, 0))},
		"WRITE too long":        {bad(ruleTotal, write(wire.RCWriteOnly, 0, 12, 8))},
		"READs":                 {read(0, 0, 8), read(1, 0, 8), bad(ruleDepth, read(2, 0, 8))},
		"READs answered":        {read(0, 0, 8), read(1, 0, 8), resp(ro, 0, 8), read(2, 0, 8)},
		"rest of a READ again":  {read(0, 1000, 600), read(1, 1256, 344), resp(rf, 1, 256), resp(rl, 2, 88)},
		"READ again, elsewhere": {read(0, 1000, 600), bad(ruleAgain, read(1, 1000, 344))},
		"ACK too early":         {send(only, 0, 8), bad(ruleAnswer, acked(1, 1))},
		"ACK of a lost request": {lose(send(only, 0, 8)), bad(ruleAnswer, acked(0, 1))},
		"NAK of a lost request": {lose(send(only, 0, 8)), send(only, 1, 8),
			{op: wire.RCAcknowledge, psn: 0, syn: wire.NAKPSNSequence}},
		"response without READ":  {send(only, 0, 8), bad(ruleRead, resp(ro, 0, 8))},
		"response out of order":  {read(0, 0, 600), resp(rf, 0, 256), bad(ruleRead, resp(rl, 2, 88))},
		"response begins inside": {read(0, 0, 600), resp(rf, 0, 256), bad(ruleRead, resp(rf, 1, 256))},
		"response ends inside":   {read(0, 0, 600), resp(rf, 0, 256), bad(ruleRead, resp(rl, 1, 256))},
		"response not full":      {read(0, 0, 600), bad(ruleRead, resp(rf, 0, 252))},
		"ACK inside a response":  {read(0, 0, 600), send(only, 3, 8), resp(rf, 0, 256), bad(ruleRead, acked(3, 2))},
		"MSN too small":          {send(only, 0, 8), send(only, 1, 8), bad(ruleMSN, acked(1, 1))},
		"MSN too large":          {send(only, 0, 8), bad(ruleMSN, acked(0, 2))},
		"MSN goes back":          {send(only, 0, 8), send(only, 1, 8), acked(0, 2), bad(ruleMSN, acked(0, 1))},
	} {
		var got string
		f := newFlow(wire.RC, flowMTU, 2, 0xfffffe, func(_ int, rule, _, _ string, _ ...any) {
			if got == "" { // later findings follow from the first
				got = rule
			}
		})
		for i, s := range steps {
			p := &packet{}
			p.BTH = wire.BTH{Opcode: s.op, PSN: wire.PSNAdd(0xfffffe, s.psn)}
			p.Payload = make([]byte, s.n)
			for j := range p.Payload {
				p.Payload[j] = s.fill
			}
			p.RETH = wire.RETH{VA: uint64(s.va), DMALen: uint32(s.dma)}
			p.AETH = wire.AETH{Syndrome: s.syn, MSN: s.msn}
			got = ""
			if s.op.Response() {
				f.response(p, !s.lost)
			} else {
				f.request(p, !s.lost)
			}
			assert.Equal(t, s.breaks, got, "%s: step %d, %v", name, i+1, p)
		}
	}
}

// The PSN of a datagram must be one more than the previous one, and a QP of an unreliable service must not answer.
func TestFlowUnreliable(t *testing.T) {
	var got string
	broke := func(_ int, rule, _, _ string, _ ...any) { got = rule }
	f := newFlow(wire.UD, flowMTU, 0, 5, broke)
	for i, psn := range []uint32{5, 6, 6} {
		got = ""
		f.request(&packet{Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, PSN: psn}}}, true)
		assert.Equal(t, i == 2, got == rulePSN, i)
	}
	f = newFlow(wire.UC, flowMTU, 0, 5, broke)
	f.response(&packet{Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.RCAcknowledge, PSN: 5}}}, true)
	assert.Equal(t, ruleAnswer, got)
}
