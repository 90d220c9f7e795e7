package reference

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

// A QP keeps its source port, and many QPs use them all: connections and datagrams, in trains and alone.
func TestSourcePorts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		c  UDPConfig
		v6 bool
	}{
		"four":          {c: UDPConfig{SourcePorts: 4}},
		"portable":      {c: UDPConfig{SourcePorts: 4, Portable: true}},
		"IPv6":          {c: UDPConfig{SourcePorts: 3, Port: 4795}, v6: true},
		"IPv6 portable": {c: UDPConfig{SourcePorts: 3, Port: 4796, Portable: true}, v6: true},
		"configured":    {c: UDPConfig{SourcePorts: 4, FirstSourcePort: freePorts(t, 4)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p, to *udpPort
			var got *collector
			if tt.v6 { // there is one address only: it sends to itself
				to, got = openTest6Config(t, tt.c)
				p = to
			} else {
				p, _ = openTest(t, tt.c)
				to, got = openTest(t, UDPConfig{})
			}
			require.Len(t, p.sources, tt.c.SourcePorts)
			require.NotContains(t, p.sources, p.udp)
			if first := tt.c.FirstSourcePort; first != 0 {
				require.Equal(t, consecutive(first, tt.c.SourcePorts), p.sources)
			}
			shared, err := p.Route(avTo(to), rvt.Flow{Datagram: true})
			require.NoError(t, err)
			const qps = 64
			for round := range 2 {
				var batch []rvt.Packet
				for q := range ci.QPN(qps) {
					rt, err := p.Route(avTo(to), rvt.Flow{Local: 1000 + q, Remote: q})
					require.NoError(t, err)
					batch = append(batch,
						rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: q, PSN: 1, N: 3, MTU: 256, Len: 600,
							Payload: [][]byte{make([]byte, 600)}, Route: rt},
						rvt.Packet{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: q, SrcQP: 1000 + q, PSN: 1, N: 1,
							MTU: 256, Len: 4, Payload: [][]byte{{1, 2, 3, 4}}, Route: shared})
				}
				p.Send(batch)
				seen := map[ci.QPN]uint16{}
				for _, pkt := range got.packets(t, 4*qps) {
					require.Contains(t, p.sources, pkt.Entropy)
					if before := seen[pkt.DestQP]; before != 0 {
						require.Equal(t, before, pkt.Entropy, "round %d, QP %d", round, pkt.DestQP)
					}
					seen[pkt.DestQP] = pkt.Entropy
				}
				require.Len(t, seen, qps)
				for _, port := range p.sources {
					n := 0
					for _, used := range seen {
						if used == port {
							n++
						}
					}
					assert.Greater(t, n, qps/tt.c.SourcePorts/3, "QPs on port %d", port)
				}
			}
		})
	}
}

func openTest6Config(t *testing.T, c UDPConfig) (*udpPort, *collector) {
	t.Helper()
	l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, l.Close())
	c.Addr = netip.IPv6Loopback()
	return openTest(t, c)
}

// freePorts finds consecutive UDP ports that nobody has, below those that the system hands out.
func freePorts(t *testing.T, n int) uint16 {
	t.Helper()
	for try := range 100 {
		first := uint16(12000 + (os.Getpid()*64+try*n)%18000)
		p, err := openUDP(UDPConfig{Addr: testAddr(), SourcePorts: n, FirstSourcePort: first}, clock.Real())
		if err == nil {
			require.NoError(t, p.Close())
			return first
		}
	}
	require.FailNow(t, "no free ports")
	return 0
}

// What comes to a source port goes nowhere, and does not keep the port from sending.
func TestSourcePortsReceiveNothing(t *testing.T) {
	t.Parallel()
	for _, portable := range []bool{false, true} {
		p, got := openTest(t, UDPConfig{SourcePorts: 2, Portable: portable})
		to, arrived := openTest(t, UDPConfig{})
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.addr, 0)))
		require.NoError(t, err)
		for _, port := range p.sources {
			for range 100 {
				_, err := conn.WriteToUDPAddrPort(make([]byte, 1000), netip.AddrPortFrom(p.addr, port))
				require.NoError(t, err)
			}
		}
		require.NoError(t, conn.Close())
		p.Send(sampleTrains(routeTo(t, p, to))[:1])
		arrived.packets(t, 1)
		require.Empty(t, got.taken())
		require.Zero(t, got.count(rvt.DropMalformed))
	}
}

// Settings that contradict each other are refused with what to do.
func TestSourcePortsRefused(t *testing.T) {
	t.Parallel()
	first := freePorts(t, 3)
	busy, _ := openTest(t, UDPConfig{Port: first + 1})
	for want, c := range map[string]UDPConfig{
		"SourcePorts is -1: want 1 to 64":                               {SourcePorts: -1},
		"SourcePorts is 65: want 1 to 64":                               {SourcePorts: 65},
		"packets leave from Port then":                                  {FirstSourcePort: 50000},
		"go beyond port 65535":                                          {SourcePorts: 3, FirstSourcePort: 65534},
		"include Port 4791":                                             {SourcePorts: 3, FirstSourcePort: 4790},
		"has a meaning with StrictSource only":                          {PeerSourcePort: 4791},
		fmt.Sprintf("source port %d (set FirstSourcePort to ", first+1): {Addr: busy.addr, SourcePorts: 3, FirstSourcePort: first},
	} {
		if !c.Addr.IsValid() {
			c.Addr = testAddr()
		}
		for _, portable := range []bool{false, true} {
			c.Portable = portable
			_, err := openUDP(c, clock.Real())
			require.ErrorContains(t, err, want)
		}
	}
}

