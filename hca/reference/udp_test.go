package reference

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a Receiver that keeps copies of what it gets.
type collector struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	pkts    []rvt.Packet
	counts  map[rvt.Counter]int
	events  []ci.EventType
	polled  int
	flushes atomic.Int64
	each    func() // called for each delivery first; set before packets come
}

func newCollector() *collector {
	return &collector{changed: make(chan struct{}), counts: map[rvt.Counter]int{}}
}

func (c *collector) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *collector) Deliver(pkts []rvt.Packet, _, polled bool) {
	if c.each != nil {
		c.each()
	}
	c.note(func() {
		for _, p := range pkts {
			p.Payload = [][]byte{bytes.Join(p.Payload, nil)}
			p.GRH = slices.Clone(p.GRH)
			c.pkts = append(c.pkts, p)
			if polled {
				c.polled++
			}
		}
	})
}

func (c *collector) FlushAcks()                 { c.flushes.Add(1) }
func (c *collector) PortEvent(t ci.EventType)   { c.note(func() { c.events = append(c.events, t) }) }
func (c *collector) Count(k rvt.Counter, n int) { c.note(func() { c.counts[k] += n }) }
func (c *collector) count(k rvt.Counter) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[k]
}
func (c *collector) taken() (pkts []rvt.Packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pkts, c.pkts = c.pkts, nil
	return pkts
}

// wait returns when cond holds, which it looks at after every change.
func (c *collector) wait(t testing.TB, what string, cond func(c *collector) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		c.mu.Lock()
		ok, ch := cond(c), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-ch:
		case <-deadline:
			c.mu.Lock()
			defer c.mu.Unlock()
			require.FailNow(t, "timeout", "waiting for %s; got %d packets, counts %v", what, len(c.pkts), c.counts)
		}
	}
}

// packets waits until so many wire packets have come and takes them.
func (c *collector) packets(t testing.TB, n int) []rvt.Packet {
	t.Helper()
	c.wait(t, fmt.Sprint(n, " packets"), func(c *collector) bool { return packetCount(c.pkts) >= n })
	return c.taken()
}

var lastAddr atomic.Uint32

// testAddr is a loopback address that no other test, and no other run, uses.
func testAddr() netip.Addr {
	n := uint32(os.Getpid())<<9 + lastAddr.Add(1)
	return netip.AddrFrom4([4]byte{127, byte(1 + n>>16%250), byte(n >> 8), byte(1 + n%250)})
}

func openTest(t testing.TB, c UDPConfig) (*udpPort, *collector) {
	t.Helper()
	if !c.Addr.IsValid() {
		c.Addr = testAddr()
	}
	p, err := openUDP(c, clock.Real())
	require.NoError(t, err)
	r := newCollector()
	require.NoError(t, p.Start(r))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p.(*udpPort), r
}

// openTest6 opens ::1, or skips the test where there is no such address.
func openTest6(t testing.TB, port uint16, portable bool) (*udpPort, *collector) {
	t.Helper()
	l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, l.Close())
	return openTest(t, UDPConfig{Addr: netip.IPv6Loopback(), Port: port, Portable: portable})
}

func routeTo(t testing.TB, p, to *udpPort) rvt.Route {
	t.Helper()
	r, err := p.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: to.gid}}, rvt.Flow{})
	require.NoError(t, err)
	return r
}

