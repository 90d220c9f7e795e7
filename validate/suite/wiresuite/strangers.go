package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// Requests that are not for the QP: from another source, to another address of its port, of a partition that it has
// left, or repeated after their time. (IBTA 9.6, 9.7.5.1, 10.9.)
var strangers = area()

var _ = strangers.Add("wire.drop.forged", "requests of each kind from another source address", func(t *validate.T) {
	s := open(t)
	if !s.hasOther() {
		t.Skip("the certifier's end of the link has only one address")
	}
	p := s.dial()
	ops := []wire.Opcode{wire.RCSendOnly, wire.RCWriteOnlyImm, wire.RCReadRequest}
	if t.Attr().Atomicity != ci.AtomicNone {
		ops = append(ops, wire.RCFetchAdd, wire.RCCompareSwap)
	}
	p.blank()
	p.Recv(p.RecvWR(1, 1024, 64))
	r := p.Buf.Remote(0)
	for _, op := range kit.Variants(t, "opcode", ops) {
		var data []byte
		if op == wire.RCSendOnly || op == wire.RCWriteOnlyImm {
			data = p.bytes(8)
		}
		// The atomics would change the memory: it is blank, and they add to it or compare with its contents.
		eth := wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey), SwapAdd: 5, Compare: 0xeeeeeeeeeeeeeeee}
		p.stray(op, data, p.reth(0, 8), withAtomic(eth), p.fromOther)
		p.barrier(fmt.Sprintf("a request with opcode %v from another address", op), -1)
	}
	p.RecvCQ.Empty()
	p.Buf.WantOnly(t, "memory after requests from another address", 0, nil)
	if !t.Claims().Has(ci.CapUC) {
		return
	}
	p = s.dial(kit.Type(ci.UC))
	p.blank()
	p.Recv(p.RecvWRs(2, 64)...)
	p.stray(wire.UCSendOnly, p.bytes(16), p.fromOther)
	p.stray(wire.UCWriteOnlyImm, p.bytes(16), p.reth(512, 16), p.fromOther)
	data := p.bytes(8)
	p.request(wire.UCSendOnly, data)
	p.RecvCQ.WaitOK(1)
	p.RecvCQ.Empty()
	p.Buf.WantOnly(t, "memory of a UC QP after requests from another address and one SEND of its peer", 0, data)
}, strangers.Must("WIRE-Drop-15", "IBTA 9.6", "source of a connected QP's packets; services",
	"SENDs, READs and atomics to an RC QP, and SENDs and WRITEs to a UC QP, are dropped without an answer if "+
		"they come from an address other than the peer's."))

var _ = strangers.Add("wire.drop.destination", "packets to another GID of the port", func(t *validate.T) {
	s := open(t)
	if s.info.Link == ci.LinkInfiniBand {
		s.routed()
	}
	other, ok := s.otherGID()
	if !ok {
		t.Skip("the port has only one GID of the address family of the certifier's end")
	}
	to := func(o *outgoing) {
		o.dst = other
		if o.grh != nil {
			o.grh.DGID = other
		}
	}
	p := s.dial()
	p.taken("a WRITE to the GID of the QP's path", 16)
	p.ignored("a WRITE to another GID of the port", wire.RCWriteOnly, to)
	p.Recv(p.RecvWR(1, 0, 64))
	p.blank()
	p.stray(wire.RCSendOnly, p.bytes(8), to)
	p.barrier("a SEND to another GID of the port", -1)
	p.RecvCQ.Empty()
	p.Send(p.SendWR(1, 0, 8))
	p.sendOf(0, "a SEND of the QP")
	p.answer(wire.RCAcknowledge, p.from, wire.ACK(wire.CreditsInvalid), 1, nil, to)
	p.noMore("an ACK to another GID of the port")
	p.ack(p.from, 1)
	p.CQ.WaitOK(1)
}, strangers.Must("WIRE-Drop-16", "IBTA 9.6", "destination of a connected QP's packets",
	"A packet to a connected QP that is addressed to another GID of the port than that of the QP's path is "+
		"dropped without an answer."))

