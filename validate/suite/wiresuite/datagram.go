package wiresuite

import (
	"encoding/binary"
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// datagramCases are the cases of the services without acknowledgements, UD and UC. (IBTA 9.8; RoCEv2 A17.)
var datagramCases = area().Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV})

const areaLen = 40 // bytes that precede a datagram in its receive

var _ = datagramCases.Add("wire.ud.receive", "datagrams of 0 bytes to the MTU", func(t *validate.T) {
	p := dial(t, kit.Type(ci.UD))
	for i, n := range kit.Variants(t, "bytes", []int{0, 1, 3, 100, p.ca.MTU().Bytes()}) {
		id := uint64(i + 1)
		p.blank()
		p.Recv(p.RecvWR(id, 0, areaLen+n))
		data := p.bytes(n)
		op, flags, imm := wire.UDSendOnly, ci.WCGRH, uint32(0)
		if i%2 == 1 {
			op, flags, imm = wire.UDSendOnlyImm, flags|ci.WCImmediate, 0x11223344
		}
		p.request(op, data, withImm(0x11223344))
		wc := p.RecvCQ.WaitOK(id)[0]
		where := fmt.Sprintf("datagram of %d bytes", n)
		kit.Equal(t, where+": Length", wc.Length, uint32(areaLen+n))
		kit.Equal(t, where+": SrcQP", uint32(wc.SrcQP), p.qpn)
		if p.info.Link == ci.LinkInfiniBand {
			flags &^= ci.WCGRH // a packet on a local route has no GRH
		}
		kit.Equal(t, where+": Flags", wc.Flags&^ci.WCChecksumOK, flags)
		if imm != 0 {
			kit.Equal(t, where+": Imm", wc.Imm, imm)
		}
		kit.SameBytes(t, where, p.Buf.Bytes[areaLen:areaLen+n], data)
		for j, c := range p.Buf.Bytes[areaLen+n:] {
			kit.True(t, c == 0xee, where, "nothing written after the datagram", "byte %d after the datagram is %#02x",
				j+1, c)
		}
	}
}, datagramCases.Must("WIRE-Ud-01", "IBTA 9.8", "UD SEND",
	"A datagram fills one receive after 40 reserved bytes. Its completion has the source QP of the DETH and the "+
		"immediate data."))

var _ = datagramCases.Add("wire.ud.header", "the first 40 bytes of a receive", func(t *validate.T) {
	p := dial(t, kit.Type(ci.UD))
	p.needEthernet()
	const n = 21
	p.Recv(p.RecvWR(1, 0, areaLen+n))
	o := p.packet(wire.UDSendOnly, p.bytes(n))
	whole := len(o.bytes(&p.info))
	p.put(o)
	p.RecvCQ.WaitOK(1)
	h := p.Buf.Bytes[:areaLen]
	if !isIPv4(p.info.GID) {
		kit.Equal(t, "version of the IPv6 header", h[0]>>4, 6)
		kit.Equal(t, "payload length of the IPv6 header", binary.BigEndian.Uint16(h[4:]), uint16(whole-ip6Len))
		kit.Equal(t, "next header", h[6], 17)
		kit.SameBytes(t, "addresses of the IPv6 header", h[8:40], append(p.info.GID[:], p.local[:]...))
		return
	}
	h = h[areaLen-ip4Len:]
	kit.Equal(t, "version and length of the IPv4 header", h[0], 0x45)
	kit.Equal(t, "total length of the IPv4 header", binary.BigEndian.Uint16(h[2:]), uint16(whole))
	kit.Equal(t, "protocol of the IPv4 header", h[9], 17)
	kit.Equal(t, "checksum over the IPv4 header, checksum field included", sum(h, 0), 0xffff)
	kit.SameBytes(t, "addresses of the IPv4 header", h[12:20],
		append(append([]byte(nil), p.info.GID[12:]...), p.local[12:]...))
}, datagramCases.Must("WIRE-Ud-02", "RoCEv2 A17.4", "the first 40 bytes of a receive",
	"For IPv4, the first 40 bytes of a receive end with the datagram's IP header: version, total length, "+
		"protocol and both addresses. For IPv6, they are the IP header."))

