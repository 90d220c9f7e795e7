package udp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/train"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openTest(t testing.TB, c Config) (*Port, *linktest.Collector) {
	t.Helper()
	if !c.Addr.IsValid() {
		c.Addr = linktest.Addr()
	}
	p, err := New(c)
	require.NoError(t, err)
	r := linktest.NewCollector()
	require.NoError(t, linktest.Start(p, r))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, r
}

// openTest6 opens a port at ::1, or skips the test if there is no such address.
func openTest6(t testing.TB, port uint16, portable bool) (*Port, *linktest.Collector) {
	t.Helper()
	l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, l.Close())
	return openTest(t, Config{Addr: netip.IPv6Loopback(), Port: port, Portable: portable})
}

func routeTo(t testing.TB, p, to *Port) rvt.Route {
	t.Helper()
	r, err := p.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: to.core.GID}}, rvt.Flow{})
	require.NoError(t, err)
	return r
}

var sockets = []struct {
	name     string
	portable [2]bool
}{{"fast", [2]bool{}}, {"portable", [2]bool{true, true}}, {"portable to fast", [2]bool{true, false}},
	{"fast to portable", [2]bool{false, true}}}

// Trains of every shape arrive as their packets, in order, with each kind of socket at both ends.
func TestUDPRoundTrip(t *testing.T) {
	t.Parallel()
	for _, s := range sockets {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, Config{Portable: s.portable[0]})
			b, rb := openTest(t, Config{Portable: s.portable[1]})
			checkRoundTrip(t, a, ra, b, rb)
		})
	}
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprint("IPv6 portable ", portable), func(t *testing.T) {
			// ::1 is one address, so the port sends to itself.
			port := uint16(40000 + os.Getpid()%20000)
			if portable {
				port++
			}
			p, r := openTest6(t, port, portable)
			checkRoundTrip(t, p, r, p, r)
		})
	}
}

func checkRoundTrip(t *testing.T, a *Port, ra *linktest.Collector, b *Port, rb *linktest.Collector) {
	trains := linktest.Trains(routeTo(t, a, b))
	want := linktest.Singles(t, trains, rvt.Addr{GID: a.core.GID}, rvt.Addr{GID: b.core.GID})
	a.Send(trains)
	pkts := rb.Packets(t, len(want))
	require.Equal(t, want, linktest.Singles(t, pkts, pkts[0].Src, pkts[0].Dst))
	for _, p := range pkts {
		require.Equal(t, rvt.Addr{GID: a.core.GID}, p.Src)
		require.Equal(t, rvt.Addr{GID: b.core.GID}, p.Dst)
		require.Equal(t, p.Service == wire.UD, p.GRH != nil)
		if p.GRH != nil {
			g, err := wire.ParseGRHArea(p.GRH)
			require.NoError(t, err)
			require.EqualValues(t, a.core.GID, g.SGID)
			require.EqualValues(t, b.core.GID, g.DGID)
		}
	}
	require.Empty(t, ra.Counts)
	require.Empty(t, rb.Counts)
	if _, portable := b.core.Socket.(*portableSocket); !portable {
		require.Zero(t, b.core.Stats.SolvedID.Load(), "identifications were as expected")
	}
}

// Trains arrive as trains where the system keeps them together.
func TestUDPMerges(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, Config{})
	b, rb := openTest(t, Config{})
	rt := routeTo(t, a, b)
	body := make([]byte, 10*4096)
	a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 10, MTU: 4096,
		Len: uint32(len(body)), Payload: [][]byte{body}, Route: rt, Ack: true}})
	pkts := rb.Packets(t, 10)
	if s, ok := b.core.Socket.(interface{ merging() bool }); ok && s.merging() {
		require.Len(t, pkts, 1)
		assert.EqualValues(t, 10, pkts[0].N)
		assert.EqualValues(t, 4096, pkts[0].MTU)
		assert.True(t, pkts[0].Start && pkts[0].End && pkts[0].Ack)
	}
}