// otherGID returns a GID of the port that is not that of the path to the certifier, and that packets from there can be
// addressed to.
func (s *station) otherGID() (ci.GID, bool) {
	for _, e := range s.ca.Port.GIDs {
		if s.info.Link == ci.LinkEthernet && (e.Type != ci.GIDRoCEv2 || isIPv4(e.GID) != isIPv4(s.local)) {
			continue
		}
		if e.GID != (ci.GID{}) && e.GID != s.local {
			return e.GID, true
		}
	}
	return ci.GID{}, false
}

var _ = strangers.Needing(validate.Needs{Caps: ci.CapLocalMAD, Links: []ci.Link{ci.LinkInfiniBand}}).With(
	validate.Case{Spoils: true}).Add("wire.drop.pkey-removed",
	"invalid P_Keys to a QP whose entry was removed from the table", dropPKeyRemoved,
	strangers.Must("WIRE-Drop-17", "IBTA 10.9.2", "P_Key table; invalid P_Keys",
		"A QP whose entry of the P_Key table is invalid, 0x0000 or 0x8000, receives no packet, not even one with the "+
			"same P_Key."))

func dropPKeyRemoved(t *validate.T) {
	p := dial(t)
	for _, entry := range kit.Variants(t, "entry", []uint16{0x0000, 0x8000}) {
		p.blank()
		p.setPKey(entry)
		for _, k := range []uint16{0x0000, 0x8000} {
			p.stray(wire.RCWriteOnly, p.bytes(16), p.reth(0, 16), func(o *outgoing) { o.BTH.PKey = k })
		}
		p.setPKey(uint16(p.form.pkey))
		p.barrier(fmt.Sprintf("packets with invalid P_Keys to a QP whose entry is %#04x", entry), -1)
		p.Buf.WantOnly(t, "memory after packets with invalid P_Keys", 0, nil)
	}
}

// setPKey sets entry 0 of the port's P_Key table, which the QPs of this suite use.
func (s *station) setPKey(k uint16) {
	do := func(m *mad.SMP) {
		var in, out ci.MAD
		m.Header = mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
			ClassVersion: mad.ClassVersionSubnet, Method: m.Method, TID: uint64(k) + 1, Attribute: mad.AttrPKeyTable}
		m.Put(in[:])
		kit.OK(s.t, s.ca.LocalMAD(s.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of the P_Key table")
		m.Parse(out[:])
		kit.Equal(s.t, "status of the P_Key table", mad.Status(m.Status), mad.Status(mad.StatusOK))
	}
	var table mad.PKeyBlock
	get := mad.SMP{Header: mad.Header{Method: mad.Get}}
	do(&get)
	table.Parse(get.Data[:])
	table[0] = k
	set := mad.SMP{Header: mad.Header{Method: mad.Set}}
	table.Put(set.Data[:])
	do(&set)
}

var wireDup08 = strangers.Must("WIRE-Dup-08", "IBTA 9.7.5.1", "duplicate atomic, forgotten",
	"A duplicate atomic that is older than the responder's resources, or whose PSN is that of another kind of "+
		"request, is not executed and not answered with the result of another atomic.")

var _ = strangers.Case(atomics(validate.Case{
	ID:    "wire.dup.atomic-forgotten",
	Title: "a duplicate of an atomic that is older than the responder resources",
	Run:   dupAtomicForgotten,
}), wireDup08)

func dupAtomicForgotten(t *validate.T) {
	const resources, original = 2, 100
	p := dial(t, kit.Reads(1, resources))
	kit.StoreWord(p.Buf.Bytes, original)
	r := p.Buf.Remote(0)
	eth := withAtomic(wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey), SwapAdd: 5})
	first := p.psn
	const n = resources + 3
	for i := range n {
		p.request(wire.RCFetchAdd, nil, eth)
		p.orig("fetch and add", p.last(), uint64(original+5*i), i+1)
	}
	p.stray(wire.RCFetchAdd, nil, eth, withPSN(first))
	p.request(wire.RCWriteOnly, nil)
	const what = "answer to the first of five fetch and adds again, with resources for two"
	x := p.next(t.Remaining())
	if x == nil {
		t.Failf(what, "none, or the original value", "no packet by the deadline, not even an answer to a later WRITE")
	}
	if x.BTH.Opcode == wire.RCAtomicAcknowledge { // the responder remembers more than it has to
		if x.BTH.PSN != first || x.AtomicAckETH.Orig != original {
			p.wrong(x, what, fmt.Sprintf("PSN %#x and original value %d, if any", first, original), x.String())
		}
		x = nil
	}
	switch {
	case x == nil:
		p.expect("acknowledgement of the WRITE after it", acked(p.last(), -1))
	case x.AETH.Syndrome.IsNAK() && x.BTH.Opcode == wire.RCAcknowledge:
		t.Note("a duplicate atomic that the responder has forgotten gets a NAK")
	default:
		p.match(x, "acknowledgement of the WRITE after it", acked(p.last(), -1))
	}
	kit.Equal(t, "word after the duplicate", kit.LoadWord(p.Buf.Bytes), uint64(original+5*n))
}