var wireUd03 = datagramCases.Must("WIRE-Ud-03", "IBTA 9.8", "Q_Key",
	"A datagram whose Q_Key is not the QP's is dropped without an answer.")

var _ = datagramCases.Add("wire.ud.qkey", "a datagram with another Q_Key", func(t *validate.T) {
	p := dial(t, kit.Type(ci.UD))
	p.Recv(p.RecvWRs(2, 128)...)
	p.request(wire.UDSendOnly, p.bytes(8), withDeth(wire.DETH{QKey: uint32(p.Config.QKey) ^ 1, SrcQP: p.qpn}))
	p.udGood(1)
}, wireUd03)

// udGood sends a valid datagram and expects it to complete the receive with that id, which shows that earlier datagrams
// used none. It fails if the QP has sent a packet.
func (p *peer) udGood(id uint64) {
	data := p.bytes(8)
	p.request(wire.UDSendOnly, data)
	p.RecvCQ.WaitOK(id)
	at := int(id-1) * 128
	kit.SameBytes(p.t, "data of the receive that the valid datagram fills", p.Buf.Bytes[at+areaLen:at+areaLen+8], data)
	p.mute("datagrams")
}

// mute makes the QP send a message and expects that message to be the first packet from the QP.
func (p *peer) mute(what string) {
	const id = 0x6d757465
	p.Send(p.SendWR(id, 0, 4))
	x := p.next(p.t.Remaining())
	if x == nil || x.BTH.Opcode.Op() != wire.OpSend {
		got := "no packet by the deadline"
		if x != nil {
			got = x.String()
		}
		p.t.Failf("first packet from the QP after "+what, "the QP's own SEND, without an answer before it", "%s", got)
	}
	p.CQ.WaitOK(id)
}

var _ = datagramCases.Add("wire.ud.send", "datagrams that the QP sends", func(t *validate.T) {
	p := dial(t, kit.Type(ci.UD))
	for i, n := range kit.Variants(t, "bytes", []int{0, 1, 2, 3, 4, 100, p.ca.MTU().Bytes()}) {
		id := uint64(i + 1)
		w := p.SendWR(id, 64, n)
		op := wire.UDSendOnly
		if i%2 == 1 {
			w.Flags |= ci.SendImmediate | ci.SendSolicited
			w.Imm, op = 0xcafe0123, wire.UDSendOnlyImm
		}
		w.To.QKey = ci.QKey(0x12340000 + i)
		p.Send(w)
		x := p.expect(fmt.Sprintf("datagram of %d bytes", n),
			want{op: []wire.Opcode{op}, anyPSN: true, payload: append([]byte{}, p.Buf.Bytes[64:64+n]...)})
		sameDETH := x.DETH.QKey == uint32(w.To.QKey) && x.DETH.SrcQP == uint32(p.Num())
		sameImm := !op.HasImm() || x.ImmDt.Imm == w.Imm
		if !sameDETH || !sameImm || x.BTH.SE != op.HasImm() {
			p.wrong(x, "headers of the datagram",
				fmt.Sprintf("Q_Key %#x, source QP %#x, immediate %#x, solicited %v", w.To.QKey, uint32(p.Num()), w.Imm,
					op.HasImm()),
				fmt.Sprintf("Q_Key %#x, source QP %#x, immediate %#x, solicited %v", x.DETH.QKey, x.DETH.SrcQP,
					x.ImmDt.Imm, x.BTH.SE))
		}
		p.CQ.WaitOK(id)
	}
}, datagramCases.Must("WIRE-Ud-04", "IBTA 9.8", "UD SEND",
	"A datagram is sent as one packet, SEND ONLY or SEND ONLY with immediate, to the QP and with the Q_Key of "+
		"the work request. The DETH holds the number of the sending QP."), wireUd05)