func TestUDPHostile(t *testing.T) {
	t.Parallel()
	b, rb := openTest(t, Config{})
	a := linktest.Addr()
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: a.AsSlice(), Port: 4791},
		&net.UDPAddr{IP: b.core.Addr.AsSlice(), Port: 4791})
	require.NoError(t, err)
	defer conn.Close()
	// A good packet, then corrupted variants. The connected socket's identification is arbitrary, so each good packet
	// needs a computed one.
	rt := rocev2.NewRoute(netip.AddrPortFrom(a, 4791), netip.AddrPortFrom(b.core.Addr, 4791))
	c := rocev2.Cutter{Trains: []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, Len: 10,
		Payload: [][]byte{make([]byte, 10)}, Route: rt}}}
	require.True(t, c.Next())
	good := c.AppendPacket(nil, 0xbeef)
	reICRC := func(p []byte) []byte {
		rt.ICRC(len(p), 7).Transport(p[:len(p)-4]).Put(p[len(p)-4:])
		return p
	}
	for _, bad := range []struct {
		name  string
		bytes []byte
		want  rvt.Counter
	}{
		{"empty", nil, rvt.DropMalformed},
		{"short", good[:12], rvt.DropMalformed},
		{"not a multiple of 4", append(slices.Clone(good), 0), rvt.DropMalformed},
		{"payload flipped", flip(good, 13), rvt.DropICRC},
		{"ICRC flipped", flip(good, len(good)-1), rvt.DropICRC},
		{"opcode", reICRC(append([]byte{0xff}, good[1:]...)), rvt.DropMalformed},
		{"reliable datagram", reICRC(append([]byte{0x44}, good[1:]...)), rvt.DropMalformed},
		{"version", reICRC(flip(good, 1)), rvt.DropMalformed},
		{"too short for its opcode", reICRC(append([]byte{0x13}, good[1:]...)), rvt.DropMalformed},
	} {
		before := rb.Counted(bad.want)
		_, err := conn.Write(bad.bytes)
		require.NoError(t, err)
		rb.Wait(t, bad.name, func(c *linktest.Collector) bool { return c.Counts[bad.want] == before+1 })
	}
	_, err = conn.Write(good)
	require.NoError(t, err)
	pkts := rb.Packets(t, 1)
	require.Len(t, pkts, 1)
	require.EqualValues(t, 10, pkts[0].Len)
	require.EqualValues(t, 1, b.core.Stats.SolvedID.Load())
}

func flip(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 1
	return b
}

func TestUDPOpenErrors(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, Config{})
	for _, c := range []struct {
		name string
		c    Config
		say  []string
	}{
		{"no address", Config{}, []string{"Addr is not set", "127.0.0.1"}},
		{"unspecified", Config{Addr: netip.IPv4Unspecified()}, []string{"Addr is not set"}},
		{"group", Config{Addr: netip.MustParseAddr("239.1.2.3")}, []string{"multicast"}},
		{"taken", Config{Addr: a.core.Addr}, []string{"another process", "127.0.0.2", "Port", a.core.Addr.String()}},
		{"taken, portable", Config{Addr: a.core.Addr, Portable: true}, []string{"another process", "127.0.0.2"}},
		{"not ours", Config{Addr: netip.MustParseAddr("203.0.113.77")}, []string{"address of this machine"}},
		{"broadcast", Config{Addr: netip.MustParseAddr("255.255.255.255")}, []string{"broadcast", "unicast"}},
		{"link-local without zone", Config{Addr: netip.MustParseAddr("fe80::1")}, []string{"zone", "fe80::1%eth0",
			listInterfaces()}},
		{"unknown zone", Config{Addr: netip.MustParseAddr("fe80::1%nosuch")}, []string{`zone "nosuch" is no interface`,
			listInterfaces()}},
		{"unknown zone, portable", Config{Addr: netip.MustParseAddr("fe80::1%nosuch"), Portable: true},
			[]string{`zone "nosuch"`}},
		{"MTU", Config{Addr: linktest.Addr(), MTU: 6}, []string{"MTU code 6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(c.c)
			require.Error(t, err)
			for _, s := range c.say {
				assert.ErrorContains(t, err, s)
			}
		})
	}
}

