package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
	"ciddk/wire"
)

// dropArea: packets that a port or a QP must not take, all dropped without an answer, and bits that a receiver must not look at. (IBTA 9.6, 7.8; A17.)
func dropArea() validate.Suite {
	return validate.Suite{
		Requirements: []req.Requirement{
			req.Driver.Must("WIRE-Drop-01", "IBTA 7.8", "ICRC", "A packet with a wrong ICRC is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-02", "IBTA 9.6", "P_Key", "A packet of another partition than the QP's is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-03", "IBTA 9.6", "destination QP", "A packet to a QP number that is not in use is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-04", "IBTA 9.6", "source of a connected QP's packets", "A packet to a connected QP from another address than its peer's is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-05", "IBTA 9.6", "TVer", "A packet of another transport version than 0 is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-06", "IBTA 9.6", "OpCode, the service", "A packet with an opcode of another service than the QP's is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-07", "IBTA 9.6", "packet length", "What is too short for its headers or no multiple of four bytes is dropped without an answer."),
			req.Driver.Must("WIRE-Drop-08", "IBTA 9.7.4", "PadCnt", "A packet with more pad bytes than payload and pad together is not executed."),
			req.Driver.Must("WIRE-Drop-09", "IBTA 9.6", "QP state", "A packet to a QP in Init is dropped without an answer and does not count."),
			req.Driver.Must("WIRE-Drop-10", "RoCEv2 A17.9", "congestion notification", "A congestion notification packet is not answered, and does not count as a request."),
			req.Driver.Must("WIRE-Take-01", "IBTA 9.2", "FECN, BECN; A17.9", "A packet marked with FECN or BECN is taken like another."),
			req.Driver.Must("WIRE-Take-02", "IBTA 9.2", "reserved fields", "Reserved bits of the BTH are not looked at."),
			req.Driver.Must("WIRE-Take-03", "RoCEv2 A17.3", "UDP source port", "A packet is taken whatever its UDP source port is."),
			req.Driver.Must("WIRE-Take-04", "IBTA 9.2", "pad", "The value of pad bytes is not looked at, and no pad byte is placed."),
			req.Driver.Must("WIRE-Take-05", "IBTA 10.9", "limited membership", "A limited member's packet of the same partition is taken by a full member."),
		},
		Cases: []validate.Case{
			validate.NewCase("wire.drop.icrc", "a wrong ICRC", validate.FeatureWire, dropICRC, "WIRE-Drop-01"),
			validate.NewCase("wire.drop.corrupt", "a byte changed behind the ICRC's back", validate.FeatureWire, dropCorrupt, "WIRE-Drop-01"),
			validate.NewCase("wire.drop.pkey", "another partition", validate.FeatureWire, dropPKey, "WIRE-Drop-02"),
			validate.NewCase("wire.drop.qpn", "a QP number that is not in use", validate.FeatureWire, dropQPN, "WIRE-Drop-03"),
			validate.NewCase("wire.drop.source", "another source address", validate.FeatureWire, dropSource, "WIRE-Drop-04"),
			validate.NewCase("wire.drop.tver", "another transport version", validate.FeatureWire, dropTVer, "WIRE-Drop-05"),
			validate.NewCase("wire.drop.service", "opcodes of UC and UD", validate.FeatureWire, dropService, "WIRE-Drop-06"),
			validate.NewCase("wire.drop.short", "packets cut short", validate.FeatureWire, dropShort, "WIRE-Drop-07"),
			validate.NewCase("wire.drop.pad", "more pad than there is", validate.FeatureWire, dropPad, "WIRE-Drop-08"),
			validate.NewCase("wire.drop.state", "a request to a QP in Init", validate.FeatureWire, dropState, "WIRE-Drop-09"),
			validate.NewCase("wire.drop.cnp", "a congestion notification packet", validate.FeatureWire, dropCNP, "WIRE-Drop-10"),
			validate.NewCase("wire.take.congestion", "FECN and BECN set", validate.FeatureWire, takeECN, "WIRE-Take-01"),
			validate.NewCase("wire.take.reserved", "each reserved bit of the BTH set", validate.FeatureWire, takeReserved, "WIRE-Take-02"),
			validate.NewCase("wire.take.source-port", "several UDP source ports", validate.FeatureWire, takeSport, "WIRE-Take-03"),
			validate.NewCase("wire.take.pad", "pad bytes that are not zero", validate.FeatureWire, takePad, "WIRE-Take-04"),
			validate.NewCase("wire.take.limited", "a P_Key without the membership bit", validate.FeatureWire, takeLimited, "WIRE-Take-05"),
		},
	}
}

