package rocev2

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// Packets that differ in one field are not merged.
func TestMergeRules(t *testing.T) {
	t.Parallel()
	base := rvt.Packet{Service: wire.RC, Op: wire.OpSend, PKey: 0xffff, DestQP: 5, PSN: 100, N: 1, MTU: 256, Len: 256,
		Payload: [][]byte{make([]byte, 256)}}
	for _, c := range []struct {
		name  string
		first func(p *rvt.Packet)
		next  func(p *rvt.Packet)
		want  int
	}{
		{"middles", nil, nil, 1},
		{"first and last", func(p *rvt.Packet) { p.Start = true }, func(p *rvt.Packet) {
			p.End, p.Len,
				p.HasImm = true, 1, true
		}, 1},
		{"gap", nil, func(p *rvt.Packet) { p.PSN++ }, 2},
		{"same PSN", nil, func(p *rvt.Packet) { p.PSN-- }, 2},
		{"another QP", nil, func(p *rvt.Packet) { p.DestQP++ }, 2},
		{"another P_Key", nil, func(p *rvt.Packet) { p.PKey = 1 }, 2},
		{"another service", nil, func(p *rvt.Packet) { p.Service = wire.UC }, 2},
		{"another operation", nil, func(p *rvt.Packet) { p.Op = wire.OpWrite }, 2},
		{"ack in between", func(p *rvt.Packet) { p.Ack = true }, nil, 2},
		{"solicited in between", func(p *rvt.Packet) { p.SE = true }, nil, 2},
		{"migration", nil, func(p *rvt.Packet) { p.MigReq = true }, 2},
		{"message ended", func(p *rvt.Packet) { p.End = true }, nil, 2},
		{"message starts", nil, func(p *rvt.Packet) { p.Start = true }, 2},
		{"longer", nil, func(p *rvt.Packet) { p.Len, p.Payload = 260, [][]byte{make([]byte, 260)} }, 2},
		{"short middle", nil, func(p *rvt.Packet) { p.Len = 8 }, 2},
		{"empty last", nil, func(p *rvt.Packet) { p.Len, p.End = 0, true }, 2},
		{"response", func(p *rvt.Packet) { p.Op, p.Start = wire.OpReadResponse, true },
			func(p *rvt.Packet) { p.Op, p.End = wire.OpReadResponse, true }, 1},
		{"response without an ACK",
			func(p *rvt.Packet) { p.Op, p.Start, p.Syndrome = wire.OpReadResponse, true, wire.NAKRemoteAccess },
			func(p *rvt.Packet) { p.Op, p.End = wire.OpReadResponse, true }, 2},
		{"odd size", func(p *rvt.Packet) { p.Len = 255 }, func(p *rvt.Packet) { p.Len = 255 }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port, r := bareDecoder(t)
			src, dst := netip.MustParseAddrPort("127.0.0.1:4791"), netip.MustParseAddrPort("127.0.0.2:4791")
			rt := NewRoute(src, dst)
			p, q := base, base
			q.PSN++
			if c.first != nil {
				c.first(&p)
			}
			if c.next != nil {
				c.next(&q)
			}
			p.Route, q.Route = rt, rt
			d := NewDecoder(port, true)
			cut := Cutter{Trains: []rvt.Packet{p, q}}
			for cut.Next() {
				d.Datagram(src, dst, cut.AppendPacket(nil, 0), 0)
			}
			d.Deliver()
			require.Zero(t, cut.Bad)
			require.Len(t, r.Taken(), c.want)
		})
	}
}

// bareDecoder returns the decoder of a port without a socket.
func bareDecoder(testing.TB) (*Port, *linktest.Collector) {
	r := linktest.NewCollector()
	p := &Port{Receiver: r, Addr: netip.AddrFrom4([4]byte{127, 0, 0, 2}), Clock: clock.Real()}
	p.Up()
	return p, r
}

// Packets of Linux Soft-RoCE, received by a socket that hides the IPv4 identification.
func TestGolden(t *testing.T) {
	t.Parallel()
	port, r := bareDecoder(t)
	n := 0
	for _, ip := range linktest.GoldenPackets(t) {
		src, dst, udp := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), ip[20:]
		if ip[0]>>4 == 6 {
			src, dst, udp = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40])), ip[40:]
		}
		port.Addr = dst
		d := NewDecoder(port, true) // the packets were sent at many different times
		d.Datagram(netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp)), netip.AddrPortFrom(dst, 4791), udp[8:], 0)
		d.Deliver()
		n++
		if pkts := r.Taken(); assert.Len(t, pkts, 1) {
			assert.Equal(t, GIDOf(src), pkts[0].Src.GID)
		}
	}
	assert.Equal(t, 58, n)
	assert.Empty(t, r.Counts)
	assert.Positive(t, port.Stats.SolvedID.Load())
}

// FuzzDatagram checks that every packet from the network is delivered or counted, without a panic.
func FuzzDatagram(f *testing.F) {
	for _, ip := range linktest.GoldenPackets(f) {
		f.Add(ip[28:], uint16(0), true)
		f.Add(ip[28:], uint16(40), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, seg uint16, repair bool) {
		port, r := bareDecoder(t)
		src, dst := netip.MustParseAddrPort("127.0.0.1:4791"), netip.MustParseAddrPort("127.0.0.2:4791")
		if repair && len(b) >= 16 && len(b)%4 == 0 {
			// Without right ICRCs, the fuzzer would see little else.
			fl := wire.NewFlow4(src.Addr().As4(), dst.Addr().As4(), 4791, 4791, wire.IPv4DontFragment)
			fl.Start(len(b), 0).Transport(b[:len(b)-4]).Put(b[len(b)-4:])
		}
		d := NewDecoder(port, true)
		d.Datagram(src, dst, b, int(seg))
		d.Deliver()
		size := int(seg)
		if size == 0 || size > len(b) {
			size = len(b)
		}
		want := 1
		if len(b) > 0 {
			want = (len(b) + size - 1) / size
		}
		got := train.Count(r.Taken())
		for _, n := range r.Counts {
			got += n
		}
		require.Equal(t, want, got)
	})
}

// TestNodeGUID checks that the suggested GUID depends on address and port.
func TestNodeGUID(t *testing.T) {
	guids := map[ci.GUID]bool{}
	for _, a := range []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("fd00::1"),
		netip.MustParseAddr("127.0.0.1")} {
		for _, port := range []uint16{1, 2} {
			guids[NodeGUID(a, port)] = true
		}
	}
	require.Len(t, guids, 6)
}
