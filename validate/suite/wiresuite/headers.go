package wiresuite

import (
	"encoding/binary"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// headers are the cases of IP and UDP headers that a port must not accept, and of packets to multicast groups. (RoCEv2
// A17.3; IBTA 7.7, 9.6, 10.5.)
var headers = area()

// summed changes the headers before the BTH, and then sets the checksum of an IPv4 header, so that the change is the
// only defect.
func summed(f func(b []byte)) twist {
	return front(func(b []byte) {
		f(b)
		if b[0]>>4 == 4 {
			b[10], b[11] = 0, 0
			binary.BigEndian.PutUint16(b[10:], ^sum(b[:ip4Len], 0))
		}
	})
}

// add adds d to the 16 bits at an offset.
func add(b []byte, at int, d int) {
	binary.BigEndian.PutUint16(b[at:], binary.BigEndian.Uint16(b[at:])+uint16(d))
}

var _ = headers.Add("wire.drop.ip", "packets with invalid IP and UDP headers", dropIP,
	headers.Must("WIRE-Drop-18", "RoCEv2 A17.3", "IP and UDP headers",
		"A packet is dropped without an answer if its IP header has options, a wrong checksum, a protocol other than "+
			"UDP, or a length that is not that of the packet, or if its UDP header has another length or another "+
			"port."))

// badHeader is a defect of the headers before the BTH.
type badHeader struct {
	what string
	f    twist
}

func dropIP(t *validate.T) {
	p := dial(t)
	p.needEthernet()
	if !p.info.SendsHeader || !p.info.Header {
		t.Skip("the certifier cannot set the IP header of packets on this link")
	}
	four := isIPv4(p.info.GID)
	length, protocol, udp := 4, 6, ip6Len
	if four {
		length, protocol, udp = 2, 9, ip4Len
	}
	list := []badHeader{
		{"protocol 6", summed(func(b []byte) { b[protocol] = 6 })},
		{"protocol 0", summed(func(b []byte) { b[protocol] = 0 })},
		{"an IP length that is 4 less", summed(func(b []byte) { add(b, length, -4) })},
		{"an IP length that is 4 more", summed(func(b []byte) { add(b, length, 4) })},
		{"a UDP length that is 4 less", front(func(b []byte) { add(b, udp+4, -4) })},
		{"a UDP length that is 4 more", front(func(b []byte) { add(b, udp+4, 4) })},
		{"a UDP length of 0", front(func(b []byte) { b[udp+4], b[udp+5] = 0, 0 })},
		{"the UDP port after that of RoCEv2", front(func(b []byte) { add(b, udp+2, 1) })},
		{"IP and UDP lengths that are 4 less", summed(func(b []byte) { add(b, length, -4); add(b, udp+4, -4) })},
	}
	if four {
		list = append(list,
			badHeader{"a checksum that is 1 more", front(func(b []byte) { add(b, 10, 1) })},
			badHeader{"a header of 6 words", summed(func(b []byte) { b[0] = 0x46 })},
			badHeader{"a header of 4 words", summed(func(b []byte) { b[0] = 0x44 })})
	}
	for _, x := range kit.Variants(t, "", list) {
		p.ignored("a WRITE with "+x.what, wire.RCWriteOnly, x.f)
	}
	// Packets that end within the headers or behind them.
	whole := p.packet(wire.RCWriteOnly, p.bytes(16), p.reth(0, 16)).bytes(&p.info)
	for _, n := range kit.Variants(t, "bytes", []int{udp, udp + 4, udp + udpLen - 1, udp + udpLen, udp + udpLen + 1,
		udp + udpLen + wire.BTHLen, udp + udpLen + wire.BTHLen + icrcLen - 1}) {
		p.blank()
		b := append([]byte(nil), whole[:n]...)
		binary.BigEndian.PutUint16(b[length:], uint16(n))
		if !four {
			binary.BigEndian.PutUint16(b[length:], uint16(n-ip6Len))
		}
		if n >= udp+udpLen {
			binary.BigEndian.PutUint16(b[udp+4:], uint16(n-udp))
		}
		if four {
			b[10], b[11] = 0, 0
			binary.BigEndian.PutUint16(b[10:], ^sum(b[:ip4Len], 0))
		}
		t.Packet(validate.WirePacket{Time: time.Now(), Link: p.info.Link, Data: b})
		if err := p.w.Send(b); err != nil {
			t.Harness("sending %d bytes of a packet: %v", n, err)
		}
		p.barrier(fmt.Sprintf("%d bytes of a packet", n), -1)
		p.Buf.WantOnly(t, fmt.Sprintf("memory after %d bytes of a packet", n), 0, nil)
	}
}

var _ = headers.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapMulticast}).Add("wire.ud.group",
	"datagrams to multicast groups", udGroup,
	headers.Must("WIRE-Ud-09", "IBTA 10.5", "multicast; 9.6",
		"A datagram to a multicast group and to QP 0xffffff reaches each QP that is attached to the group, and no "+
			"other. On InfiniBand, a datagram to a multicast LID without a GRH, or with one that names no group, is "+
			"dropped."))