// bytewise skips the case where what the adapter sees is not the bytes sent.
func (s *station) bytewise() {
	if !s.info.Raw {
		s.t.Skip("packets do not reach the adapter as bytes on this link, so that nothing of it looks at their form")
	}
}

// ethernet skips the case on links without IP and UDP.
func (s *station) ethernet() {
	if s.info.Link != ci.LinkEthernet {
		s.t.Skip("IP and UDP are of Ethernet links; this one is %s", validate.LinkName(s.info.Link))
	}
}

// infiniband skips the case on links without LRHs.
func (s *station) infiniband() {
	if s.info.Link != ci.LinkInfiniBand {
		s.t.Skip("LRH and GRH are of InfiniBand links; this one is %s", validate.LinkName(s.info.Link))
	}
}

// hasOther tells whether the end has a second address, and fromOther has a packet come from it.
func (s *station) hasOther() bool { return s.info.Other != (ci.GID{}) || s.info.OtherLID != 0 }

func (s *station) fromOther(o *outgoing) { o.src, o.slid = s.info.Other, s.info.OtherLID }

// ignored sends a WRITE that is wrong in one way where the next request is due, and sees that nothing comes of it.
func (p *peer) ignored(what string, op wire.Opcode, twists ...twist) {
	p.blank()
	p.stray(op, p.bytes(16), append([]twist{p.reth(0, 16)}, twists...)...)
	p.barrier(what, -1)
	p.Buf.WantOnly(p.t, "memory after "+what, 0, nil)
}

// taken sends a WRITE that is special in one way, and sees that it is done.
func (p *peer) taken(what string, n int, twists ...twist) {
	p.blank()
	data := p.bytes(n)
	p.request(wire.RCWriteOnly, data, append([]twist{p.reth(0, n)}, twists...)...)
	p.expect("acknowledgement of "+what, acked(p.last(), -1))
	p.Buf.WantOnly(p.t, "memory after "+what, 0, data)
}

func dropICRC(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, d := range kit.Variants(t, "shift", []uint32{1, 0x80000000, 0xffffffff, 0x00010000}) {
		p.ignored(fmt.Sprintf("a WRITE whose ICRC is off by %#x", d), wire.RCWriteOnly, func(o *outgoing) { o.spoil = d })
	}
}

func dropCorrupt(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, at := range kit.Variants(t, "position", []int{1, 2, 11, 12, 19, 24, 28, 43}) {
		p.ignored(fmt.Sprintf("a WRITE with byte %d changed on the way", at), wire.RCWriteOnly, func(o *outgoing) {
			o.cut = func(b []byte) []byte {
				c := append([]byte(nil), b...)
				c[at] ^= 0x20
				return c
			}
		})
	}
}

func dropPKey(t *validate.T) {
	p := dial(t)
	p.ignored("a WRITE of another partition", wire.RCWriteOnly, func(o *outgoing) { o.BTH.PKey ^= 0x0100 })
	p.ignored("a WRITE with P_Key 0", wire.RCWriteOnly, func(o *outgoing) { o.BTH.PKey = 0 })
}

func dropQPN(t *validate.T) {
	p := dial(t)
	p.ignored("a WRITE to a QP number not in use", wire.RCWriteOnly, withQP(uint32(p.Num())^0x155555))
	p.ignored("a WRITE to QP 0xfffffe", wire.RCWriteOnly, withQP(0xfffffe))
}

func dropSource(t *validate.T) {
	p := dial(t)
	if !p.hasOther() {
		t.Skip("the end of the link has one address only")
	}
	p.ignored("a WRITE from another address", wire.RCWriteOnly, p.fromOther)
}

func dropTVer(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, v := range kit.Variants(t, "value", []byte{1, 8, 15}) {
		p.ignored(fmt.Sprintf("a WRITE of TVer %d", v), wire.RCWriteOnly, func(o *outgoing) { o.alter = func(b []byte) { b[1] |= v } })
	}
}

func dropService(t *validate.T) {
	p := dial(t)
	p.ignored("a UC WRITE to an RC QP", wire.UCWriteOnly)
	p.Recv(p.RecvWR(1, 0, 128))
	p.ignored("a UC SEND to an RC QP", wire.UCSendOnly)
	p.ignored("a UD SEND to an RC QP", wire.UDSendOnly)
	p.RecvCQ.Empty()
}