var wireUd05 = datagramCases.Must("WIRE-Ud-05", "IBTA 9.8", "PSN of datagrams",
	"The PSN of each datagram that a QP sends is one more than that of the previous one.")

var _ = datagramCases.Add("wire.ud.send-psn",
	"PSNs of datagrams that the QP sends, across 0xffffff", func(t *validate.T) {
		p := open(t).raw(kit.Type(ci.UD)).at(0, 0xfffffd).connect()
		for i := range 6 {
			p.Send(p.SendWR(uint64(i+1), 0, 8))
			p.expect(fmt.Sprintf("datagram %d of a QP whose first PSN is 0xfffffd", i+1),
				want{op: []wire.Opcode{wire.UDSendOnly}, psn: 0xfffffd + uint32(i), length: 8})
		}
		p.CQ.WaitOK(1, 2, 3, 4, 5, 6)
	}, wireUd05)

var _ = datagramCases.Add("wire.ud.psn", "datagrams with PSNs in any order", func(t *validate.T) {
	p := dial(t, kit.Type(ci.UD))
	p.Recv(p.RecvWRs(5, 64)...)
	for i, d := range kit.Variants(t, "shift", []uint32{0, 5, 1 << 23, 3, 3}) {
		p.stray(wire.UDSendOnly, p.bytes(8), withPSN(p.psn+d))
		p.RecvCQ.WaitOK(uint64(i + 1))
	}
}, datagramCases.Must("WIRE-Ud-06", "IBTA 9.8", "PSN of datagrams",
	"Datagrams are accepted whatever their PSN is."))

var wireUd07 = datagramCases.Must("WIRE-Ud-07", "IBTA 9.6", "packet validation",
	"A datagram with a wrong ICRC, of another partition or longer than the receive does not complete a receive "+
		"with success.")

var _ = datagramCases.Add("wire.ud.bad", "invalid datagrams", func(t *validate.T) {
	s := open(t)
	p := s.dial(kit.Type(ci.UD))
	p.Recv(p.RecvWRs(3, 128)...)
	p.request(wire.UDSendOnly, p.bytes(8), func(o *outgoing) { o.BTH.PKey ^= 0x0100 })
	if p.info.Raw {
		p.request(wire.UDSendOnly, p.bytes(8), func(o *outgoing) { o.icrcDelta = 1 })
	}
	p.udGood(1)
	big := s.dial(kit.Type(ci.UD), kit.Size(16<<10))
	big.blank()
	big.Recv(big.RecvWR(1, 0, 8<<10))
	big.request(wire.UDSendOnly, big.bytes(big.ca.Port.MTU.Bytes()+4)) // longer than the MTU of the port
	data := big.bytes(100)
	big.request(wire.UDSendOnly, data)
	kit.Equal(t, "Length of the datagram after one that is longer than the MTU", big.RecvCQ.WaitOK(1)[0].Length,
		areaLen+100)
	kit.SameBytes(t, "datagram after one that is longer than the MTU", big.Buf.Bytes[areaLen:areaLen+100], data)
	p.blank()
	p.request(wire.UDSendOnly, p.bytes(89))
	p.request(wire.UDSendOnly, p.bytes(8))
	wc := p.RecvCQ.Wait(1)[0]
	if wc.Status == ci.WCSuccess && wc.Length != areaLen+8 {
		t.Failf("completion of a receive of 128 bytes after a datagram of 89 bytes, which needs 129",
			"a local length error, or success for the next datagram", "%s", kit.Completions([]ci.WC{wc}))
	}
	for j := 256; j < len(p.Buf.Bytes) && wc.Status != ci.WCSuccess; j++ {
		kit.True(t, j >= 384 || wc.ID != 2 || p.Buf.Bytes[j] == 0xee,
			"memory after the end of a receive that is too short", "nothing written", "byte %d of the buffer is %#02x",
			j, p.Buf.Bytes[j])
	}
}, wireUd07)

