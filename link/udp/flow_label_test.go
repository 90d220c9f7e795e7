package udp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// labelled is a datagram from a port to itself with a flow label.
func labelled(t *testing.T, p *Port, label uint32) []rvt.Packet {
	rt, err := p.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: p.core.GID, FlowLabel: label,
		TrafficClass: 0x28}}, rvt.Flow{Datagram: true})
	require.NoError(t, err)
	return []rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: 5, SrcQP: 6,
		N: 1, MTU: 1024, Len: 4,
		Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}}
}

// TestFlowLabel checks that GRH.FlowLabel is the flow label of the IPv6 header, and that datagrams with different
// labels are not sent in one train.
func TestFlowLabel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux sends flow labels, and shows them")
	}
	p, r := openTest6(t, uint16(20000+os.Getpid()%5000), false)
	p.Send(append(labelled(t, p, 0x12345), labelled(t, p, 0xfedcb)...))
	for i, want := range []uint32{0x12345, 0xfedcb} {
		r.Wait(t, "datagrams", func(c *linktest.Collector) bool { return len(c.Pkts) == 2 })
		require.Equal(t, 6<<28|0x28<<20|want, binary.BigEndian.Uint32(r.Pkts[i].GRH))
	}
}

// TestHeaderFields checks that the traffic class and the hop limit of a path are those of the IP header, and that a
// datagram is received with them, with each kind of socket at both ends, also from a group, and one at a time.
func TestHeaderFields(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not all systems pass traffic class and hop limit of what they receive")
	}
	fields := []struct{ class, hops uint8 }{{0xfc, 33}, {0, 64}, {0x6a, 1}, {0x6a, 255}, {0, 0}}
	check := func(t *testing.T, a, b *Port, r *linktest.Collector, to netip.Addr) {
		for _, f := range fields {
			want := f.hops
			if want == 0 {
				want = rocev2.DefaultHops
			}
			rt, err := a.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: rocev2.GIDOf(to),
				TrafficClass: f.class,
				HopLimit:     f.hops}}, rvt.Flow{Datagram: true})
			require.NoError(t, err)
			a.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: 5,
				SrcQP: 6, N: 1, MTU: 1024, Len: 4, Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
			p := r.Packets(t, 1)[0]
			g, err := wire.ParseGRHArea(p.GRH)
			require.NoError(t, err)
			require.Equal(t, [2]uint8{f.class, want}, [2]uint8{g.TrafficClass, g.HopLimit}, "%+v", f)
			frame := b.EncodeFrame(rvt.Received, &p)
			if to.Is4() {
				require.Equal(t, [2]uint8{f.class, want}, [2]uint8{frame[1], frame[8]}, "captured")
			}
		}
	}
	for _, s := range sockets {
		t.Run(s.name, func(t *testing.T) {
			a, _ := openTest(t, Config{Portable: s.portable[0]})
			b, rb := openTest(t, Config{Portable: s.portable[1]})
			check(t, a, b, rb, b.core.Addr)
			group := netip.AddrFrom4([4]byte{239, 7, byte(os.Getpid() >> 8), byte(os.Getpid())})
			b, rb = openTest(t, Config{Portable: s.portable[1]})
			require.NoError(t, b.JoinGroup(rocev2.GIDOf(group)))
			check(t, a, b, rb, group)
		})
	}
	for i, portable := range []bool{false, true} {
		t.Run(fmt.Sprint("IPv6 portable ", portable), func(t *testing.T) {
			p, r := openTest6(t, uint16(26000+i+os.Getpid()%5000), portable)
			check(t, p, p, r, netip.IPv6Loopback())
		})
	}
}
