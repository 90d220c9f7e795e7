package wiresuite

import (
	"bytes"
	"fmt"

	"ciddk/wire"
)

// Rules of order: what can be told from the packets of both directions of a connection.
const (
	ruleOrder  = "WIRE-Seq-01"
	rulePSN    = "WIRE-Seq-02"
	ruleAgain  = "WIRE-Seq-03"
	ruleFull   = "WIRE-Seq-04"
	ruleTotal  = "WIRE-Seq-05"
	ruleDepth  = "WIRE-Seq-06"
	ruleAnswer = "WIRE-Rsp-01"
	ruleRead   = "WIRE-Rsp-02"
	ruleMSN    = "WIRE-Rsp-03"
)

// flow follows the requests that one QP sends and the answers that it gets, in the order in which they pass between the two.
type flow struct {
	service wire.Service
	mtu     int
	depth   int // READs and atomics that may be outstanding
	broke   func(num int, rule, expected, got string, args ...any)

	next   uint32 // of the next new request
	sent   map[uint32]*sentPacket
	ends   []uint32 // PSNs at which messages are done, in order: the last packet of a SEND or WRITE, the first of a READ or atomic
	in     bool     // inside a message
	op     wire.Op
	remain uint32         // of the WRITE's length
	reads  map[uint32]int // first PSN of a READ or atomic that has no answer yet: its packets

	// The answers.
	got     uint32 // requests before this PSN have come through
	newest  uint32 // PSN of the newest answer
	any     bool
	msn     uint32
	due     uint32 // next PSN of the READ response under way
	reading bool
	starts  map[uint32]bool // PSNs of READ requests that have come through, sent again or not
	finish  map[uint32]bool // last PSNs of them
}

// sentPacket is a request packet that has been seen.
type sentPacket struct {
	op      wire.Opcode
	payload []byte
	reth    wire.RETH
	atomic  wire.AtomicETH
	imm     uint32
	inv     uint32
	first   uint32 // of a READ: where it begins
	num     int
}

func newFlow(service wire.Service, mtu, depth int, psn uint32, broken func(num int, rule, expected, got string, args ...any)) *flow {
	return &flow{service: service, mtu: mtu, depth: depth, broke: broken, next: psn, got: psn, sent: map[uint32]*sentPacket{}, reads: map[uint32]int{},
		starts: map[uint32]bool{}, finish: map[uint32]bool{}}
}

func (f *flow) packets(n uint32) int { return max((int(n)+f.mtu-1)/f.mtu, 1) }

// request judges a request as it leaves. passed says that it goes on to the responder.
func (f *flow) request(p *packet, passed bool) {
	psn := p.BTH.PSN
	d := wire.PSNDiff(psn, f.next)
	switch {
	case f.service == wire.UD:
		if d != 0 {
			f.broke(p.num, rulePSN, fmt.Sprintf("PSN %#x", f.next), "%v", p)
		}
		f.next = wire.PSNAdd(psn, 1)
		return
	case d > 0:
		f.broke(p.num, rulePSN, fmt.Sprintf("PSN %#x, the next, or an older one", f.next), "%v", p)
		f.next, f.in = psn, !p.BTH.Opcode.Start()
		f.fresh(p)
	case d < 0:
		f.again(p)
	default:
		f.fresh(p)
	}
	if !passed {
		return
	}
	n := 1
	if p.BTH.Opcode.Op() == wire.OpReadRequest {
		n = f.packets(p.RETH.DMALen)
		f.starts[psn], f.finish[wire.PSNAdd(psn, n-1)] = true, true
	}
	if psn == f.got || wire.PSNDiff(psn, f.got) < 0 && wire.PSNDiff(psn+uint32(n), f.got) > 0 {
		f.got = wire.PSNAdd(psn, n)
	}
}