// sampleTrains is one train for every shape that the engine sends; MTU 256.
func sampleTrains(rt rvt.Route) []rvt.Packet {
	body := func(n int) [][]byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7)
		}
		return [][]byte{b[:n/3], b[n/3 : n/2], {}, b[n/2:]}
	}
	const mtu = 256
	p := func(s wire.Service, op wire.Op, n, size int, f func(p *rvt.Packet)) rvt.Packet {
		p := rvt.Packet{Service: s, Op: op, Start: true, End: true, PKey: 0xffff, DestQP: 0x123456, PSN: 0xfffffe, N: uint32(n), MTU: mtu,
			Len: uint32(size), Payload: body(size), Route: rt}
		if f != nil {
			f(&p)
		}
		return p
	}
	reth := func(p *rvt.Packet) { p.VA, p.RKey, p.DMALen = 0x1122334455667788, 0x99aabbcc, p.Len }
	aeth := func(p *rvt.Packet) { p.Syndrome, p.MSN = wire.ACK(31), 77 }
	return []rvt.Packet{
		p(wire.RC, wire.OpSend, 1, 0, nil),
		p(wire.RC, wire.OpSend, 1, 5, func(p *rvt.Packet) { p.HasImm, p.Imm, p.SE, p.Ack = true, 0x01020304, true, true }),
		p(wire.RC, wire.OpSend, 1, 64, func(p *rvt.Packet) { p.HasInv, p.Inv, p.MigReq = true, 0xcafe, true }),
		p(wire.RC, wire.OpSend, 5, 4*mtu+3, func(p *rvt.Packet) { p.Ack = true }),
		p(wire.RC, wire.OpSend, 3, 3*mtu, func(p *rvt.Packet) { p.HasImm, p.Imm = true, 9 }),
		p(wire.RC, wire.OpSend, 2, 2*mtu, func(p *rvt.Packet) { p.Start, p.End = false, false }),
		p(wire.RC, wire.OpWrite, 1, 7, reth),
		p(wire.RC, wire.OpWrite, 70, 69*mtu+1, reth),
		p(wire.RC, wire.OpWrite, 4, 4*mtu, func(p *rvt.Packet) { p.Start, p.HasImm, p.Imm, p.SE = false, true, 3, true }),
		p(wire.RC, wire.OpReadRequest, 1, 0, func(p *rvt.Packet) { reth(p); p.DMALen = 1 << 30 }),
		p(wire.RC, wire.OpReadResponse, 1, 9, aeth),
		p(wire.RC, wire.OpReadResponse, 3, 3*mtu, aeth),
		p(wire.RC, wire.OpReadResponse, 3, 2*mtu+8, func(p *rvt.Packet) { aeth(p); p.Start = false }),
		p(wire.RC, wire.OpAcknowledge, 1, 0, aeth),
		p(wire.RC, wire.OpAtomicAcknowledge, 1, 0, func(p *rvt.Packet) { aeth(p); p.Swap = 0xfedcba9876543210 }),
		p(wire.RC, wire.OpCompareSwap, 1, 0, func(p *rvt.Packet) { p.VA, p.RKey, p.Swap, p.Compare = 8, 9, 10, 11 }),
		p(wire.RC, wire.OpFetchAdd, 1, 0, func(p *rvt.Packet) { p.VA, p.RKey, p.Swap = 8, 9, 10 }),
		p(wire.UC, wire.OpSend, 2, mtu+4, nil),
		p(wire.UC, wire.OpWrite, 3, 2*mtu+1, reth),
		p(wire.UD, wire.OpSend, 1, 100, func(p *rvt.Packet) { p.SrcQP, p.QKey, p.HasImm, p.Imm = 0x654321, 0x80010000, true, 5 }),
		p(wire.UD, wire.OpSend, 1, 0, func(p *rvt.Packet) { p.SrcQP, p.QKey = 1, 2 }),
	}
}

// single is one packet of a train in a form to compare.
type single struct {
	Opcode            wire.Opcode
	SE, Ack, MigReq   bool
	PKey              ci.PKey
	DestQP, SrcQP     ci.QPN
	QKey              ci.QKey
	PSN               ci.PSN
	VA, Swap, Compare uint64
	RKey, Inv         ci.Key
	DMALen, MSN, Imm  uint32
	Syndrome          wire.Syndrome
	Payload           string
	Src, Dst          rvt.Addr
}

// singles cuts trains to packets by their definition, not by the code under test.
func singles(t testing.TB, pkts []rvt.Packet, src, dst rvt.Addr) (out []single) {
	t.Helper()
	for _, p := range pkts {
		body := bytes.Join(p.Payload, nil)[:p.Len]
		for k := range p.N {
			last := k == p.N-1
			n := int(p.MTU)
			if last {
				n = len(body)
			}
			op, ok := wire.Make(p.Service, p.Op, p.Start && k == 0, p.End && last, p.HasImm && last, p.HasInv && last)
			require.True(t, ok)
			s := single{Opcode: op, MigReq: p.MigReq, PKey: p.PKey, DestQP: p.DestQP, PSN: ci.PSN((uint32(p.PSN) + k) & 0xffffff),
				SE: p.SE && last, Ack: p.Ack && last, Payload: string(body[:n]), Src: src, Dst: dst}
			body = body[n:]
			if op.HasDETH() {
				s.SrcQP, s.QKey = p.SrcQP, p.QKey
			}
			if op.HasRETH() {
				s.VA, s.RKey, s.DMALen = p.VA, p.RKey, p.DMALen
			}
			if op.HasAtomicETH() {
				s.VA, s.RKey, s.Swap, s.Compare = p.VA, p.RKey, p.Swap, p.Compare
			}
			if op.HasAETH() {
				s.Syndrome, s.MSN = p.Syndrome, p.MSN
			}
			if op.HasAtomicAckETH() {
				s.Swap = p.Swap
			}
			if op.HasImm() {
				s.Imm = p.Imm
			}
			if op.HasIETH() {
				s.Inv = p.Inv
			}
			out = append(out, s)
		}
		require.Empty(t, body)
	}
	return out
}

