package chaos

import (
	"net"
	"net/netip"
	"time"

	"ciddk/wire"
)

// socketForgery sends datagrams to the HCAs on real sockets, from a socket of its own.
func (w *world) socketForgery() error {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loop2.AsSlice()})
	if err != nil {
		return err
	}
	w.start("attacker at sockets", func(a *actor) {
		defer c.Close()
		for w.ctx.Err() == nil {
			b := w.socketPacket(a, c.LocalAddr().(*net.UDPAddr).AddrPort())
			if _, err := c.WriteToUDPAddrPort(b, netip.AddrPortFrom(loop1, udpPort)); err != nil {
				w.tally.add("datagrams that the system did not send", 1)
			} else {
				w.tally.add("datagrams sent to sockets", 1)
			}
			if a.rnd.IntN(4) == 0 {
				a.pause(2 * time.Millisecond)
			}
		}
	})
	return nil
}

// socketPacket returns a packet for the HCA on loop1: random bytes, or a packet with a correct ICRC for a well-known or
// another QP.
func (w *world) socketPacket(a *actor, from netip.AddrPort) []byte {
	f := wire.Frame{IP4: wire.IPv4{TTL: 64, Protocol: wire.ProtocolUDP, Src: from.Addr().As4(), Dst: loop1.As4(),
		Frag: wire.IPv4DontFragment},
		UDP: wire.UDP{SrcPort: from.Port(), DstPort: udpPort}}
	f.Eth.EtherType = wire.EtherTypeIPv4
	p := &f.Packet
	p.BTH = wire.BTH{Opcode: wire.Opcode(a.rnd.Uint32()), PKey: 0xffff, DestQP: a.rnd.Uint32() & wire.Mask24,
		PSN: a.rnd.Uint32() & wire.Mask24}
	if !p.BTH.Opcode.Valid() || a.rnd.IntN(2) == 0 {
		p.BTH.Opcode, p.BTH.DestQP = wire.UDSendOnly, 1
		p.DETH = wire.DETH{QKey: 0x80010000, SrcQP: 1}
		p.Payload = randomMAD(a)
	} else if p.BTH.Opcode.HasPayload() {
		p.Payload = make([]byte, a.rnd.IntN(1024))
	}
	b := wire.AppendIP(nil, &f)[wire.IPv4Len+wire.UDPLen:]
	switch a.rnd.IntN(4) {
	case 0:
		b[a.rnd.IntN(len(b))] ^= byte(1 << a.rnd.IntN(8))
	case 1:
		b = b[:a.rnd.IntN(len(b)+1)]
	}
	return b
}
