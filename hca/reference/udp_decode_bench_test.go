package reference

import (
	"net/netip"
	"testing"

	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

// discard is a Receiver that counts packets.
type discard struct {
	collector
	packets int
}

func (d *discard) Deliver(pkts []rvt.Packet, _, _ bool) { d.packets += packetCount(pkts) }

// BenchmarkUDPDecode: datagrams of 64 bytes payload, from peers of each habit, through the decoder alone.
func BenchmarkUDPDecode(b *testing.B) {
	dst := netip.MustParseAddrPort("127.0.0.2:4791")
	for _, bb := range []struct {
		name  string
		peers int
		id    func(i int) uint16
	}{
		{"ours", 1, func(int) uint16 { return 0 }},
		{"ours, 8 peers in turn", 8, func(int) uint16 { return 0 }},
		{"Linux", 1, func(i int) uint16 { return uint16(1000 + i%32) }},
		{"Linux, 8 peers in turn", 8, func(i int) uint16 { return uint16(1000 + i/8%32) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := &discard{}
			port := &udpPort{recv: r, addr: dst.Addr(), clock: clock.Real()}
			port.state.Store(4)
			d := newDecoder(port)
			var src []netip.AddrPort
			var pkts [][]byte
			for i := range 1024 {
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i%bb.peers)}), 0xc000)
				rt := &udpRoute{dst: dst, flow4: wire.NewFlow4(from.Addr().As4(), dst.Addr().As4(), from.Port(), dst.Port(), wire.IPv4DontFragment)}
				c := cutter{pkts: []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, Len: 64, Payload: [][]byte{make([]byte, 64)}, Route: rt}}}
				c.next()
				src, pkts = append(src, from), append(pkts, c.appendPacket(nil, bb.id(i)))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.datagram(src[i%1024], dst, pkts[i%1024], 0)
				if i%16 == 15 {
					d.deliver()
				}
			}
			d.deliver()
			if r.packets < b.N {
				b.Fatalf("%d of %d packets passed", r.packets, b.N)
			}
		})
	}
}
