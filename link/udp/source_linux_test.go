package udp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/wire"
)

// spoof sends from a port with another source address of this machine, as any program on Linux can.
func spoof(t *testing.T, from netip.AddrPort, source, to netip.Addr, data []byte) error {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(from))
	if err != nil {
		return err
	}
	var o osRoute
	o.setSource(source, 0)
	_, _, err = conn.WriteMsgUDPAddrPort(data, o.ctl[:o.nctl], netip.AddrPortFrom(to, wire.RoCEv2Port))
	require.NoError(t, err)
	return conn.Close()
}

// A program can send with the HCA's source address from a port of its own, but cannot get the ports of SourcePorts.
func TestSourcePortsAreOurs(t *testing.T) {
	t.Parallel()
	p, _ := openTest(t, Config{SourcePorts: 2})
	to, got := openTest(t, Config{})
	for _, port := range p.core.Sources {
		require.ErrorIs(t, spoof(t, netip.AddrPortFrom(linktest.Addr(), port), p.core.Addr, to.core.Addr, nil),
			unix.EADDRINUSE)
	}
	w := wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff, DestQP: 0x1234, PSN: 1}}
	b := wire.AppendPacket(nil, &w)
	flow := wire.NewFlow4(p.core.Addr.As4(), to.core.Addr.As4(), wire.RoCEv2Port, wire.RoCEv2Port,
		wire.IPv4DontFragment)
	end := len(b) - wire.ICRCLen
	flow.Start(len(b), 0).Transport(b[:end]).Put(b[end:])
	require.NoError(t, spoof(t, netip.AddrPortFrom(linktest.Addr(), wire.RoCEv2Port), p.core.Addr, to.core.Addr, b))
	pkt := got.Packets(t, 1)[0]
	assert.Equal(t, p.core.GID, pkt.Src.GID)
	assert.EqualValues(t, wire.RoCEv2Port, pkt.Entropy)
	assert.Equal(t, ci.QPN(0x1234), pkt.DestQP)
	assert.NotContains(t, p.core.Sources, pkt.Entropy)
}
