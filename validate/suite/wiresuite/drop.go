package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// dropCases are the cases of packets that a port or a QP must drop without an answer, and of header bits that a
// receiver must ignore. (IBTA 9.6, 7.8; RoCEv2 A17.)
var dropCases = area()

// needBytes skips the case on links where the adapter does not receive the bytes that the certifier sends.
func (s *station) needBytes() {
	if !s.info.Raw {
		s.t.Skip("this link does not pass packets to the adapter as bytes, so it cannot check their format")
	}
}

// needEthernet skips the case on links without IP and UDP headers.
func (s *station) needEthernet() {
	if s.info.Link != ci.LinkEthernet {
		s.t.Skip("only packets on Ethernet links have IP and UDP headers; this link is %s",
			validate.LinkName(s.info.Link))
	}
}

// needInfiniBand skips the case on links without LRHs.
func (s *station) needInfiniBand() {
	if s.info.Link != ci.LinkInfiniBand {
		s.t.Skip("only packets on InfiniBand links have an LRH and a GRH; this link is %s",
			validate.LinkName(s.info.Link))
	}
}

// hasOther reports whether the certifier's end of the link has a second address.
func (s *station) hasOther() bool { return s.info.Other != (ci.GID{}) || s.info.OtherLID != 0 }

func (s *station) fromOther(o *outgoing) { o.src, o.slid = s.info.Other, s.info.OtherLID }

// ignored sends a WRITE with one defect at the expected PSN. It expects no answer and no change of memory.
func (p *peer) ignored(what string, op wire.Opcode, twists ...twist) {
	p.blank()
	n := p.room(16)
	p.stray(op, p.bytes(n), append([]twist{p.reth(0, n)}, twists...)...)
	p.barrier(what, -1)
	if p.program != nil { // whose memory is not seen: an answer to the packet would be the next one
		p.barrier(what, -1)
	}
	p.wrote("memory after "+what, 0, nil)
}

// taken sends an unusual but valid WRITE of n bytes and expects it to be acknowledged and executed.
func (p *peer) taken(what string, n int, twists ...twist) {
	p.blank()
	n = p.room(n)
	data := p.bytes(n)
	p.request(wire.RCWriteOnly, data, append([]twist{p.reth(0, n)}, twists...)...)
	p.expect("acknowledgement of "+what, acked(p.last(), -1))
	p.wrote("memory after "+what, 0, data)
}

var wireDrop01 = dropCases.Must("WIRE-Drop-01", "IBTA 7.8", "ICRC",
	"A packet with a wrong ICRC is dropped without an answer.")

var _ = dropCases.Add("wire.drop.icrc", "a wrong ICRC", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, d := range kit.Variants(t, "shift", []uint32{1, 0x80000000, 0xffffffff, 0x00010000}) {
		p.ignored(fmt.Sprintf("a WRITE whose ICRC is off by %#x", d), wire.RCWriteOnly,
			func(o *outgoing) { o.icrcDelta = d })
	}
}, wireDrop01)

var _ = dropCases.Add("wire.drop.corrupt", "a byte changed without a new ICRC", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, at := range kit.Variants(t, "position", []int{1, 2, 11, 12, 19, 24, 28, 43}) {
		p.ignored(fmt.Sprintf("a WRITE with byte %d changed after the ICRC was computed", at), wire.RCWriteOnly,
			func(o *outgoing) {
				o.cut = func(b []byte) []byte {
					c := append([]byte(nil), b...)
					c[at%len(c)] ^= 0x20
					return c
				}
			})
	}
}, wireDrop01)

var _ = dropCases.Add("wire.drop.pkey", "a packet of another partition", func(t *validate.T) {
	p := dial(t)
	p.ignored("a WRITE of another partition", wire.RCWriteOnly, func(o *outgoing) { o.BTH.PKey ^= 0x0100 })
	p.ignored("a WRITE with P_Key 0", wire.RCWriteOnly, func(o *outgoing) { o.BTH.PKey = 0 })
}, dropCases.Must("WIRE-Drop-02", "IBTA 9.6", "P_Key",
	"A packet whose partition is not the QP's is dropped without an answer."))