const (
	groupQPN = 0xffffff
	groupLID = ci.LID(0xc005)
)

// groupOf returns a group of the address family of an address, number n.
func groupOf(own ci.GID, link ci.Link, n byte) ci.GID {
	if link == ci.LinkEthernet && isIPv4(own) {
		return ci.GID{10: 0xff, 11: 0xff, 12: 239, 13: own[13], 14: own[14], 15: n}
	}
	return ci.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 12: 0x77, 15: n}
}

func udGroup(t *validate.T) {
	s := open(t)
	if s.info.Link == ci.LinkInfiniBand {
		s.routed()
		s.needBytes()
	} else if !s.info.SendsHeader {
		t.Skip("the certifier's end of this link does not send to groups")
	}
	p, other := s.dial(kit.Type(ci.UD)), s.dial(kit.Type(ci.UD))
	in, out := groupOf(s.local, s.info.Link, 7), groupOf(s.local, s.info.Link, 8)
	attach := func(q *peer, gid ci.GID) {
		m, err := q.AttachMcast(ci.McastAttach{GID: gid, LID: groupLID})
		kit.OK(t, err, "QP.AttachMcast")
		kit.Own(t, m, "Mcast")
	}
	attach(p, in)
	attach(other, out) // so that the port receives what is sent to the second group, too
	const n = 24
	to := func(gid ci.GID) twist {
		return func(o *outgoing) {
			o.BTH.DestQP, o.dst, o.dlid = groupQPN, gid, groupLID
			if o.grh != nil {
				o.grh.DGID = gid
			}
		}
	}
	bad := []badHeader{{"another group", to(out)}}
	if s.info.Link == ci.LinkInfiniBand {
		bad = append(bad,
			badHeader{"no GRH", func(o *outgoing) { to(in)(o); o.grh = nil }},
			badHeader{"a GRH with the port's GID", func(o *outgoing) { to(s.local)(o) }},
			badHeader{"the permissive LID", func(o *outgoing) { to(in)(o); o.dlid = 0xffff }},
			badHeader{"the port's LID", func(o *outgoing) { to(in)(o); o.dlid = s.ca.Port.LID }})
	}
	p.Recv(p.RecvWRs(8, areaLen+n)...)
	other.Recv(other.RecvWRs(8, areaLen+n)...)
	for i, x := range bad {
		p.request(wire.UDSendOnly, p.bytes(4), x.f)
		data := p.bytes(n)
		o := p.packet(wire.UDSendOnly, data, to(in))
		b := o.bytes(&p.info)
		p.put(o)
		wc := p.RecvCQ.WaitOK(uint64(i + 1))[0]
		what := "the first datagram after one with " + x.what
		kit.Equal(t, what+": Length", wc.Length, uint32(areaLen+n))
		kit.Equal(t, what+": SrcQP", uint32(wc.SrcQP), p.qpn)
		kit.Equal(t, what+": Flags", wc.Flags&ci.WCGRH, ci.WCGRH)
		at := i * (areaLen + n)
		kit.SameBytes(t, what, p.Buf.Bytes[at+areaLen:][:n], data)
		if s.info.Link == ci.LinkInfiniBand {
			kit.SameBytes(t, what+": the first 40 bytes", p.Buf.Bytes[at:at+areaLen], b[lrhLen:lrhLen+grhLen])
		}
	}
	p.RecvCQ.Empty()
	kit.Equal(t, "Length of the datagram to the other QP's group", other.RecvCQ.WaitOK(1)[0].Length, areaLen+4)
	other.RecvCQ.Empty()
}