var sockets = []struct {
	name     string
	portable [2]bool
}{{"fast", [2]bool{}}, {"portable", [2]bool{true, true}}, {"portable to fast", [2]bool{true, false}}, {"fast to portable", [2]bool{false, true}}}

// Everything that a train can be comes out as its packets, in order, whichever kinds of socket are at the ends.
func TestUDPRoundTrip(t *testing.T) {
	t.Parallel()
	for _, s := range sockets {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, UDPConfig{Portable: s.portable[0]})
			b, rb := openTest(t, UDPConfig{Portable: s.portable[1]})
			checkRoundTrip(t, a, ra, b, rb)
		})
	}
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprint("IPv6 portable ", portable), func(t *testing.T) {
			// ::1 is one address, so the port talks to itself.
			port := uint16(40000 + os.Getpid()%20000)
			if portable {
				port++
			}
			p, r := openTest6(t, port, portable)
			checkRoundTrip(t, p, r, p, r)
		})
	}
}

func checkRoundTrip(t *testing.T, a *udpPort, ra *collector, b *udpPort, rb *collector) {
	trains := sampleTrains(routeTo(t, a, b))
	want := singles(t, trains, rvt.Addr{GID: a.gid}, rvt.Addr{GID: b.gid})
	a.Send(trains)
	pkts := rb.packets(t, len(want))
	require.Equal(t, want, singles(t, pkts, pkts[0].Src, pkts[0].Dst))
	for _, p := range pkts {
		require.Equal(t, rvt.Addr{GID: a.gid}, p.Src)
		require.Equal(t, rvt.Addr{GID: b.gid}, p.Dst)
		require.Equal(t, p.Service == wire.UD, p.GRH != nil)
		if p.GRH != nil {
			g, err := wire.ParseGRHArea(p.GRH)
			require.NoError(t, err)
			require.EqualValues(t, a.gid, g.SGID)
			require.EqualValues(t, b.gid, g.DGID)
		}
	}
	require.Empty(t, ra.counts)
	require.Empty(t, rb.counts)
	if _, portable := b.sock.(*portableSocket); !portable {
		require.Zero(t, b.stats.solvedID.Load(), "identifications were as expected")
	}
}

// Trains come out as trains where the system keeps them together.
func TestUDPMerges(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, UDPConfig{})
	b, rb := openTest(t, UDPConfig{})
	rt := routeTo(t, a, b)
	body := make([]byte, 10*4096)
	a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 10, MTU: 4096, Len: uint32(len(body)), Payload: [][]byte{body}, Route: rt, Ack: true}})
	pkts := rb.packets(t, 10)
	if s, ok := b.sock.(interface{ merging() bool }); ok && s.merging() {
		require.Len(t, pkts, 1)
		assert.EqualValues(t, 10, pkts[0].N)
		assert.EqualValues(t, 4096, pkts[0].MTU)
		assert.True(t, pkts[0].Start && pkts[0].End && pkts[0].Ack)
	}
}

