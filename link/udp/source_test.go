package udp

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
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/internal/rocev2"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/wire"
)

// A QP keeps its source port, and many QPs use all ports: for connections and datagrams, in trains and single packets.
func TestSourcePorts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		c  Config
		v6 bool
	}{
		"four":          {c: Config{SourcePorts: 4}},
		"portable":      {c: Config{SourcePorts: 4, Portable: true}},
		"IPv6":          {c: Config{SourcePorts: 3, Port: 4795}, v6: true},
		"IPv6 portable": {c: Config{SourcePorts: 3, Port: 4796, Portable: true}, v6: true},
		"configured":    {c: Config{SourcePorts: 4, FirstSourcePort: freePorts(t, 4)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p, to *Port
			var got *linktest.Collector
			if tt.v6 { // there is only one address: it sends to itself
				to, got = openTest6Config(t, tt.c)
				p = to
			} else {
				p, _ = openTest(t, tt.c)
				to, got = openTest(t, Config{})
			}
			require.Len(t, p.core.Sources, tt.c.SourcePorts)
			require.NotContains(t, p.core.Sources, p.core.UDP)
			if first := tt.c.FirstSourcePort; first != 0 {
				require.Equal(t, rocev2.Consecutive(first, tt.c.SourcePorts), p.core.Sources)
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
						rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: q,
							PSN: 1, N: 3, MTU: 256, Len: 600,
							Payload: [][]byte{make([]byte, 600)}, Route: rt},
						rvt.Packet{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: q,
							SrcQP: 1000 + q, PSN: 1, N: 1,
							MTU: 256, Len: 4, Payload: [][]byte{{1, 2, 3, 4}}, Route: shared})
				}
				p.Send(batch)
				seen := map[ci.QPN]uint16{}
				for _, pkt := range got.Packets(t, 4*qps) {
					require.Contains(t, p.core.Sources, pkt.Entropy)
					if before := seen[pkt.DestQP]; before != 0 {
						require.Equal(t, before, pkt.Entropy, "round %d, QP %d", round, pkt.DestQP)
					}
					seen[pkt.DestQP] = pkt.Entropy
				}
				require.Len(t, seen, qps)
				for _, port := range p.core.Sources {
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

func openTest6Config(t *testing.T, c Config) (*Port, *linktest.Collector) {
	t.Helper()
	l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, l.Close())
	c.Addr = netip.IPv6Loopback()
	return openTest(t, c)
}

// freePorts returns consecutive unused UDP ports below those that the system assigns.
func freePorts(t *testing.T, n int) uint16 {
	t.Helper()
	for try := range 100 {
		first := uint16(12000 + (os.Getpid()*64+try*n)%18000)
		p, err := New(Config{Addr: linktest.Addr(), SourcePorts: n, FirstSourcePort: first})
		if err == nil {
			require.NoError(t, p.Close())
			return first
		}
	}
	require.FailNow(t, "no free ports")
	return 0
}

// Packets to a source port are dropped and do not keep the port from sending.
func TestSourcePortsReceiveNothing(t *testing.T) {
	t.Parallel()
	for _, portable := range []bool{false, true} {
		p, got := openTest(t, Config{SourcePorts: 2, Portable: portable})
		to, arrived := openTest(t, Config{})
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.core.Addr, 0)))
		require.NoError(t, err)
		for _, port := range p.core.Sources {
			for range 100 {
				_, err := conn.WriteToUDPAddrPort(make([]byte, 1000), netip.AddrPortFrom(p.core.Addr, port))
				require.NoError(t, err)
			}
		}
		require.NoError(t, conn.Close())
		p.Send(linktest.Trains(routeTo(t, p, to))[:1])
		arrived.Packets(t, 1)
		require.Empty(t, got.Taken())
		require.Zero(t, got.Counted(rvt.DropMalformed))
	}
}

// Contradictory settings are rejected with an error that names what to change.
func TestSourcePortsRefused(t *testing.T) {
	t.Parallel()
	first := freePorts(t, 3)
	busy, _ := openTest(t, Config{Port: first + 1})
	for want, c := range map[string]Config{
		"SourcePorts is -1: want 1 to 64":      {SourcePorts: -1},
		"SourcePorts is 65: want 1 to 64":      {SourcePorts: 65},
		"packets leave from Port then":         {FirstSourcePort: 50000},
		"go beyond port 65535":                 {SourcePorts: 3, FirstSourcePort: 65534},
		"include Port 4791":                    {SourcePorts: 3, FirstSourcePort: 4790},
		"has a meaning with StrictSource only": {PeerSourcePort: 4791},
		fmt.Sprintf("source port %d (set FirstSourcePort to ", first+1): {Addr: busy.core.Addr, SourcePorts: 3,
			FirstSourcePort: first},
	} {
		if !c.Addr.IsValid() {
			c.Addr = linktest.Addr()
		}
		for _, portable := range []bool{false, true} {
			c.Portable = portable
			_, err := New(c)
			require.ErrorContains(t, err, want)
		}
	}
}

