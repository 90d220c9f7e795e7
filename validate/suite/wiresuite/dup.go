package wiresuite

import (
	"ciddk/ci"
	"fmt"

	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// dupCases are the cases of duplicate requests. (IBTA 9.7.5.1.2.)
var dupCases = area()

// again expects the acknowledgement of a duplicate, with a PSN from that of the duplicate to that of the newest
// request.
func (p *peer) again(what string, dup uint32, msn int) {
	x := p.expect("answer to "+what,
		want{op: []wire.Opcode{wire.RCAcknowledge}, anyPSN: true, syn: wire.ACK(wire.CreditsInvalid), msn: msn})
	if wire.PSNDiff(x.BTH.PSN, dup) < 0 || wire.PSNDiff(x.BTH.PSN, p.last()) > 0 {
		p.wrong(x, "answer to "+what, fmt.Sprintf("a PSN from %#x to %#x", dup, p.last()), x.String())
	}
	if x.BTH.PSN != p.last() {
		p.t.Note("the acknowledgement of a duplicate has the PSN of the duplicate, not that of the newest request")
	}
}

var wireDup01 = dupCases.Must("WIRE-Dup-01", "IBTA 9.7.5", "duplicate requests",
	"A duplicate of an executed SEND or WRITE is acknowledged again. The PSN is between that of the duplicate "+
		"and that of the newest executed request, and the MSN is the current one.")

var _ = dupCases.Add("wire.dup.send", "duplicate SENDs", func(t *validate.T) {
	p := dial(t)
	p.Recv(p.RecvWRs(3, 64)...)
	first := p.psn
	data := p.bytes(24)
	for i := range 3 {
		p.request(wire.RCSendOnly, data[i*8:(i+1)*8])
		p.expect("acknowledgement", acked(p.last(), i+1))
	}
	for i := range uint32(3) {
		p.stray(wire.RCSendOnly, data[i*8:(i+1)*8], withPSN(first+i))
		p.again(fmt.Sprintf("the duplicate of SEND %d of 3", i+1), wire.PSNAdd(first, int(i)), 3)
	}
}, wireDup01)

var wireDup02 = dupCases.Must("WIRE-Dup-02", "IBTA 9.7.5", "duplicate requests",
	"A duplicate SEND or WRITE is not executed again: it uses no receive and writes nothing.")

var _ = dupCases.Add("wire.dup.send-once", "duplicate SENDs use no receive", func(t *validate.T) {
	p := dial(t)
	p.blank()
	p.Recv(p.RecvWRs(3, 64)...)
	data := p.bytes(8)
	at := p.psn
	p.request(wire.RCSendOnly, data)
	p.expect("acknowledgement of a SEND", acked(p.last(), 1))
	p.RecvCQ.WaitOK(1)
	for range 3 {
		p.stray(wire.RCSendOnly, data, withPSN(at))
		p.again("a duplicate SEND", at, 1)
	}
	p.RecvCQ.Empty()
	p.Buf.WantOnly(t, "receives after one SEND and three duplicates of it", 0, data)
}, wireDup02, wireDup01)

var _ = dupCases.Add("wire.dup.write-once", "a duplicate WRITE writes nothing", func(t *validate.T) {
	p := dial(t)
	data := p.bytes(8)
	at := p.psn
	p.request(wire.RCWriteOnly, data, p.reth(0, 8))
	p.expect("acknowledgement of a WRITE", acked(p.last(), 1))
	p.blank()
	p.stray(wire.RCWriteOnly, data, withPSN(at), p.reth(0, 8))
	p.again("a duplicate WRITE", at, 1)
	p.Buf.WantOnly(t, "memory that was changed before a duplicate WRITE", 0, nil)
}, wireDup02, wireDup01)

var wireDup03 = dupCases.Must("WIRE-Dup-03", "IBTA 9.7.5", "duplicate READ",
	"A duplicate READ is answered again with the PSNs of the first answer.")

var _ = dupCases.Add("wire.dup.read", "duplicate READs", func(t *validate.T) {
	p := dial(t)
	n := 2*p.mtu + 9
	at := p.psn
	p.request(wire.RCReadRequest, nil, p.reth(0, n))
	p.readAnswer("READ", at, p.Buf.Bytes[:n], 1)
	for range 2 {
		p.stray(wire.RCReadRequest, nil, withPSN(at), p.reth(0, n))
		p.readAnswer("duplicate READ", at, p.Buf.Bytes[:n], 1)
	}
}, wireDup03)

var _ = dupCases.Add("wire.dup.read-rest", "the rest of a READ, from each of its packets on", func(t *validate.T) {
	s := open(t)
	for _, at := range kit.Variants(t, "PSN", []uint32{t.Rand().Uint32() & wire.Mask24, 0xffffff, 0xfffffe, 0xfffffd}) {
		p := s.raw().at(at, at).connect()
		n := 3*p.mtu + 9
		p.request(wire.RCReadRequest, nil, p.reth(0, n))
		p.readAnswer("READ of four packets", at, p.Buf.Bytes[:n], 1)
		for k := range 4 {
			from, psn := k*p.mtu, wire.PSNAdd(at, k)
			p.stray(wire.RCReadRequest, nil, withPSN(psn), p.reth(from, n-from))
			p.readAnswer(fmt.Sprintf("duplicate READ of the rest from packet %d on", k+1), psn, p.Buf.Bytes[from:n], 1)
		}
		p.stray(wire.RCReadRequest, nil, withPSN(wire.PSNAdd(at, 1)), p.reth(p.mtu, p.mtu))
		p.readAnswer("duplicate READ of the second packet alone", wire.PSNAdd(at, 1), p.Buf.Bytes[p.mtu:2*p.mtu], 1)
	}
}, dupCases.Must("WIRE-Dup-04", "IBTA 9.7.5", "duplicate READ of a part",
	"A duplicate READ of the rest of the first one, starting with the PSN and address of any of its packets, is "+
		"answered from that packet on."), wireDup03)

// An atomicRequest is an atomic that the peer has sent, with the value that it found.
type atomicRequest struct {
	op   wire.Opcode
	eth  wire.AtomicETH
	psn  uint32
	orig uint64
}

// atomics sends atomics to a word, two more than the responder has to remember, and returns these: swaps that find what
// they compare with and swaps that do not, and additions.
func (p *peer) atomics() (list []atomicRequest) {
	kit.StoreWord(p.Buf.Bytes, 100)
	r := p.Buf.Remote(0)
	word, kept := uint64(100), int(*p.Config.RespRes)
	for i := range kept + 2 {
		a := atomicRequest{op: wire.RCCompareSwap, eth: wire.AtomicETH{Compare: word + 1, SwapAdd: 7}, orig: word}
		switch i % 3 {
		case 0:
			word += 5
			a.eth = wire.AtomicETH{Compare: a.orig, SwapAdd: word}
		case 1:
			word += 5
			a.op, a.eth = wire.RCFetchAdd, wire.AtomicETH{SwapAdd: 5}
		}
		a.eth.VA, a.eth.RKey = r.Addr, uint32(r.RKey)
		p.request(a.op, nil, withAtomic(a.eth))
		a.psn = p.last()
		p.orig("atomic", a.psn, a.orig, i+1)
		list = append(list, a)
	}
	return list[len(list)-kept:]
}

// orig expects the answer to an atomic with the original value v.
func (p *peer) orig(what string, psn uint32, v uint64, msn int) {
	x := p.expect("answer to "+what,
		want{op: []wire.Opcode{wire.RCAtomicAcknowledge}, psn: psn, syn: wire.ACK(wire.CreditsInvalid), msn: msn})
	if x.AtomicAckETH.Orig != v {
		p.wrong(x, "answer to "+what, fmt.Sprintf("original value %d", v), fmt.Sprintf("%d", x.AtomicAckETH.Orig))
	}
}

var wireDup05 = dupCases.Must("WIRE-Dup-05", "IBTA 9.7.5", "duplicate atomic",
	"A duplicate atomic is answered with the original value of its first execution.")

var _ = dupCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.dup.atomic-answer",
	"duplicate atomics: the answer", func(t *validate.T) {
		p := dial(t)
		list := p.atomics()
		for i, a := range list {
			p.stray(a.op, nil, withAtomic(a.eth), withPSN(a.psn))
			p.orig(fmt.Sprintf("duplicate of atomic %d of %d", i+1, len(list)), a.psn, a.orig, -1)
		}
	}, wireDup05)