// What must not be merged is not: every pair differs in one thing.
func TestUDPMergeRules(t *testing.T) {
	t.Parallel()
	base := rvt.Packet{Service: wire.RC, Op: wire.OpSend, PKey: 0xffff, DestQP: 5, PSN: 100, N: 1, MTU: 256, Len: 256, Payload: [][]byte{make([]byte, 256)}}
	for _, c := range []struct {
		name  string
		first func(p *rvt.Packet)
		next  func(p *rvt.Packet)
		want  int
	}{
		{"middles", nil, nil, 1},
		{"first and last", func(p *rvt.Packet) { p.Start = true }, func(p *rvt.Packet) { p.End, p.Len, p.HasImm = true, 1, true }, 1},
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
		{"odd size", func(p *rvt.Packet) { p.Len = 255 }, func(p *rvt.Packet) { p.Len = 255 }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port, r := bareDecoder(t)
			rt := &udpRoute{}
			src, dst := netip.MustParseAddrPort("127.0.0.1:4791"), netip.MustParseAddrPort("127.0.0.2:4791")
			rt.dst, rt.flow4 = dst, wire.NewFlow4(src.Addr().As4(), dst.Addr().As4(), 4791, 4791, wire.IPv4DontFragment)
			p, q := base, base
			q.PSN++
			if c.first != nil {
				c.first(&p)
			}
			if c.next != nil {
				c.next(&q)
			}
			p.Route, q.Route = rt, rt
			d := newDecoder(port)
			cut := cutter{pkts: []rvt.Packet{p, q}}
			for cut.next() {
				d.datagram(src, dst, cut.appendPacket(nil, 0), 0)
			}
			d.deliver()
			require.Zero(t, cut.bad)
			require.Len(t, r.taken(), c.want)
		})
	}
}

// bareDecoder is a port without a socket.
func bareDecoder(testing.TB) (*udpPort, *collector) {
	r := newCollector()
	p := &udpPort{recv: r, addr: netip.AddrFrom4([4]byte{127, 0, 0, 2}), clock: clock.Real()}
	p.state.Store(uint32(ci.PortActive))
	return p, r
}

// Linux RoCE's own packets, seen through a socket that hides the IPv4 identification.
func TestUDPGolden(t *testing.T) {
	t.Parallel()
	port, r := bareDecoder(t)
	n := 0
	for _, ip := range goldenPackets(t) {
		src, dst, udp := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), ip[20:]
		if ip[0]>>4 == 6 {
			src, dst, udp = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40])), ip[40:]
		}
		port.addr = dst
		d := newDecoder(port) // the packets are of many different times
		d.datagram(netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp)), netip.AddrPortFrom(dst, 4791), udp[8:], 0)
		d.deliver()
		n++
		if pkts := r.taken(); assert.Len(t, pkts, 1) {
			assert.Equal(t, gidOf(src), pkts[0].Src.GID)
		}
	}
	assert.Equal(t, 58, n)
	assert.Empty(t, r.counts)
	assert.Positive(t, port.stats.solvedID.Load())
}

// goldenPackets are IP packets as Linux RoCE sent them; package wire has their story.
func goldenPackets(t testing.TB) (out [][]byte) {
	text, err := os.ReadFile("../../wire/testdata/rocev2-vectors.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), " | ")
		require.Len(t, f, 3)
		ip, err := hex.DecodeString(f[2])
		require.NoError(t, err)
		out = append(out, ip)
	}
	return out
}

func TestUDPHostile(t *testing.T) {
	t.Parallel()
	b, rb := openTest(t, UDPConfig{})
	a := testAddr()
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: a.AsSlice(), Port: 4791}, &net.UDPAddr{IP: b.addr.AsSlice(), Port: 4791})
	require.NoError(t, err)
	defer conn.Close()
	// A good packet, then ways to break it. The connected socket's identification is anything, so each good one is solved for.
	rt := &udpRoute{dst: netip.AddrPortFrom(b.addr, 4791), flow4: wire.NewFlow4(a.As4(), b.addr.As4(), 4791, 4791, wire.IPv4DontFragment)}
	c := cutter{pkts: []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, Len: 10, Payload: [][]byte{make([]byte, 10)}, Route: rt}}}
	require.True(t, c.next())
	good := c.appendPacket(nil, 0xbeef)
	reICRC := func(p []byte) []byte {
		rt.icrc(len(p), 7).Transport(p[:len(p)-4]).Put(p[len(p)-4:])
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
		{"congestion notification", reICRC(append([]byte{0x81}, good[1:]...)), rvt.DropService},
		{"too short for its opcode", reICRC(append([]byte{0x13}, good[1:]...)), rvt.DropMalformed},
	} {
		before := rb.count(bad.want)
		_, err := conn.Write(bad.bytes)
		require.NoError(t, err)
		rb.wait(t, bad.name, func(c *collector) bool { return c.counts[bad.want] == before+1 })
	}
	_, err = conn.Write(good)
	require.NoError(t, err)
	pkts := rb.packets(t, 1)
	require.Len(t, pkts, 1)
	require.EqualValues(t, 10, pkts[0].Len)
	require.EqualValues(t, 1, b.stats.solvedID.Load())
}

