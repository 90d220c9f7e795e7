package rocev2

import (
	"net/netip"
	"testing"

	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// discard is a Receiver that counts packets.
type discard struct {
	linktest.Collector
	packets int
}

func (d *discard) Deliver(pkts []rvt.Packet, _, _ bool) { d.packets += train.Count(pkts) }

// BenchmarkDecode decodes datagrams of 64 bytes payload from peers with each kind of idHistory.
func BenchmarkDecode(b *testing.B) {
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
			port := &Port{Receiver: r, Addr: dst.Addr(), Clock: clock.Real()}
			port.Up()
			d := NewDecoder(port, true)
			var src []netip.AddrPort
			var pkts [][]byte
			for i := range 1024 {
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i%bb.peers)}), 0xc000)
				rt := NewRoute(from, dst)
				c := Cutter{Trains: []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1,
					Len: 64, Payload: [][]byte{make([]byte, 64)}, Route: rt}}}
				c.Next()
				src, pkts = append(src, from), append(pkts, c.AppendPacket(nil, bb.id(i)))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.Datagram(src[i%1024], dst, pkts[i%1024], 0)
				if i%16 == 15 {
					d.Deliver()
				}
			}
			d.Deliver()
			if r.packets < b.N {
				b.Fatalf("%d of %d packets passed", r.packets, b.N)
			}
		})
	}
}