func TestUDPRouteErrors(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, Config{})
	for _, c := range []struct {
		name string
		grh  ci.GRH
		want ci.Status
	}{
		{"zero", ci.GRH{}, ci.InvalidParameter},
		{"IPv6 from an IPv4 port", ci.GRH{DGID: ci.GID{0: 0xfe, 1: 0x80, 15: 1}}, ci.InvalidParameter},
		{"source index", ci.GRH{DGID: a.core.GID, SGIDIndex: 1}, ci.InvalidIndex},
	} {
		_, err := a.Route(&ci.AVAttr{Global: true, GRH: c.grh}, rvt.Flow{})
		assert.Equal(t, c.want, ci.StatusOf(err), c.name)
	}
	r, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: a.core.GID, TrafficClass: 0x6a, HopLimit: 3}},
		rvt.Flow{})
	require.NoError(t, err)
	assert.Equal(t, rvt.Addr{GID: a.core.GID}, r.Peer())
}

// Traffic class and hop limit are set per packet. Packets that differ in them do not share a message of a system call.
func TestUDPTrafficClass(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, Config{})
	b, rb := openTest(t, Config{})
	r, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: b.core.GID, TrafficClass: 0x68, HopLimit: 3}},
		rvt.Flow{})
	require.NoError(t, err)
	p := rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, Len: 4,
		Payload: [][]byte{{1, 2, 3, 4}}, Route: r}
	q := p
	q.Route = routeTo(t, a, b)
	a.Send([]rvt.Packet{p, p, q, q, p})
	require.Len(t, rb.Packets(t, 5), 5)
	require.Empty(t, ra.Counts)
}

// Within runs exactly the functions that open sockets, and its error is the error of the call.
func TestUDPWithin(t *testing.T) {
	t.Parallel()
	var ran int
	refusal := errors.New("not there")
	var answer error
	within := func(open func() error) error {
		ran++
		if answer != nil {
			return answer
		}
		return open()
	}
	for _, portable := range []bool{false, true} {
		ran, answer = 0, nil
		c := Config{Addr: netip.MustParseAddr("127.0.0.1"), Port: uint16(40000 + os.Getpid()%10000),
			Portable: portable, Within: within}
		p, err := New(c)
		require.NoError(t, err)
		require.Equal(t, 1, ran)
		group := rocev2.GIDOf(netip.MustParseAddr("239.77.1.3"))
		require.NoError(t, p.JoinGroup(group))
		require.Equal(t, 2, ran)
		require.NoError(t, p.LeaveGroup(group))
		answer = refusal
		require.ErrorIs(t, p.JoinGroup(group), refusal)
		require.Error(t, p.LeaveGroup(group), "not joined")
		require.Equal(t, 3, ran)
		require.NoError(t, p.Close())
		_, err = New(c)
		require.ErrorIs(t, err, refusal)
	}
}

func TestUDPMulticast(t *testing.T) {
	t.Parallel()
	for _, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			port := uint16(20000 + os.Getpid()%10000)
			if s.portable[0] {
				port += 10000
			}
			a, ra := openTest(t, Config{Port: port, Portable: s.portable[0]})
			b, rb := openTest(t, Config{Port: port, Portable: s.portable[0]})
			group := rocev2.GIDOf(netip.MustParseAddr("239.77.1.2"))
			require.NoError(t, b.JoinGroup(group))
			require.NoError(t, b.JoinGroup(group))
			require.NoError(t, b.LeaveGroup(group))
			rt, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: group}}, rvt.Flow{Datagram: true})
			require.NoError(t, err)
			send := func() {
				a.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, DestQP: 0xffffff,
					SrcQP: 3, QKey: 4, N: 1, Len: 4,
					Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
			}
			send()
			pkts := rb.Packets(t, 1)
			require.Len(t, pkts, 1)
			assert.EqualValues(t, 0xffffff, pkts[0].DestQP)
			assert.Equal(t, group, pkts[0].Dst.GID)
			assert.Equal(t, a.core.GID, pkts[0].Src.GID)
			require.NoError(t, a.JoinGroup(group))
			send()
			require.Len(t, rb.Packets(t, 1), 1)
			require.Len(t, ra.Packets(t, 1), 1, "the sender's own port hears it, too")
			require.NoError(t, b.LeaveGroup(group))
			require.Error(t, b.LeaveGroup(group))
			send()
			ra.Packets(t, 1)
			require.Empty(t, rb.Taken())
			require.ErrorIs(t, a.JoinGroup(b.core.GID), ci.InvalidGID)
		})
	}
}