// fresh judges a request whose PSN is new.
func (f *flow) fresh(p *packet) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	n := len(p.Payload)
	switch {
	case op.Start() && f.in:
		f.broke(p.num, ruleOrder, fmt.Sprintf("MIDDLE or LAST of the %v under way", f.op), "%v", p)
	case !op.Start() && (!f.in || op.Op() != f.op):
		f.broke(p.num, ruleOrder, "a packet that begins a message, or goes on with the one under way", "%v", p)
	}
	switch {
	case !op.End() && n != f.mtu, op.End() && n > f.mtu, op.End() && !op.Start() && n == 0:
		f.broke(p.num, ruleFull, fmt.Sprintf("%d bytes of payload, 1 to that in a LAST, 0 to that in an ONLY", f.mtu), "%v", p)
	}
	s := &sentPacket{op: op, payload: bytes.Clone(p.Payload), reth: p.RETH, atomic: p.AtomicETH, imm: p.ImmDt.Imm, inv: p.IETH.RKey, first: psn, num: p.num}
	f.sent[psn] = s
	step := 1
	switch op.Op() {
	case wire.OpWrite:
		if op.Start() {
			f.remain = p.RETH.DMALen
		}
		if over := uint32(n) > f.remain; over || op.End() && uint32(n) != f.remain {
			f.broke(p.num, ruleTotal, fmt.Sprintf("%d bytes left of the length in the RETH", f.remain), "%v", p)
		}
		f.remain -= min(f.remain, uint32(n))
	case wire.OpReadRequest:
		step = f.packets(p.RETH.DMALen)
		for k := 1; k < step; k++ {
			f.sent[wire.PSNAdd(psn, k)] = s
		}
		f.outstanding(p, step)
	case wire.OpCompareSwap, wire.OpFetchAdd:
		f.outstanding(p, 1)
	}
	switch {
	case op.Op() == wire.OpReadRequest, op.HasAtomicETH():
		f.ends = append(f.ends, psn)
	case op.End():
		f.ends = append(f.ends, psn)
	}
	f.in, f.op = !op.End(), op.Op()
	f.next = wire.PSNAdd(psn, step)
}

// outstanding counts READs and atomics without an answer.
func (f *flow) outstanding(p *packet, n int) {
	f.reads[p.BTH.PSN] = n
	if len(f.reads) > f.depth {
		f.broke(p.num, ruleDepth, fmt.Sprintf("at most %d READs and atomics outstanding, the initiator depth", f.depth), "%d", len(f.reads))
	}
}

// again judges a request that has been sent before: it is what it was, or of a READ what is left of it.
func (f *flow) again(p *packet) {
	s := f.sent[p.BTH.PSN]
	if s == nil {
		f.broke(p.num, rulePSN, "a PSN that has been sent, or the next", "%v", p)
		return
	}
	f.in, f.op = !p.BTH.Opcode.End(), p.BTH.Opcode.Op() // the message goes on from here
	if s.op != p.BTH.Opcode {
		f.broke(p.num, ruleAgain, fmt.Sprintf("opcode %v, as in packet %d with this PSN", s.op, s.num), "%v", p)
		return
	}
	if s.op.Op() == wire.OpReadRequest {
		off := uint64(wire.PSNDiff(p.BTH.PSN, s.first)) * uint64(f.mtu)
		if p.RETH.RKey != s.reth.RKey || p.RETH.VA != s.reth.VA+off || uint64(p.RETH.DMALen)+off > uint64(s.reth.DMALen) {
			f.broke(p.num, ruleAgain, fmt.Sprintf("a part of the READ of packet %d: address %#x, at most %d bytes", s.num, s.reth.VA+off, uint64(s.reth.DMALen)-off), "%v", p)
		}
		return
	}
	if !bytes.Equal(s.payload, p.Payload) || s.reth != p.RETH || s.atomic != p.AtomicETH || s.imm != p.ImmDt.Imm || s.inv != p.IETH.RKey {
		f.broke(p.num, ruleAgain, fmt.Sprintf("headers and payload of packet %d with this PSN", s.num), "%v with others", p)
	}
	if s.op.Op() == wire.OpWrite && s.op.Start() {
		f.remain = p.RETH.DMALen
	}
	if s.op.Op() == wire.OpWrite { // what is left behind this packet
		f.remain = f.left(p.BTH.PSN)
	}
}