func flip(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 1
	return b
}

func TestUDPOpenErrors(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, UDPConfig{})
	for _, c := range []struct {
		name string
		c    UDPConfig
		say  []string
	}{
		{"no address", UDPConfig{}, []string{"Addr is not set", "127.0.0.1"}},
		{"unspecified", UDPConfig{Addr: netip.IPv4Unspecified()}, []string{"Addr is not set"}},
		{"group", UDPConfig{Addr: netip.MustParseAddr("239.1.2.3")}, []string{"multicast"}},
		{"taken", UDPConfig{Addr: a.addr}, []string{"another process", "127.0.0.2", "Port", a.addr.String()}},
		{"taken, portable", UDPConfig{Addr: a.addr, Portable: true}, []string{"another process", "127.0.0.2"}},
		{"not ours", UDPConfig{Addr: netip.MustParseAddr("203.0.113.77")}, []string{"address of this machine"}},
		{"broadcast", UDPConfig{Addr: netip.MustParseAddr("255.255.255.255")}, []string{"broadcast", "unicast"}},
		{"link-local without zone", UDPConfig{Addr: netip.MustParseAddr("fe80::1")}, []string{"zone", "fe80::1%eth0", interfacesHere()}},
		{"unknown zone", UDPConfig{Addr: netip.MustParseAddr("fe80::1%nosuch")}, []string{`zone "nosuch" is no interface`, interfacesHere()}},
		{"unknown zone, portable", UDPConfig{Addr: netip.MustParseAddr("fe80::1%nosuch"), Portable: true}, []string{`zone "nosuch"`}},
		{"MTU", UDPConfig{Addr: testAddr(), MTU: 6}, []string{"MTU code 6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := openUDP(c.c, clock.Real())
			require.Error(t, err)
			for _, s := range c.say {
				assert.ErrorContains(t, err, s)
			}
		})
	}
}

func TestUDPRouteErrors(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, UDPConfig{})
	for _, c := range []struct {
		name string
		grh  ci.GRH
		want ci.Status
	}{
		{"zero", ci.GRH{}, ci.InvalidParameter},
		{"IPv6 from an IPv4 port", ci.GRH{DGID: ci.GID{0: 0xfe, 1: 0x80, 15: 1}}, ci.InvalidParameter},
		{"source index", ci.GRH{DGID: a.gid, SGIDIndex: 1}, ci.InvalidIndex},
	} {
		_, err := a.Route(&ci.AVAttr{Global: true, GRH: c.grh}, rvt.Flow{})
		assert.Equal(t, c.want, ci.StatusOf(err), c.name)
	}
	r, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: a.gid, TrafficClass: 0x6a, HopLimit: 3}}, rvt.Flow{})
	require.NoError(t, err)
	assert.Equal(t, rvt.Addr{GID: a.gid}, r.Peer())
}

// Traffic class and hop limit are per packet; packets that differ in them share no system call's message.
func TestUDPTrafficClass(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, UDPConfig{})
	b, rb := openTest(t, UDPConfig{})
	r, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: b.gid, TrafficClass: 0x68, HopLimit: 3}}, rvt.Flow{})
	require.NoError(t, err)
	p := rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, Len: 4, Payload: [][]byte{{1, 2, 3, 4}}, Route: r}
	q := p
	q.Route = routeTo(t, a, b)
	a.Send([]rvt.Packet{p, p, q, q, p})
	require.Len(t, rb.packets(t, 5), 5)
	require.Empty(t, ra.counts)
}