var _ = strangers.Case(atomics(validate.Case{
	ID:    "wire.dup.kinds",
	Title: "READs and atomics with the PSN of an earlier request of another kind",
	Run:   dupKinds,
}), wireDup08, wireDup09)

func dupKinds(t *validate.T) {
	p := dial(t)
	p.Recv(p.RecvWRs(1, 64)...)
	r := p.Buf.Remote(0)
	eth := withAtomic(wire.AtomicETH{VA: r.Addr, RKey: uint32(r.RKey), SwapAdd: 5})
	read := p.reth(0, 8)
	add := func() {
		kit.StoreWord(p.Buf.Bytes, 100)
		p.request(wire.RCFetchAdd, nil, eth)
		p.orig("fetch and add", p.last(), 100, -1)
		kit.StoreWord(p.Buf.Bytes, 100)
	}
	plain := func(what string, op wire.Opcode, data []byte, twists ...twist) {
		p.request(op, data, twists...)
		p.expect("acknowledgement of a "+what, acked(p.last(), -1))
	}
	// What the responder remembers stands before and after the requests of other kinds.
	first := p.psn
	add()
	plain("SEND", wire.RCSendOnly, p.bytes(8))
	p.request(wire.RCReadRequest, nil, read)
	p.readAnswer("READ", p.last(), p.Buf.Bytes[:8], -1)
	plain("WRITE", wire.RCWriteOnly, nil, p.reth(64, 0))
	add()
	plain("WRITE", wire.RCWriteOnly, nil, p.reth(64, 0))
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		at     uint32
		op     wire.Opcode
		twists twist
	}{
		{"an atomic with the PSN of a SEND", 1, wire.RCFetchAdd, eth},
		{"an atomic with the PSN of a READ", 2, wire.RCFetchAdd, eth},
		{"an atomic with the PSN of a WRITE", 3, wire.RCFetchAdd, eth},
		{"an atomic with the PSN of the newest WRITE", 5, wire.RCFetchAdd, eth},
		{"a READ with the PSN of an atomic", 0, wire.RCReadRequest, read},
		{"a READ with the PSN of a SEND", 1, wire.RCReadRequest, read},
		{"a READ with the PSN of a WRITE", 3, wire.RCReadRequest, read},
		{"a READ with the PSN of the newest atomic", 4, wire.RCReadRequest, read},
		{"a READ with the PSN of the newest WRITE", 5, wire.RCReadRequest, read},
	}) {
		p.stray(x.op, nil, x.twists, withPSN(wire.PSNAdd(first, int(x.at))))
		p.barrier(x.what, -1)
		kit.Equal(t, "word after "+x.what, kit.LoadWord(p.Buf.Bytes), 100)
	}
}
