package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
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
	openTest6(t, uint16(20000+os.Getpid()%5000), false) // skips where there is no IPv6
	p, r := openTest(t, Config{Addr: netip.IPv6Loopback(), Port: uint16(26000 + os.Getpid()%5000), Privileged: true})
	p.Send(append(labelled(t, p, 0x12345), labelled(t, p, 0xfedcb)...))
	for i, want := range []uint32{0x12345, 0xfedcb} {
		r.Wait(t, "datagrams", func(c *linktest.Collector) bool { return len(c.Pkts) == 2 })
		require.Equal(t, 6<<28|0x28<<20|want, binary.BigEndian.Uint32(r.Pkts[i].GRH))
	}
}