var _ = datagramCases.Needing(validate.Needs{Caps: ci.CapSpecialQP | ci.CapAV}).Add("wire.ud.qp1",
	"datagrams to QP1 with each P_Key of the table, and with others", udQP1, wireUd07, wireUd03)

// qp1QKey is the Q_Key of QP1 (IBTA 3.5.3).
const qp1QKey = 0x80010000

// qp1 creates QP1 of the port, in RTS.
func (s *station) qp1() *peer {
	pd := s.ca.PD()
	e := &kit.End{CQ: s.ca.CQ(pd, 32), RecvCQ: s.ca.CQ(pd, 32), Buf: s.ca.Buf(pd, 16<<10, kit.AllAccess)}
	c := kit.Options(s.ca, s.ca, kit.Type(ci.QP1), kit.QKey(qp1QKey))
	e.QP = &kit.QP{CA: s.ca, PD: pd, SendCQ: e.CQ, RecvCQ: e.RecvCQ, Events: kit.NewEvents(s.t), Config: c}
	in, err := pd.CreateSpecialQP(s.ca.Port.Num, e.Create())
	kit.OK(s.t, err, "PD.CreateSpecialQP of QP1")
	e.QP.QP = kit.Own(s.t, in, "QP1")
	e.Init().RTR(nil).RTS()
	return &peer{station: s, End: e, service: wire.UD, qpn: 0x801, mtu: c.MTU.Bytes()}
}

// udQP1 sends datagrams to QP1, which accepts every P_Key of its port's table and reports the index.
func udQP1(t *validate.T) {
	s := open(t)
	p := s.qp1()
	const size = areaLen + mad.Size
	deth := wire.DETH{QKey: qp1QKey, SrcQP: p.qpn}
	id := uint64(0)
	for i, key := range s.ca.Port.PKeys {
		isSame := func(k ci.PKey) bool { return (k^key)&0x7fff == 0 }
		if key&0x7fff == 0 || slices.ContainsFunc(s.ca.Port.PKeys[:i], isSame) {
			continue
		}
		id++
		p.Recv(p.RecvWR(id, 0, size))
		other := uint16(key) ^ 0x1234
		if slices.ContainsFunc(s.ca.Port.PKeys, func(k ci.PKey) bool { return (uint16(k)^other)&0x7fff == 0 }) {
			other = 0x4321
		}
		payload := func(mark byte) []byte {
			b := p.bytes(mad.Size)
			b[1] = 0x31 + mark // a class of vendors, which no agent of the adapter has
			return b
		}
		p.request(wire.UDSendOnly, payload(1), withDeth(deth), func(o *outgoing) { o.BTH.PKey = other })
		p.request(wire.UDSendOnly, payload(2), withDeth(deth), func(o *outgoing) { o.BTH.PKey = 0 })
		p.request(wire.UDSendOnly, payload(3), withDeth(wire.DETH{QKey: qp1QKey ^ 1, SrcQP: p.qpn}))
		good := payload(4)
		p.request(wire.UDSendOnly, good, withDeth(deth), func(o *outgoing) { o.BTH.PKey = uint16(key) | 0x8000 })
		wc := p.RecvCQ.WaitOK(id)[0]
		where := fmt.Sprintf("datagram to QP1 with P_Key %#04x", uint16(key))
		kit.Equal(t, where+": PKeyIndex", wc.PKeyIndex, uint16(i))
		kit.Equal(t, where+": SrcQP", uint32(wc.SrcQP), p.qpn)
		kit.SameBytes(t, where, p.Buf.Bytes[areaLen:size], good)
	}
}

var _ = datagramCases.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.silent",
	"messages with AckReq", func(t *validate.T) {
		p := dial(t, kit.Type(ci.UC))
		p.Recv(p.RecvWRs(2, 64)...)
		for range 2 {
			p.request(wire.UCSendOnly, p.bytes(8), ackReq(true))
		}
		p.request(wire.UCWriteOnly, p.bytes(8), p.reth(512, 8), ackReq(true))
		p.RecvCQ.WaitOK(1, 2)
		p.mute("UC messages with AckReq")
	}, datagramCases.Must("WIRE-Uc-01", "IBTA 9.8", "unreliable connection",
		"A UC QP sends no answer, whether AckReq is set or not."))

