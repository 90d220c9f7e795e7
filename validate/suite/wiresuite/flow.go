package wiresuite

import (
	"bytes"
	"fmt"

	"ciddk/wire"
)

// Rules of order. They can be checked from the packets of both directions of a connection.
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

// flow follows the requests of one QP and the answers to them, in the order in which they pass the certifier.
type flow struct {
	service wire.Service
	mtu     int
	depth   int // maximum of outstanding READs and atomics
	broke   func(num int, rule, expected, got string, args ...any)

	next      uint32 // PSN of the next new request
	sent      map[uint32]*sentPacket
	ends      []uint32 // PSNs that complete messages: last of a SEND or WRITE, first of a READ or atomic
	inMessage bool     // whether a message is in progress
	op        wire.Op
	remain    uint32         // bytes of the WRITE that are still to come
	reads     map[uint32]int // number of packets by first PSN, of each READ and atomic without an answer

	// State of the answers.
	passedTo uint32 // all requests before this PSN have been passed on
	newest   uint32 // PSN of the newest answer
	answered bool
	msn      uint32
	due      uint32 // next PSN of the READ response in progress
	reading  bool
	starts   map[uint32]bool // PSNs of READ requests that were passed on, retransmissions included
	finish   map[uint32]bool // last PSNs of these READs
}

// sentPacket is a request packet that passed the certifier.
type sentPacket struct {
	op      wire.Opcode
	payload []byte
	reth    wire.RETH
	atomic  wire.AtomicETH
	imm     uint32
	inv     uint32
	first   uint32 // of a READ: its first PSN
	num     int
}

func newFlow(service wire.Service, mtu, depth int, psn uint32,
	broken func(num int, rule, expected, got string, args ...any)) *flow {
	return &flow{service: service, mtu: mtu, depth: depth, broke: broken, next: psn, passedTo: psn,
		sent: map[uint32]*sentPacket{}, reads: map[uint32]int{},
		starts: map[uint32]bool{}, finish: map[uint32]bool{}}
}

func (f *flow) packets(n uint32) int { return max((int(n)+f.mtu-1)/f.mtu, 1) }

// request checks a request from the requester. passed reports whether it is passed on to the responder.
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
		f.broke(p.num, rulePSN, fmt.Sprintf("PSN %#x, the next one, or an older one", f.next), "%v", p)
		f.next, f.inMessage = psn, !p.BTH.Opcode.Start()
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
	if psn == f.passedTo || wire.PSNDiff(psn, f.passedTo) < 0 && wire.PSNDiff(psn+uint32(n), f.passedTo) > 0 {
		f.passedTo = wire.PSNAdd(psn, n)
	}
}