// left is what a WRITE has left behind the packet of a PSN.
func (f *flow) left(psn uint32) uint32 {
	n := uint32(0)
	for q := psn; ; q = wire.PSNAdd(q, -1) {
		s := f.sent[q]
		if s == nil {
			return 0
		}
		n += uint32(len(s.payload))
		if s.op.Start() {
			return s.reth.DMALen - min(n, s.reth.DMALen)
		}
	}
}

// response judges an answer as it leaves. passed says that it goes on to the requester.
func (f *flow) response(p *packet, passed bool) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	ack := op.Op() != wire.OpAcknowledge || p.AETH.Syndrome.IsACK()
	switch d := wire.PSNDiff(psn, f.got); {
	case f.service != wire.RC:
		f.broke(p.num, ruleAnswer, fmt.Sprintf("no answer of a %v QP", f.service), "%v", p)
		return
	case ack && d >= 0, d > 0:
		f.broke(p.num, ruleAnswer, fmt.Sprintf("a PSN before %#x, the first request that has not come", f.got), "%v", p)
		return
	}
	if op.Op() == wire.OpReadResponse {
		f.readResponse(p)
	} else if f.reading && ack && wire.PSNDiff(psn, f.due) >= 0 && op.Op() == wire.OpAcknowledge {
		f.broke(p.num, ruleRead, fmt.Sprintf("the READ response to go on at PSN %#x before a later acknowledgement", f.due), "%v", p)
	} else if !ack {
		f.reading = false
	}
	if op.HasAETH() {
		f.count(p, ack)
	}
	if !passed {
		return
	}
	switch op.Op() {
	case wire.OpReadResponse:
		for first, n := range f.reads {
			if psn == wire.PSNAdd(first, n-1) {
				delete(f.reads, first)
			}
		}
	case wire.OpAtomicAcknowledge:
		delete(f.reads, psn)
	}
}

// readResponse judges opcode and length of a READ response packet.
func (f *flow) readResponse(p *packet) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	s := f.sent[psn]
	if s == nil || s.op.Op() != wire.OpReadRequest {
		f.broke(p.num, ruleRead, "a READ with this PSN", "%v", p)
		return
	}
	switch {
	case op.Start() && !f.starts[psn]:
		f.broke(p.num, ruleRead, "FIRST or ONLY at the PSN of a READ request alone", "%v", p)
	case !op.Start() && (!f.reading || psn != f.due):
		f.broke(p.num, ruleRead, "MIDDLE or LAST behind the packet before it", "%v", p)
	case op.End() && !f.finish[psn]:
		f.broke(p.num, ruleRead, "LAST or ONLY at the end of a READ alone", "%v", p)
	case !op.End() && len(p.Payload) != f.mtu:
		f.broke(p.num, ruleRead, fmt.Sprintf("%d bytes in all packets but the last", f.mtu), "%v", p)
	}
	f.reading, f.due = !op.End(), wire.PSNAdd(psn, 1)
}

// count judges the MSN: at least the messages done up to the PSN answered, at most those that have come, and never less than it was.
func (f *flow) count(p *packet, ack bool) {
	least, most := 0, 0
	for _, e := range f.ends {
		if d := wire.PSNDiff(e, p.BTH.PSN); d < 0 || ack && d == 0 {
			least++
		}
		if wire.PSNDiff(e, f.got) < 0 {
			most++
		}
	}
	msn := p.AETH.MSN
	switch newer := !f.any || wire.PSNDiff(p.BTH.PSN, f.newest) >= 0; {
	case int(msn) < least || int(msn) > most:
		f.broke(p.num, ruleMSN, fmt.Sprintf("an MSN from %d to %d", least, most), "%v", p)
	case newer && f.any && msn < f.msn:
		f.broke(p.num, ruleMSN, fmt.Sprintf("an MSN of %d or more, as before", f.msn), "%v", p)
	case newer:
		f.any, f.newest, f.msn = true, p.BTH.PSN, msn
	}
}