var _ = datagramCases.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.gap",
	"a SEND with a missing packet", func(t *validate.T) {
		s := open(t)
		for _, missing := range kit.Variants(t, "missing packet", []int{0, 1, 2}) {
			p := s.dial(kit.Type(ci.UC))
			p.blank()
			p.Recv(p.RecvWRs(2, 4*p.mtu)...)
			for k, op := range kit.Variants(t, "opcode",
				[]wire.Opcode{wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLast}) {
				if k == missing {
					p.psn = wire.PSNAdd(p.psn, 1)
					continue
				}
				p.request(op, p.bytes(p.mtu))
			}
			data := p.bytes(24)
			p.request(wire.UCSendOnly, data)
			wc := p.RecvCQ.WaitOK(1)[0]
			kit.Equal(t, fmt.Sprintf("Length of the first message after one whose packet %d is missing", missing+1),
				wc.Length, uint32(len(data)))
			kit.SameBytes(t, "data of the message", p.Buf.Bytes[:len(data)], data)
			p.RecvCQ.Empty()
			p.mute("a message with a packet missing")
		}
	}, datagramCases.Must("WIRE-Uc-02", "IBTA 9.8", "UC, lost packets",
		"A UC message with a missing packet is dropped as a whole, and the next message is accepted."))

var wireUc03 = datagramCases.Must("WIRE-Uc-03", "IBTA 9.8", "UC, lost messages",
	"A UC message whose PSN is beyond the expected one is accepted.")

var _ = datagramCases.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.jump",
	"a message beyond the expected PSN", func(t *validate.T) {
		p := dial(t, kit.Type(ci.UC))
		p.Recv(p.RecvWRs(3, 64)...)
		for i, d := range kit.Variants(t, "shift", []int{0, 7, 1000}) {
			p.psn = wire.PSNAdd(p.psn, d)
			p.request(wire.UCSendOnly, p.bytes(8))
			p.RecvCQ.WaitOK(uint64(i + 1))
		}
	}, wireUc03)

var _ = datagramCases.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.send",
	"messages that the QP sends", func(t *validate.T) {
		p := dial(t, kit.Type(ci.UC))
		p.outbound(wire.OpSend, wire.OpWrite)
	}, datagramCases.Must("WIRE-Uc-04", "IBTA 9.8", "UC packets",
		"A UC message is sent as full packets and a rest, with the opcodes FIRST, MIDDLE, LAST or ONLY and "+
			"consecutive PSNs. A WRITE has a RETH in its first packet. Immediate data are in the last packet."))

var _ = datagramCases.Needing(validate.Needs{Caps: ci.CapUC}).Add("wire.uc.access", "a WRITE without access rights",
	ucAccess,
	datagramCases.Must("WIRE-Uc-05", "IBTA 9.8", "UC, access",
		"A UC WRITE without access rights is dropped without an answer, and nothing is written."))

func ucAccess(t *validate.T) {
	p := dial(t, kit.Type(ci.UC))
	p.blank()
	p.Recv(p.RecvWRs(1, 64)...)
	p.request(wire.UCWriteOnly, p.bytes(8), withReth(wire.RETH{VA: p.Buf.Remote(0).Addr, RKey: 0xffffff01, DMALen: 8}))
	r := p.Buf.Remote(uint64(len(p.Buf.Bytes) - 4))
	p.request(wire.UCWriteOnly, p.bytes(8), withReth(wire.RETH{VA: r.Addr, RKey: uint32(r.RKey), DMALen: 8}))
	data := p.bytes(8)
	p.request(wire.UCSendOnly, data)
	p.RecvCQ.WaitOK(1)
	p.Buf.WantOnly(t, "memory after UC WRITEs without access rights and one SEND", 0, data)
	p.mute("UC WRITEs without access rights")
}
