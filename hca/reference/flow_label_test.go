package reference

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

// labelled is a datagram from a port to itself with a flow label.
func labelled(t *testing.T, p *udpPort, label uint32) []rvt.Packet {
	rt, err := p.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: p.gid, FlowLabel: label, TrafficClass: 0x28}}, rvt.Flow{Datagram: true})
	require.NoError(t, err)
	return []rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: 5, SrcQP: 6, N: 1, MTU: 1024, Len: 4,
		Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}}
}

// TestFlowLabel: over IPv6, GRH.FlowLabel is the label of the IP header. Datagrams of different labels do not travel in one train.
func TestFlowLabel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux sends flow labels, and shows them")
	}
	openTest6(t, uint16(20000+os.Getpid()%5000), false) // skips where there is no IPv6
	p, r := openTest(t, UDPConfig{Addr: netip.IPv6Loopback(), Port: uint16(26000 + os.Getpid()%5000), Privileged: true})
	p.Send(append(labelled(t, p, 0x12345), labelled(t, p, 0xfedcb)...))
	for i, want := range []uint32{0x12345, 0xfedcb} {
		r.wait(t, "datagrams", func(c *collector) bool { return len(c.pkts) == 2 })
		require.Equal(t, 6<<28|0x28<<20|want, binary.BigEndian.Uint32(r.pkts[i].GRH))
	}
}

// TestFlowLabelVirtual: so it is on a network in memory.
func TestFlowLabelVirtual(t *testing.T) {
	v := clock.NewVirtual(0)
	var first uint32
	n := NewNetwork(NetworkConfig{Clock: v, Watch: func(d *Datagram) { first = binary.BigEndian.Uint32(d.Data) }})
	port, err := openVirtual(n, VirtualConfig{Addr: netip.MustParseAddr("fd00::1")})
	require.NoError(t, err)
	defer port.Close()
	require.NoError(t, port.Start(newCollector()))
	port.Send(labelled(t, port.(*udpPort), 0x12345))
	require.EqualValues(t, 0x62812345, first)
}