// Every operation works from several ports, between StrictSource ends, over sockets and over a network in memory.
func TestSourcePortsOperations(t *testing.T) {
	t.Parallel()
	n := NewNetwork(NetworkConfig{Seed: 3, Impairment: Impairment{Drop: 0.01}})
	for name, ports := range map[string][2]PortConfig{
		"UDP": {UDP(UDPConfig{Addr: testAddr(), SourcePorts: 8, StrictSource: true}), UDP(UDPConfig{Addr: testAddr(), SourcePorts: 8, StrictSource: true})},
		"virtual": {Virtual(n, VirtualConfig{Addr: virtualAddrs["IPv4"][0], SourcePorts: 8, StrictSource: true}),
			Virtual(n, VirtualConfig{Addr: virtualAddrs["IPv4"][1], SourcePorts: 8, StrictSource: true})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newNode(t, Config{Ports: ports[:1]}, ci.RC, 1<<20)
			b := newNode(t, Config{Ports: ports[1:]}, ci.RC, 1<<20)
			a.hasty, b.hasty = name == "virtual", name == "virtual"
			connectBoth(a, b)
			exercise(t, a, b)
			for _, x := range []*node{a, b} {
				c, ok := x.hca.QPCounters(x.qp.Num())
				require.True(t, ok)
				require.Zero(t, c.EntropyChanges+c.WrongEntropy+c.WrongAddress+c.FarPSN)
				require.NotZero(t, c.Accepted)
			}
		})
	}
}

// intruder is a process that may send from the peer's address, but not from its port.
type intruder struct {
	t    *testing.T
	conn *net.UDPConn
}

func newIntruder(t *testing.T, at netip.Addr) *intruder {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { assert.NoError(t, setDontFragment(fd, true)) }))
	return &intruder{t, conn}
}

// inject sends a message of RC in one packet.
func (i *intruder) inject(to netip.Addr, qpn ci.QPN, psn uint32, data string) {
	w := wire.Packet{Payload: []byte(data)}
	op, ok := wire.Make(wire.RC, wire.OpSend, true, true, false, false)
	require.True(i.t, ok)
	w.BTH = wire.BTH{Opcode: op, PKey: 0xffff, DestQP: uint32(qpn), PSN: psn, AckReq: true, MigReq: true, Pad: wire.PadLen(len(data))}
	b := wire.AppendPacket(nil, &w)
	from := i.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	flow := wire.NewFlow4(from.Addr().Unmap().As4(), to.As4(), from.Port(), wire.RoCEv2Port, wire.IPv4DontFragment)
	end := len(b) - wire.ICRCLen
	flow.Start(len(b), 0).Transport(b[:end]).Put(b[end:])
	_, err := i.conn.WriteToUDPAddrPort(b, netip.AddrPortFrom(to, wire.RoCEv2Port))
	require.NoError(i.t, err)
}

// A process that sends from the peer's address, and has the QPN and the PSN, gets into a connection: that is counted and reported. With
// StrictSource it does not get in.
func TestSpoofedSource(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]UDPConfig{
		"default":    {},
		"strict":     {StrictSource: true},
		"configured": {StrictSource: true, PeerSourcePort: wire.RoCEv2Port},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reports := make(chan rvt.Suspicion, 100)
			peer, us := testAddr(), testAddr()
			a := newNode(t, Config{Ports: []PortConfig{UDP(UDPConfig{Addr: peer})}}, ci.RC, 1<<16)
			strict.Addr = us
			b := newNode(t, Config{Ports: []PortConfig{UDP(strict)}, OnSuspicion: func(s rvt.Suspicion) { reports <- s }}, ci.RC, 1<<16)
			connectBoth(a, b)
			say := func() {
				copy(a.buf, "a message")
				a.send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.sge(0, 9)})
			}
			for k := range 3 {
				b.recv(ci.RecvWR{ID: uint64(k), SGL: b.sge(100*k, 100)})
			}
			say()
			a.poll(1)
			b.poll(1)
			newIntruder(t, peer).inject(us, b.qp.Num(), 101, "intruder")
			var s rvt.Suspicion
			select {
			case s = <-reports:
			case <-time.After(10 * time.Second):
				require.FailNow(t, "no report")
			}
			assert.Equal(t, rvt.SuspectEntropy, s.Kind)
			assert.Equal(t, b.qp.Num(), s.QPN)
			assert.NotEqual(t, uint16(wire.RoCEv2Port), s.Entropy)
			c, _ := b.hca.QPCounters(b.qp.Num())
			if !strict.StrictSource {
				b.poll(1)
				assert.Equal(t, "intruder", string(b.buf[100:108]))
				assert.EqualValues(t, 1, c.EntropyChanges)
				assert.EqualValues(t, 1, b.hca.Counters()["source_port_changes"])
				return
			}
			assert.EqualValues(t, 1, c.WrongEntropy)
			assert.EqualValues(t, 1, b.hca.Counters()["drop_source_port"])
			say()
			a.poll(1)
			b.poll(1)
			assert.Equal(t, "a message", string(b.buf[100:109]))
			assert.True(t, slices.Equal(b.buf[200:300], make([]byte, 100)))
		})
	}
}