var _ = dropCases.Add("wire.drop.qpn", "a packet to a QP number that is not in use", func(t *validate.T) {
	p := dial(t)
	p.ignored("a WRITE to a QP number that is not in use", wire.RCWriteOnly, withQP(uint32(p.Num())^0x155555))
	p.ignored("a WRITE to QP 0xfffffe", wire.RCWriteOnly, withQP(0xfffffe))
}, dropCases.Must("WIRE-Drop-03", "IBTA 9.6", "destination QP",
	"A packet to a QP number that is not in use is dropped without an answer."))

var _ = dropCases.Add("wire.drop.source", "a packet from another source address", func(t *validate.T) {
	p := dial(t)
	if !p.hasOther() {
		t.Skip("the certifier's end of the link has only one address")
	}
	p.ignored("a WRITE from another address", wire.RCWriteOnly, p.fromOther)
}, dropCases.Must("WIRE-Drop-04", "IBTA 9.6", "source of a connected QP's packets",
	"A packet to a connected QP from an address other than its peer's is dropped without an answer."))

var _ = dropCases.Add("wire.drop.tver", "packets of another transport version", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, v := range kit.Variants(t, "value", []byte{1, 8, 15}) {
		p.ignored(fmt.Sprintf("a WRITE with TVer %d", v), wire.RCWriteOnly,
			func(o *outgoing) { o.alter = func(b []byte) { b[1] |= v } })
	}
}, dropCases.Must("WIRE-Drop-05", "IBTA 9.6", "TVer",
	"A packet whose transport version is not 0 is dropped without an answer."))

var _ = dropCases.Add("wire.drop.service", "packets with opcodes of UC and UD", func(t *validate.T) {
	p := dial(t)
	p.ignored("a UC WRITE to an RC QP", wire.UCWriteOnly)
	p.Recv(p.RecvWR(1, 0, 128))
	p.ignored("a UC SEND to an RC QP", wire.UCSendOnly)
	p.ignored("a UD SEND to an RC QP", wire.UDSendOnly)
	p.RecvCQ.Empty()
}, dropCases.Must("WIRE-Drop-06", "IBTA 9.6", "OpCode, the service",
	"A packet with an opcode of a service other than the QP's is dropped without an answer."))

var _ = dropCases.Add("wire.drop.short", "packets cut short", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, n := range kit.Variants(t, "bytes", []int{0, 1, 4, 11, 12, 15, 16, 28, 31, 46}) {
		p.ignored(fmt.Sprintf("the first %d bytes of a WRITE", n), wire.RCWriteOnly,
			func(o *outgoing) { o.cut = func(b []byte) []byte { return b[:min(n, len(b)-1)] } })
	}
	// This packet has a valid ICRC and no RETH.
	p.ignored("a WRITE without a RETH", wire.RCSendOnly, func(o *outgoing) {
		o.Payload = nil
		o.alter = func(b []byte) { b[0] = byte(wire.RCWriteOnly) }
	})
}, dropCases.Must("WIRE-Drop-07", "IBTA 9.6", "packet length",
	"A packet that is too short for its headers, or whose length is not a multiple of four bytes, is dropped "+
		"without an answer."))

var _ = dropCases.Add("wire.drop.pad", "a pad count larger than the payload", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	p.blank()
	p.Recv(p.RecvWR(1, 0, 64))
	three := uint8(3)
	at := p.psn
	p.stray(wire.RCSendOnly, nil, func(o *outgoing) { o.pad = &three })
	p.request(wire.RCWriteOnly, nil)
	x := p.next(t.Remaining())
	if x == nil {
		t.Failf("answer to the WRITE after a SEND of no bytes with a pad count of 3",
			"an acknowledgement of the WRITE, or a NAK 0x61 of the SEND", "no packet by the deadline")
	}
	if x.BTH.Opcode == wire.RCAcknowledge && x.BTH.PSN == at && x.AETH.Syndrome == wire.NAKInvalidRequest {
		t.Note("a pad count larger than the payload is answered with a NAK 0x61 and not dropped")
		p.fatal()
		p.RecvCQ.WaitStatus(1, ci.WCLocalLenErr, ci.WCFlushErr, ci.WCRemInvalidReqErr)
		return
	}
	p.match(x, "acknowledgement of the WRITE after a SEND of no bytes with a pad count of 3", acked(at, 1))
	p.RecvCQ.Empty()
}, dropCases.Must("WIRE-Drop-08", "IBTA 9.7.4", "PadCnt",
	"A packet whose pad count is larger than its payload with pad is not executed."))