// What opens sockets, and nothing else, is run by Within, whose refusal is that of the call.
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
		c := UDP(UDPConfig{Addr: netip.MustParseAddr("127.0.0.1"), Port: uint16(40000 + os.Getpid()%10000), Portable: portable, Within: within})
		in, err := c.open(portEnv{clock: clock.Real()})
		require.NoError(t, err)
		p := in.(*udpPort)
		require.Equal(t, 1, ran)
		group := gidOf(netip.MustParseAddr("239.77.1.3"))
		require.NoError(t, p.JoinGroup(group))
		require.Equal(t, 2, ran)
		require.NoError(t, p.LeaveGroup(group))
		answer = refusal
		require.ErrorIs(t, p.JoinGroup(group), refusal)
		require.Error(t, p.LeaveGroup(group), "not joined")
		require.Equal(t, 3, ran)
		require.NoError(t, p.Close())
		_, err = c.open(portEnv{clock: clock.Real()})
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
			a, ra := openTest(t, UDPConfig{Port: port, Portable: s.portable[0]})
			b, rb := openTest(t, UDPConfig{Port: port, Portable: s.portable[0]})
			group := gidOf(netip.MustParseAddr("239.77.1.2"))
			require.NoError(t, b.JoinGroup(group))
			require.NoError(t, b.JoinGroup(group))
			require.NoError(t, b.LeaveGroup(group))
			rt, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: group}}, rvt.Flow{Datagram: true})
			require.NoError(t, err)
			send := func() {
				a.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, DestQP: 0xffffff, SrcQP: 3, QKey: 4, N: 1, Len: 4,
					Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
			}
			send()
			pkts := rb.packets(t, 1)
			require.Len(t, pkts, 1)
			assert.EqualValues(t, 0xffffff, pkts[0].DestQP)
			assert.Equal(t, group, pkts[0].Dst.GID)
			assert.Equal(t, a.gid, pkts[0].Src.GID)
			require.NoError(t, a.JoinGroup(group))
			send()
			require.Len(t, rb.packets(t, 1), 1)
			require.Len(t, ra.packets(t, 1), 1, "the sender's own port hears it, too")
			require.NoError(t, b.LeaveGroup(group))
			require.Error(t, b.LeaveGroup(group))
			send()
			ra.packets(t, 1)
			require.Empty(t, rb.taken())
			require.ErrorIs(t, a.JoinGroup(b.gid), ci.InvalidGID)
		})
	}
}

var scopedGroups = []string{"ff12::77", "ff02::77:1", "ff11::77", "ff15::77"}

// Groups that mean something on one interface only have to be bound with it.
func TestUDPJoin6(t *testing.T) {
	t.Parallel()
	for i, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, _ := openTest6(t, uint16(10000+i*5000+os.Getpid()%5000), s.portable[0])
			for _, group := range scopedGroups {
				gid := gidOf(netip.MustParseAddr(group))
				require.NoError(t, p.JoinGroup(gid), group)
				require.NoError(t, p.LeaveGroup(gid), group)
			}
			require.ErrorIs(t, p.JoinGroup(gidOf(netip.MustParseAddr("239.77.1.2"))), ci.InvalidGID)
		})
	}
}

// A port hears what it sends to a group that it has joined. Linux carries no IPv6 multicast over loopback, so this takes another
// interface's link-local address, and a hop limit that keeps the packets on the link.
func TestUDPMulticast6(t *testing.T) {
	t.Parallel()
	addr := linkLocal(t)
	for i, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, r := openTest(t, UDPConfig{Addr: addr, Port: uint16(10000 + i*5000 + os.Getpid()%5000), Portable: s.portable[0]})
			for _, group := range scopedGroups {
				gid := gidOf(netip.MustParseAddr(group))
				require.NoError(t, p.JoinGroup(gid), group)
				rt, err := p.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: gid, HopLimit: 1}}, rvt.Flow{Datagram: true})
				require.NoError(t, err, group)
				p.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, DestQP: 0xffffff, SrcQP: 3, QKey: 4, N: 1, Len: 4,
					Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
				pkts := r.packets(t, 1)
				require.Len(t, pkts, 1, group)
				assert.Equal(t, gid, pkts[0].Dst.GID, group)
				assert.Equal(t, p.gid, pkts[0].Src.GID, group)
				require.NoError(t, p.LeaveGroup(gid), group)
			}
			require.Empty(t, r.counts)
		})
	}
}