// fresh checks a request with a new PSN.
func (f *flow) fresh(p *packet) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	n := len(p.Payload)
	switch {
	case op.Start() && f.inMessage:
		f.broke(p.num, ruleOrder, fmt.Sprintf("a MIDDLE or LAST of the %v in progress", f.op), "%v", p)
	case !op.Start() && (!f.inMessage || op.Op() != f.op):
		f.broke(p.num, ruleOrder, "a packet that begins a message, or continues the one in progress", "%v", p)
	}
	switch {
	case !op.End() && n != f.mtu, op.End() && n > f.mtu, op.End() && !op.Start() && n == 0:
		f.broke(p.num, ruleFull,
			fmt.Sprintf("a payload of %d bytes, at most that and not empty in a LAST, at most that in an ONLY", f.mtu),
			"%v", p)
	}
	s := &sentPacket{
		op:      op,
		payload: bytes.Clone(p.Payload),
		reth:    p.RETH,
		atomic:  p.AtomicETH,
		imm:     p.ImmDt.Imm,
		inv:     p.IETH.RKey,
		first:   psn,
		num:     p.num,
	}
	f.sent[psn] = s
	step := 1
	switch op.Op() {
	case wire.OpWrite:
		if op.Start() {
			f.remain = p.RETH.DMALen
		}
		if over := uint32(n) > f.remain; over || op.End() && uint32(n) != f.remain {
			f.broke(p.num, ruleTotal, fmt.Sprintf("%d bytes, the rest of the length in the RETH", f.remain), "%v", p)
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
	f.inMessage, f.op = !op.End(), op.Op()
	f.next = wire.PSNAdd(psn, step)
}

// outstanding counts the READs and atomics without an answer.
func (f *flow) outstanding(p *packet, n int) {
	f.reads[p.BTH.PSN] = n
	if len(f.reads) > f.depth {
		f.broke(p.num, ruleDepth, fmt.Sprintf("at most %d outstanding READs and atomics, the initiator depth", f.depth),
			"%d", len(f.reads))
	}
}

// again checks a retransmitted request. It must equal the first transmission, or be a READ of the rest of the first
// one.
func (f *flow) again(p *packet) {
	s := f.sent[p.BTH.PSN]
	if s == nil {
		f.broke(p.num, rulePSN, "a PSN that has been used, or the next one", "%v", p)
		return
	}
	f.inMessage, f.op = !p.BTH.Opcode.End(), p.BTH.Opcode.Op() // the message continues after this packet
	if s.op != p.BTH.Opcode {
		f.broke(p.num, ruleAgain, fmt.Sprintf("opcode %v, as in packet %d with this PSN", s.op, s.num), "%v", p)
		return
	}
	if s.op.Op() == wire.OpReadRequest {
		off := uint64(wire.PSNDiff(p.BTH.PSN, s.first)) * uint64(f.mtu)
		if p.RETH.RKey != s.reth.RKey || p.RETH.VA != s.reth.VA+off ||
			uint64(p.RETH.DMALen)+off > uint64(s.reth.DMALen) {
			f.broke(p.num, ruleAgain,
				fmt.Sprintf("a part of the READ of packet %d: address %#x, at most %d bytes", s.num, s.reth.VA+off,
					uint64(s.reth.DMALen)-off), "%v", p)
		}
		return
	}
	sameHeaders := s.reth == p.RETH && s.atomic == p.AtomicETH && s.imm == p.ImmDt.Imm && s.inv == p.IETH.RKey
	if !sameHeaders || !bytes.Equal(s.payload, p.Payload) {
		f.broke(p.num, ruleAgain, fmt.Sprintf("the headers and payload of packet %d, which had this PSN", s.num),
			"%v with different headers or payload", p)
	}
	if s.op.Op() == wire.OpWrite && s.op.Start() {
		f.remain = p.RETH.DMALen
	}
	if s.op.Op() == wire.OpWrite { // bytes that follow this packet
		f.remain = f.left(p.BTH.PSN)
	}
}

// left returns the number of bytes of a WRITE that follow the packet with that PSN.
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

// response checks an answer of the responder. passed reports whether it is passed on to the requester.
func (f *flow) response(p *packet, passed bool) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	ack := op.Op() != wire.OpAcknowledge || p.AETH.Syndrome.IsACK()
	switch d := wire.PSNDiff(psn, f.passedTo); {
	case f.service != wire.RC:
		f.broke(p.num, ruleAnswer, fmt.Sprintf("no answer from a %v QP", f.service), "%v", p)
		return
	case ack && d >= 0, d > 0:
		f.broke(p.num, ruleAnswer, fmt.Sprintf("a PSN before %#x, the first request that has not arrived", f.passedTo),
			"%v", p)
		return
	}
	laterACK := ack && op.Op() == wire.OpAcknowledge && wire.PSNDiff(psn, f.due) >= 0
	if op.Op() == wire.OpReadResponse {
		f.readResponse(p)
	} else if f.reading && laterACK {
		f.broke(p.num, ruleRead,
			fmt.Sprintf("the READ response to continue at PSN %#x before a later acknowledgement", f.due), "%v", p)
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

// readResponse checks the opcode and the length of a READ response packet.
func (f *flow) readResponse(p *packet) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	s := f.sent[psn]
	if s == nil || s.op.Op() != wire.OpReadRequest {
		f.broke(p.num, ruleRead, "a PSN of a READ", "%v", p)
		return
	}
	switch {
	case op.Start() && !f.starts[psn]:
		f.broke(p.num, ruleRead, "FIRST or ONLY only at the PSN of a READ request", "%v", p)
	case !op.Start() && (!f.reading || psn != f.due):
		f.broke(p.num, ruleRead, "MIDDLE or LAST only directly after the preceding packet", "%v", p)
	case op.End() && !f.finish[psn]:
		f.broke(p.num, ruleRead, "LAST or ONLY only at the end of a READ", "%v", p)
	case !op.End() && len(p.Payload) != f.mtu:
		f.broke(p.num, ruleRead, fmt.Sprintf("%d bytes of payload in each packet except the last", f.mtu), "%v", p)
	}
	f.reading, f.due = !op.End(), wire.PSNAdd(psn, 1)
}

// count checks the MSN. It must count at least the messages that complete up to the answered PSN and at most those that
// have arrived, and it must not decrease.
func (f *flow) count(p *packet, ack bool) {
	minMSN, maxMSN := 0, 0
	for _, e := range f.ends {
		if d := wire.PSNDiff(e, p.BTH.PSN); d < 0 || ack && d == 0 {
			minMSN++
		}
		if wire.PSNDiff(e, f.passedTo) < 0 {
			maxMSN++
		}
	}
	msn := p.AETH.MSN
	switch newer := !f.answered || wire.PSNDiff(p.BTH.PSN, f.newest) >= 0; {
	case int(msn) < minMSN || int(msn) > maxMSN:
		f.broke(p.num, ruleMSN, fmt.Sprintf("an MSN from %d to %d", minMSN, maxMSN), "%v", p)
	case newer && f.answered && msn < f.msn:
		f.broke(p.num, ruleMSN, fmt.Sprintf("an MSN of at least %d, that of the previous answer", f.msn), "%v", p)
	case newer:
		f.answered, f.newest, f.msn = true, p.BTH.PSN, msn
	}
}