var _ = dropCases.Add("wire.drop.state", "a request to a QP in Init", func(t *validate.T) {
	p := open(t).raw()
	p.Init()
	p.blank()
	p.stray(wire.RCWriteOnly, p.bytes(16), p.reth(0, 16))
	other := p.dial()
	// sent later through the same port, so the first request has been handled
	other.barrier("a request to a QP in Init", 1)
	p.RTRTo(p.av, ci.QPN(p.qpn), ci.PSN(p.psn))
	p.RTS()
	p.barrier("a request to a QP in Init", 1)
	p.Buf.WantOnly(t, "memory after a WRITE to a QP in Init", 0, nil)
}, dropCases.Must("WIRE-Drop-09", "IBTA 9.6", "QP state",
	"A request to a QP in Init is dropped without an answer and changes neither the expected PSN nor the MSN."))

var _ = dropCases.Add("wire.drop.cnp", "a congestion notification packet", func(t *validate.T) {
	p := dial(t)
	if p.info.Link == ci.LinkInfiniBand { // where this opcode is reserved
		p.needBytes()
	}
	for range 3 {
		p.stray(wire.CNP, make([]byte, wire.CNPLen), withPSN(0), func(o *outgoing) { o.BTH.BECN = true })
	}
	p.barrier("congestion notification packets", 1)
}, dropCases.Must("WIRE-Drop-10", "RoCEv2 A17.9", "congestion notification",
	"A congestion notification packet is not answered and changes neither the expected PSN nor the MSN."))

var _ = dropCases.Add("wire.take.congestion", "FECN and BECN set", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, bits := range kit.Variants(t, "bits", []byte{0x80, 0x40, 0xc0}) {
		p.taken(fmt.Sprintf("a WRITE with %#02x in byte 4 of the BTH", bits), 16,
			func(o *outgoing) { o.alter = func(b []byte) { b[4] |= bits } })
	}
}, dropCases.Must("WIRE-Take-01", "IBTA 9.2", "FECN, BECN; A17.9",
	"A packet with FECN or BECN set is accepted like any other."))

var _ = dropCases.Add("wire.take.reserved", "each reserved bit of the BTH set", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, x := range kit.Variants(t, "",
		[]struct{ at, bits byte }{{4, 0x3f}, {4, 0x01}, {8, 0x7f}, {8, 0x40}, {8, 0x01}}) {
		p.taken(fmt.Sprintf("a WRITE with %#02x in byte %d of the BTH", x.bits, x.at), 16,
			func(o *outgoing) { o.alter = func(b []byte) { b[x.at] |= x.bits } })
	}
}, dropCases.Must("WIRE-Take-02", "IBTA 9.2", "reserved fields",
	"The receiver ignores the reserved bits of the BTH."))

var _ = dropCases.Add("wire.take.source-port", "several UDP source ports", func(t *validate.T) {
	p := dial(t)
	p.needEthernet()
	for _, port := range kit.Variants(t, "port", []uint16{49152, 61234, 50000}) {
		p.taken(fmt.Sprintf("a WRITE from UDP port %d", port), 16, func(o *outgoing) { o.sport = port })
	}
}, dropCases.Must("WIRE-Take-03", "RoCEv2 A17.3", "UDP source port",
	"A packet is accepted whatever its UDP source port is."))

var _ = dropCases.Add("wire.take.pad", "pad bytes that are not zero", func(t *validate.T) {
	p := dial(t)
	p.needBytes()
	for _, n := range kit.Variants(t, "bytes", []int{13, 14, 15}) {
		p.taken(fmt.Sprintf("a WRITE of %d bytes with pad bytes of 0xa5", n), n,
			func(o *outgoing) { o.padding = []byte{0xa5, 0xa5, 0xa5} })
	}
}, dropCases.Must("WIRE-Take-04", "IBTA 9.2", "pad",
	"The receiver ignores the values of pad bytes and does not write them to memory."))

var _ = dropCases.Add("wire.take.limited", "a P_Key without the membership bit", func(t *validate.T) {
	p := dial(t)
	if p.form.pkey&0x8000 == 0 {
		t.Skip("the port itself is a limited member")
	}
	p.taken("a WRITE from a limited member", 16, func(o *outgoing) { o.BTH.PKey &= 0x7fff })
	kit.Equal(t, "state of the QP", p.State(), ci.QPRTS)
}, dropCases.Must("WIRE-Take-05", "IBTA 10.9", "limited membership",
	"A full member accepts packets that a limited member of its partition sends."))