var scopedGroups = []string{"ff12::77", "ff02::77:1", "ff11::77", "ff15::77"}

// Groups with interface scope must be bound with the interface.
func TestUDPJoin6(t *testing.T) {
	t.Parallel()
	for i, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, _ := openTest6(t, uint16(10000+i*5000+os.Getpid()%5000), s.portable[0])
			for _, group := range scopedGroups {
				gid := rocev2.GIDOf(netip.MustParseAddr(group))
				require.NoError(t, p.JoinGroup(gid), group)
				require.NoError(t, p.LeaveGroup(gid), group)
			}
			require.ErrorIs(t, p.JoinGroup(rocev2.GIDOf(netip.MustParseAddr("239.77.1.2"))), ci.InvalidGID)
		})
	}
}

// A port receives its own packets to a group that it has joined. Linux does not route IPv6 multicast over loopback, so
// this uses a link-local address of another interface, and a hop limit that keeps the packets on the link.
func TestUDPMulticast6(t *testing.T) {
	t.Parallel()
	addr := linkLocal(t)
	for i, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, r := openTest(t, Config{Addr: addr, Port: uint16(10000 + i*5000 + os.Getpid()%5000),
				Portable: s.portable[0]})
			for _, group := range scopedGroups {
				gid := rocev2.GIDOf(netip.MustParseAddr(group))
				require.NoError(t, p.JoinGroup(gid), group)
				rt, err := p.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: gid, HopLimit: 1}},
					rvt.Flow{Datagram: true})
				require.NoError(t, err, group)
				p.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, DestQP: 0xffffff,
					SrcQP: 3, QKey: 4, N: 1, Len: 4,
					Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
				pkts := r.Packets(t, 1)
				require.Len(t, pkts, 1, group)
				assert.Equal(t, gid, pkts[0].Dst.GID, group)
				assert.Equal(t, p.core.GID, pkts[0].Src.GID, group)
				require.NoError(t, p.LeaveGroup(gid), group)
			}
			require.Empty(t, r.Counts)
		})
	}
}

// linkLocal returns a link-local address with zone of an interface that is up and supports multicast, or skips the
// test.
func linkLocal(t *testing.T) netip.Addr {
	t.Helper()
	ifs, err := net.Interfaces()
	require.NoError(t, err)
	const want = net.FlagUp | net.FlagRunning | net.FlagMulticast
	for _, i := range ifs {
		if i.Flags&want != want || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		as, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range as {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
				return p.Addr().WithZone(i.Name)
			}
		}
	}
	t.Skip("no interface here has a link-local IPv6 address")
	return netip.Addr{}
}

func TestExplainDown(t *testing.T) {
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), wire.RoCEv2Port)
	failed := fmt.Errorf("IP_MULTICAST_IF: %w", errAddrNotAvail)
	for _, tt := range []struct {
		name     string
		on       iface
		say, not string
	}{
		{"down", iface{name: "lo", index: 1}, "interface lo is down", "address of this machine"},
		{"up", iface{name: "lo", index: 1, up: true}, "address of this machine", "is down"},
		{"no interface", iface{}, "address of this machine", "is down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := explainBind(failed, at, tt.on)
			require.ErrorIs(t, err, errAddrNotAvail)
			assert.ErrorContains(t, err, tt.say)
			assert.NotContains(t, err.Error(), tt.not)
		})
	}
}