func dropShort(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, n := range kit.Variants(t, "bytes", []int{0, 1, 4, 11, 12, 15, 16, 28, 31, 46}) {
		p.ignored(fmt.Sprintf("the first %d bytes of a WRITE", n), wire.RCWriteOnly, func(o *outgoing) { o.cut = func(b []byte) []byte { return b[:n] } })
	}
	// The ICRC right, the RETH missing.
	p.ignored("a WRITE without a RETH", wire.RCSendOnly, func(o *outgoing) {
		o.Payload = nil
		o.alter = func(b []byte) { b[0] = byte(wire.RCWriteOnly) }
	})
}

func dropPad(t *validate.T) {
	p := dial(t)
	p.bytewise()
	p.blank()
	p.Recv(p.RecvWR(1, 0, 64))
	three := uint8(3)
	at := p.psn
	p.stray(wire.RCSendOnly, nil, func(o *outgoing) { o.pad = &three })
	p.request(wire.RCWriteOnly, nil)
	x := p.next(t.Remaining())
	if x == nil {
		t.Failf("answer to the WRITE behind a SEND of no bytes with a pad count of 3", "an acknowledgement, or a NAK 0x61 of the SEND", "no packet by the deadline")
	}
	if x.BTH.Opcode == wire.RCAcknowledge && x.BTH.PSN == at && x.AETH.Syndrome == wire.NAKInvalidRequest {
		t.Note("a pad count above the payload is answered by a NAK 0x61, not dropped")
		p.fatal()
		p.RecvCQ.WaitStatus(1, ci.WCLocalLenErr, ci.WCFlushErr, ci.WCRemInvalidReqErr)
		return
	}
	p.match(x, "acknowledgement of the WRITE behind a SEND of no bytes with a pad count of 3", acked(at, 1))
	p.RecvCQ.Empty()
}

func dropState(t *validate.T) {
	p := open(t).raw()
	p.Init()
	p.blank()
	p.stray(wire.RCWriteOnly, p.bytes(16), p.reth(0, 16))
	other := p.dial()
	other.barrier("a request to a QP in Init", 1) // it has come through the same port behind
	p.RTRTo(p.av, ci.QPN(p.qpn), ci.PSN(p.psn))
	p.RTS()
	p.barrier("a request to a QP in Init", 1)
	p.Buf.WantOnly(t, "memory after a WRITE to a QP in Init", 0, nil)
}

func dropCNP(t *validate.T) {
	p := dial(t)
	p.ethernet()
	for range 3 {
		p.stray(wire.CNP, make([]byte, wire.CNPLen), withPSN(0), func(o *outgoing) { o.BTH.BECN = true })
	}
	p.barrier("congestion notification packets", 1)
}

func takeECN(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, bits := range kit.Variants(t, "bits", []byte{0x80, 0x40, 0xc0}) {
		p.taken(fmt.Sprintf("a WRITE with %#02x in byte 4 of the BTH", bits), 16, func(o *outgoing) { o.alter = func(b []byte) { b[4] |= bits } })
	}
}

func takeReserved(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, x := range kit.Variants(t, "", []struct{ at, bits byte }{{4, 0x3f}, {4, 0x01}, {8, 0x7f}, {8, 0x40}, {8, 0x01}}) {
		p.taken(fmt.Sprintf("a WRITE with %#02x in byte %d of the BTH", x.bits, x.at), 16, func(o *outgoing) { o.alter = func(b []byte) { b[x.at] |= x.bits } })
	}
}

func takeSport(t *validate.T) {
	p := dial(t)
	p.ethernet()
	for _, port := range kit.Variants(t, "port", []uint16{49152, 61234, 50000}) {
		p.taken(fmt.Sprintf("a WRITE from UDP port %d", port), 16, func(o *outgoing) { o.sport = port })
	}
}

func takePad(t *validate.T) {
	p := dial(t)
	p.bytewise()
	for _, n := range kit.Variants(t, "bytes", []int{13, 14, 15}) {
		p.taken(fmt.Sprintf("a WRITE of %d bytes with pad bytes of 0xa5", n), n, func(o *outgoing) { o.padding = []byte{0xa5, 0xa5, 0xa5} })
	}
}

func takeLimited(t *validate.T) {
	p := dial(t)
	if p.form.pkey&0x8000 == 0 {
		t.Skip("the port is a limited member itself")
	}
	p.taken("a WRITE of a limited member", 16, func(o *outgoing) { o.BTH.PKey &= 0x7fff })
	kit.Equal(t, "state of the QP", p.State(), ci.QPRTS)
}