// Every operation works from several ports, between StrictSource ends, over sockets and over a network in memory.
func TestSourcePortsOperations(t *testing.T) {
	t.Parallel()
	n := sim.NewNetwork(sim.NetworkConfig{Seed: 3, Impairment: impair.Model{Drop: 0.01}})
	for name, open := range map[string]func(i byte) (rvt.Port, error){
		"UDP": func(byte) (rvt.Port, error) {
			return New(Config{Addr: linktest.Addr(), SourcePorts: 8, StrictSource: true})
		},
		"network": func(i byte) (rvt.Port, error) {
			return sim.New(n, sim.Config{Addr: netip.AddrFrom4([4]byte{10, 0, 0, i}), SourcePorts: 8,
				StrictSource: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := linktest.Open(t, ci.RC, 1<<20, testenv.Must(open(1)))
			b := linktest.Open(t, ci.RC, 1<<20, testenv.Must(open(2)))
			a.Hasty, b.Hasty = name == "network", name == "network"
			linktest.ConnectBoth(a, b)
			linktest.Exercise(t, a, b)
			for _, x := range []*linktest.Node{a, b} {
				c, ok := x.HCA.QPCounters(x.QP.Num())
				require.True(t, ok)
				require.Zero(t, c.EntropyChanges+c.WrongEntropy+c.WrongAddress+c.FarPSN)
				require.NotZero(t, c.Accepted)
			}
		})
	}
}

// An intruder is a process that can send from the peer's address, but not from its port.
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

// inject sends an RC message in one packet.
func (i *intruder) inject(to netip.Addr, qpn ci.QPN, psn uint32, data string) {
	w := wire.Packet{Payload: []byte(data)}
	op, ok := wire.Make(wire.RC, wire.OpSend, true, true, false, false)
	require.True(i.t, ok)
	w.BTH = wire.BTH{Opcode: op, PKey: 0xffff, DestQP: uint32(qpn), PSN: psn, AckReq: true, MigReq: true,
		Pad: wire.PadLen(len(data))}
	b := wire.AppendPacket(nil, &w)
	from := i.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	flow := wire.NewFlow4(from.Addr().Unmap().As4(), to.As4(), from.Port(), wire.RoCEv2Port, wire.IPv4DontFragment)
	end := len(b) - wire.ICRCLen
	flow.Start(len(b), 0).Transport(b[:end]).Put(b[end:])
	_, err := i.conn.WriteToUDPAddrPort(b, netip.AddrPortFrom(to, wire.RoCEv2Port))
	require.NoError(i.t, err)
}

// A process that sends from the peer's address and has the QPN and the PSN can inject a packet into a connection. That
// is counted and reported. With StrictSource the packet is dropped.
func TestSpoofedSource(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]Config{
		"default":    {},
		"strict":     {StrictSource: true},
		"configured": {StrictSource: true, PeerSourcePort: wire.RoCEv2Port},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reports := make(chan rvt.Suspicion, 100)
			peer, us := linktest.Addr(), linktest.Addr()
			a := linktest.Open(t, ci.RC, 1<<16, testenv.Must(New(Config{Addr: peer})))
			strict.Addr = us
			c := linktest.Config(testenv.Must(New(strict)))
			c.Ops.Suspect = func(s rvt.Suspicion) { reports <- s }
			b := linktest.OpenConfig(t, ci.RC, 1<<16, c)
			linktest.ConnectBoth(a, b)
			say := func() {
				copy(a.Buf, "a message")
				a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.SGE(0, 9)})
			}
			for k := range 3 {
				b.Recv(ci.RecvWR{ID: uint64(k), SGL: b.SGE(100*k, 100)})
			}
			say()
			a.Poll(1)
			b.Poll(1)
			newIntruder(t, peer).inject(us, b.QP.Num(), 101, "intruder")
			var s rvt.Suspicion
			select {
			case s = <-reports:
			case <-time.After(testenv.Patience):
				require.FailNow(t, "no report")
			}
			assert.Equal(t, rvt.SuspectEntropy, s.Kind)
			assert.Equal(t, b.QP.Num(), s.QPN)
			assert.NotEqual(t, uint16(wire.RoCEv2Port), s.Entropy)
			counters, _ := b.HCA.QPCounters(b.QP.Num())
			if !strict.StrictSource {
				b.Poll(1)
				assert.Equal(t, "intruder", string(b.Buf[100:108]))
				assert.EqualValues(t, 1, counters.EntropyChanges)
				assert.EqualValues(t, 1, b.HCA.Counters()["source_port_changes"])
				return
			}
			assert.EqualValues(t, 1, counters.WrongEntropy)
			assert.EqualValues(t, 1, b.HCA.Counters()["drop_source_port"])
			say()
			a.Poll(1)
			b.Poll(1)
			assert.Equal(t, "a message", string(b.Buf[100:109]))
			assert.True(t, slices.Equal(b.Buf[200:300], make([]byte, 100)))
		})
	}
}