// linkLocal is a link-local address, with zone, of an interface that is up and knows multicast; without one the test is skipped.
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
			a, ra := openTest(t, UDPConfig{Portable: s.portable[0]})
			b, rb := openTest(t, UDPConfig{Portable: s.portable[0]})
			p := []rvt.Packet{{Service: wire.RC, Op: wire.OpAcknowledge, N: 1, Route: routeTo(t, a, b)}}
			require.NoError(t, b.Modify(ci.PortFieldShutdown, ci.PortModify{}))
			require.Equal(t, ci.PortDown, b.Attr().State)
			a.Send(p)
			rb.wait(t, "the drop", func(c *collector) bool { return c.counts[rvt.DropNotForUs] == 1 })
			b.Send(p)
			require.Equal(t, 1, rb.count(rvt.DropSendFailed))
			b.setLink(true)
			require.Equal(t, ci.PortActive, b.Attr().State)
			require.Equal(t, []ci.EventType{ci.EventPortDown, ci.EventPortActive}, rb.events)
			a.Send(p)
			rb.packets(t, 1)

			require.NoError(t, b.Modify(ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapCM | ci.PortCapSM, Capability: ci.PortCapCM}))
			require.Equal(t, ci.PortCapCM, b.Attr().Capability)
			require.ErrorIs(t, b.Modify(ci.PortFieldInitType, ci.PortModify{}), ci.Unsupported)

			require.NoError(t, a.Close())
			require.NoError(t, a.Close())
			a.Send(p)
			require.Equal(t, 1, ra.count(rvt.DropSendFailed))
			require.Error(t, a.JoinGroup(gidOf(netip.MustParseAddr("239.77.1.2"))))
			require.Error(t, a.Start(ra))
		})
	}
}

// Trains that break the engine's promise are passed over and counted, the ones around them are sent.
func TestUDPBadTrains(t *testing.T) {
	t.Parallel()
	for _, s := range sockets[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, UDPConfig{Portable: s.portable[0]})
			b, rb := openTest(t, UDPConfig{})
			good := rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 2, MTU: 256, Len: 300, Payload: [][]byte{make([]byte, 512)}, Route: routeTo(t, a, b)}
			batch := []rvt.Packet{good}
			for _, f := range []func(p *rvt.Packet){
				func(p *rvt.Packet) { p.N = 0 }, func(p *rvt.Packet) { p.N = 4 }, func(p *rvt.Packet) { p.MTU = 0 },
				func(p *rvt.Packet) { p.MTU = 258 }, func(p *rvt.Packet) { p.Len = 513 }, func(p *rvt.Packet) { p.Len = 600 },
				func(p *rvt.Packet) { p.Route = nil }, func(p *rvt.Packet) { p.Op = wire.OpNone }, func(p *rvt.Packet) { p.Service = wire.UD },
				func(p *rvt.Packet) { p.Payload = nil },
			} {
				p := good
				f(&p)
				batch = append(batch, p)
			}
			batch = append(batch, good)
			a.Send(batch)
			pkts := rb.packets(t, 4)
			require.Equal(t, 4, packetCount(pkts))
			require.Equal(t, 1+4+8*2, ra.count(rvt.DropSendFailed))
		})
	}
}

// Random batches, from many goroutines at once, all arrive.
func TestUDPConcurrentSenders(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, UDPConfig{})
	b, rb := openTest(t, UDPConfig{})
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
				pkts = append(pkts, rvt.Packet{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, DestQP: ci.QPN(g), N: uint32(n),
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
	rb.packets(t, total)
	require.Empty(t, ra.counts)
	require.Empty(t, rb.counts)
}

// FuzzUDPDatagram: no bytes from the network do harm, and each packet is delivered or counted.
func FuzzUDPDatagram(f *testing.F) {
	for _, ip := range goldenPackets(f) {
		f.Add(ip[28:], uint16(0), true)
		f.Add(ip[28:], uint16(40), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, seg uint16, repair bool) {
		port, r := bareDecoder(t)
		src, dst := netip.MustParseAddrPort("127.0.0.1:4791"), netip.MustParseAddrPort("127.0.0.2:4791")
		if repair && len(b) >= 16 && len(b)%4 == 0 {
			// Past the ICRC, or the fuzzer would see little else.
			fl := wire.NewFlow4(src.Addr().As4(), dst.Addr().As4(), 4791, 4791, wire.IPv4DontFragment)
			fl.Start(len(b), 0).Transport(b[:len(b)-4]).Put(b[len(b)-4:])
		}
		d := newDecoder(port)
		d.datagram(src, dst, b, int(seg))
		d.deliver()
		size := int(seg)
		if size == 0 || size > len(b) {
			size = len(b)
		}
		want := 1
		if len(b) > 0 {
			want = (len(b) + size - 1) / size
		}
		got := packetCount(r.taken())
		for _, n := range r.counts {
			got += n
		}
		require.Equal(t, want, got)
	})
}