func TestUDPDownAndClosed(t *testing.T) {
	t.Parallel()
	for _, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, Config{Portable: s.portable[0]})
			b, rb := openTest(t, Config{Portable: s.portable[0]})
			p := []rvt.Packet{{Service: wire.RC, Op: wire.OpAcknowledge, N: 1, Route: routeTo(t, a, b)}}
			require.NoError(t, b.Modify(ci.PortFieldShutdown, ci.PortModify{}))
			require.Equal(t, ci.PortDown, b.Attr().State)
			a.Send(p)
			rb.Wait(t, "the drop", func(c *linktest.Collector) bool { return c.Counts[rvt.DropNotForUs] == 1 })
			b.Send(p)
			require.Equal(t, 1, rb.Counted(rvt.DropSendFailed))
			b.SetLink(true)
			require.Equal(t, ci.PortActive, b.Attr().State)
			require.Equal(t, []ci.EventType{ci.EventPortDown, ci.EventPortActive}, rb.Events)
			a.Send(p)
			rb.Packets(t, 1)

			require.NoError(t, b.Modify(ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapCM | ci.PortCapSM,
				Capability: ci.PortCapCM}))
			require.Equal(t, ci.PortCapCM, b.Attr().Capability)
			require.ErrorIs(t, b.Modify(ci.PortFieldInitType, ci.PortModify{}), ci.Unsupported)

			require.NoError(t, a.Close())
			require.NoError(t, a.Close())
			a.Send(p)
			require.Equal(t, 1, ra.Counted(rvt.DropSendFailed))
			require.Error(t, a.JoinGroup(rocev2.GIDOf(netip.MustParseAddr("239.77.1.2"))))
			require.Error(t, linktest.Start(a, ra))
		})
	}
}

// Malformed trains are skipped and counted; the trains around them are sent.
func TestUDPBadTrains(t *testing.T) {
	t.Parallel()
	for _, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, Config{Portable: s.portable[0]})
			b, rb := openTest(t, Config{})
			good := rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 2, MTU: 256, Len: 300,
				Payload: [][]byte{make([]byte, 512)}, Route: routeTo(t, a, b)}
			batch := []rvt.Packet{good}
			for _, f := range []func(p *rvt.Packet){
				func(p *rvt.Packet) { p.N = 0 }, func(p *rvt.Packet) { p.N = 4 }, func(p *rvt.Packet) { p.MTU = 0 },
				func(p *rvt.Packet) { p.MTU = 258 }, func(p *rvt.Packet) { p.Len = 513 },
				func(p *rvt.Packet) { p.Len = 600 },
				func(p *rvt.Packet) { p.Route = nil }, func(p *rvt.Packet) { p.Op = wire.OpNone },
				func(p *rvt.Packet) { p.Service = wire.UD },
				func(p *rvt.Packet) { p.Payload = nil },
			} {
				p := good
				f(&p)
				batch = append(batch, p)
			}
			batch = append(batch, good)
			a.Send(batch)
			pkts := rb.Packets(t, 4)
			require.Equal(t, 4, train.Count(pkts))
			require.Equal(t, 1+4+8*2, ra.Counted(rvt.DropSendFailed))
		})
	}
}

// Random batches from many goroutines all arrive.
func TestUDPConcurrentSenders(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, Config{})
	b, rb := openTest(t, Config{})
	rt := routeTo(t, a, b)
	const senders, batches = 4, 30
	total := 0
	var wg sync.WaitGroup
	for g := range senders {
		rnd := rand.New(rand.NewPCG(1, uint64(g)))
		var work [][]rvt.Packet
		for range batches {
			var pkts []rvt.Packet
			for range 1 + rnd.IntN(8) {
				n := 1 + rnd.IntN(6)
				size := (n-1)*256 + 1 + rnd.IntN(256)
				pkts = append(pkts, rvt.Packet{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true,
					DestQP: ci.QPN(g), N: uint32(n),
					MTU: 256, Len: uint32(size), Payload: [][]byte{make([]byte, size)}, Route: rt})
				total += n
			}
			work = append(work, pkts)
		}
		wg.Go(func() {
			for _, w := range work {
				a.Send(w)
			}
		})
	}
	wg.Wait()
	rb.Packets(t, total)
	require.Empty(t, ra.Counts)
	require.Empty(t, rb.Counts)
}