var _ = dupCases.Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add("wire.dup.atomic-once",
	"duplicate atomics: the memory", func(t *validate.T) {
		p := dial(t)
		for _, a := range p.atomics() {
			kit.StoreWord(p.Buf.Bytes, a.eth.Compare) // which a compare and swap would replace
			p.stray(a.op, nil, withAtomic(a.eth), withPSN(a.psn))
			p.orig("duplicate atomic", a.psn, a.orig, -1)
			kit.Equal(t, "word after a duplicate atomic", kit.LoadWord(p.Buf.Bytes), a.eth.Compare)
		}
	}, dupCases.Must("WIRE-Dup-06", "IBTA 9.7.5", "duplicate atomic", "A duplicate atomic is not executed again."),
	wireDup05)

var _ = dupCases.Add("wire.dup.goes-on", "new requests after duplicates", func(t *validate.T) {
	p := dial(t)
	for i := range 4 {
		at := p.psn
		p.request(wire.RCWriteOnly, nil)
		p.expect("acknowledgement of a new WRITE", acked(at, i+1))
		p.stray(wire.RCWriteOnly, nil, withPSN(at))
		p.again("a duplicate WRITE", at, i+1)
	}
}, dupCases.Must("WIRE-Dup-07", "IBTA 9.7.5", "duplicate requests",
	"A duplicate request does not change the expected PSN or the MSN, and the next new request is accepted."),
	wireDup01)
