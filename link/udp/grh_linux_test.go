package udp

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// TestGRH compares the 40 bytes before each datagram with the IP header that a packet socket saw. As with Soft-RoCE
// (Linux 6.1, rxe_resp.c), that header is in the last 20 bytes over IPv4, after zeros. Two senders alternate, with
// different fields in each packet, and in trains that the system cuts and joins.
func TestGRH(t *testing.T) {
	if !testenv.Namespace(t, `ip link set lo up
		for i in 1 2 3; do ip addr add fd77::$i/128 dev lo; done`) {
		return
	}
	kinds := map[string]Config{"plain": {}, "portable": {Portable: true}, "privileged": {Privileged: true}}
	for _, format := range []string{"127.0.0.%d", "fd77::%d"} {
		at := func(c Config, i int) Config { c.Addr = netip.MustParseAddr(fmt.Sprintf(format, i)); return c }
		for from, source := range kinds {
			for to, sink := range kinds {
				t.Run(fmt.Sprintf(format+" %s to %s", 0, from, to), func(t *testing.T) {
					b, rb := openTest(t, at(sink, 3))
					var senders []*Port
					for i := range 2 {
						a, _ := openTest(t, at(source, i+1))
						senders = append(senders, a)
					}
					compareGRH(t, senders, b, rb)
				})
			}
		}
	}
}

// compareGRH sends datagrams, and compares their GRHs with the wire and with the fields of the route.
func compareGRH(t *testing.T, senders []*Port, b *Port, rb *linktest.Collector) {
	wired := captureHeaders(t)
	fields := []ci.GRH{{}, {TrafficClass: 0x6a, HopLimit: 17, FlowLabel: 0x12345}, {TrafficClass: 0xff, HopLimit: 255},
		{TrafficClass: 3, HopLimit: 1, FlowLabel: 1}, {TrafficClass: 0x68, HopLimit: 3}}
	routes := make([][]rvt.Route, len(senders))
	for i, a := range senders {
		for _, g := range fields {
			g.DGID = b.core.GID
			rt, err := a.Route(&ci.AVAttr{Global: true, GRH: g}, rvt.Flow{Datagram: true})
			require.NoError(t, err)
			routes[i] = append(routes[i], rt)
		}
	}
	psn := ci.PSN(0)
	datagram := func(rt rvt.Route, size int) rvt.Packet {
		psn++
		return rvt.Packet{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: 5, SrcQP: 3,
			PSN: psn, N: 1, Len: uint32(size), Payload: [][]byte{make([]byte, size)}, Route: rt}
	}
	for k := range fields { // one by one: the header of each is on the wire
		for i, a := range senders {
			for _, size := range []int{0, 1, 1000, 1024} {
				a.Send([]rvt.Packet{datagram(routes[i][k], size)})
				p := rb.Packets(t, 1)[0]
				require.Equal(t, wired(p.PSN), p.GRH, "sender %d, fields %d, %d bytes", i, k, size)
				require.Equal(t, wire.IsCE(fields[k].TrafficClass), p.CE)
			}
		}
	}
	want := map[ci.PSN]string{}
	for range 4 { // in trains
		for i, a := range senders {
			var list []rvt.Packet
			for k, g := range fields {
				for range 3 {
					p := datagram(routes[i][k], 256)
					hops := cmp.Or(g.HopLimit, rocev2.DefaultHops)
					want[p.PSN] = fmt.Sprint(a.core.Addr, g.TrafficClass, hops)
					list = append(list, p)
				}
			}
			a.Send(list)
		}
	}
	for len(want) > 0 {
		for _, p := range rb.Packets(t, 1) {
			g, err := wire.ParseGRHArea(p.GRH)
			require.NoError(t, err)
			require.Equal(t, want[p.PSN], fmt.Sprint(netip.AddrFrom16(g.SGID).Unmap(), g.TrafficClass, g.HopLimit))
			delete(want, p.PSN)
		}
	}
}

// captureHeaders returns a function that returns the area of the GRH for the packet with a PSN, from the wire.
func captureHeaders(t *testing.T) func(psn ci.PSN) []byte {
	all := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})) // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	buf := make([]byte, os.Getpagesize())
	return func(psn ci.PSN) []byte {
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			require.NoError(t, err)
			b, size := buf[:n], wire.IPv4Len
			if b[0]>>4 == 6 {
				size = wire.IPv6Len
			}
			var w wire.Packet
			if len(b) < size+wire.UDPLen || wire.ParsePacket(b[size+wire.UDPLen:], &w) != nil {
				continue
			}
			if w.BTH.PSN == uint32(psn) {
				area := make([]byte, wire.GRHAreaLen)
				copy(area[wire.GRHAreaLen-size:], b[:size])
				return area
			}
		}
	}
}
