package reference

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

var virtualAddrs = map[string][2]netip.Addr{
	"IPv4": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
	"IPv6": {netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")},
}

// Every operation of RC over a network in real time, that does some harm.
func TestVirtualOperations(t *testing.T) {
	t.Parallel()
	for name, at := range virtualAddrs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, bad := range []float64{0, 0.02} {
				n := NewNetwork(NetworkConfig{Seed: 1, Impairment: Impairment{Drop: bad, Duplicate: bad, Reorder: bad, Delay: bad, Corrupt: bad}})
				a := newNode(t, Config{Ports: []PortConfig{Virtual(n, VirtualConfig{Addr: at[0]})}}, ci.RC, 1<<20)
				b := newNode(t, Config{Ports: []PortConfig{Virtual(n, VirtualConfig{Addr: at[1]})}}, ci.RC, 1<<20)
				a.hasty, b.hasty = true, true
				connectBoth(a, b)
				exercise(t, a, b)
				if bad > 0 {
					assert.NotZero(t, n.Count(Drop)+n.Count(Duplicate)+n.Count(Reorder)+n.Count(Delay)+n.Count(Corrupt))
				}
			}
		})
	}
}

// pairOfPorts is a sender, and a receiver that collects, in virtual time.
func pairOfPorts(t *testing.T, at [2]netip.Addr, c NetworkConfig) (*clock.Virtual, rvt.Port, *collector, rvt.Route) {
	t.Helper()
	v := clock.NewVirtual(time.Hour)
	c.Clock = v
	n := NewNetwork(c)
	var ports [2]rvt.Port
	var recv [2]*collector
	for i := range ports {
		p, err := Virtual(n, VirtualConfig{Addr: at[i]}).open(portEnv{})
		require.NoError(t, err)
		recv[i] = newCollector()
		require.NoError(t, p.Start(recv[i]))
		t.Cleanup(func() { require.NoError(t, p.Close()); require.NoError(t, p.Close()) })
		ports[i] = p
	}
	rt, err := ports[0].Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: gidOf(at[1])}}, rvt.Flow{})
	require.NoError(t, err)
	return v, ports[0], recv[1], rt
}

// TestVirtualEveryBit flips each bit of a packet: it is noticed, unless neither the ICRC nor the IPv4 header checksum covers it; then
// what arrives is what was sent.
func TestVirtualEveryBit(t *testing.T) {
	t.Parallel()
	for name, at := range virtualAddrs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, port, got, rt := pairOfPorts(t, at, NetworkConfig{})
			var sent []byte
			network := port.(*udpPort).sock.(*virtualSocket).net
			network.c.Watch = func(d *Datagram) {
				if !d.Arrived {
					sent = bytes.Clone(d.Data)
				}
			}
			port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, HasImm: true, Imm: 7, PSN: 5, PKey: 0xffff, VA: 1, RKey: 2,
				DMALen: 3, N: 1, MTU: 1024, Len: 3, Payload: [][]byte{{1, 2, 3}}, Route: rt}})
			require.True(t, v.Step())
			clean := got.taken()
			require.Len(t, clean, 1)
			ip, masked := wire.IPv4Len, map[int]byte{}
			if name == "IPv6" {
				ip = wire.IPv6Len
				masked = map[int]byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff} // traffic class, flow label, hop limit
			}
			masked[ip+6], masked[ip+7], masked[ip+wire.UDPLen+4] = 0xff, 0xff, 0xff // UDP checksum, BTH resv8a
			to := network.members[at[1]][0]
			for bit := range 8 * len(sent) {
				b := bytes.Clone(sent)
				b[bit/8] ^= 1 << (bit % 8)
				to.receive([]parcel{{to: to, from: at[0], data: b}})
				pkts := got.taken()
				if masked[bit/8]>>(bit%8)&1 == 0 {
					require.Empty(t, pkts, "bit %d of byte %d", bit%8, bit/8)
					continue
				}
				require.Equal(t, clean, pkts, "bit %d of byte %d", bit%8, bit/8)
			}
		})
	}
}

// TestVirtualReplays: the same packets meet the same fate, with the same seed; they all are accounted for.
func TestVirtualReplays(t *testing.T) {
	t.Parallel()
	type sight struct {
		at      time.Duration
		arrived bool
		verdict Verdict
		bit     int
		data    string
	}
	bad := Impairment{Drop: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 0.1, Corrupt: 0.1}
	run := func(seed uint64) (seen []sight) {
		at := virtualAddrs["IPv4"]
		v, port, got, rt := pairOfPorts(t, at, NetworkConfig{Seed: seed, Impairment: bad, Watch: func(d *Datagram) {
			seen = append(seen, sight{d.Time, d.Arrived, d.Verdict, d.Flipped, string(d.Data)})
		}})
		for psn := range ci.PSN(300) {
			port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn, N: 1, MTU: 256, Len: 4,
				Payload: [][]byte{{byte(psn), byte(psn >> 8), 0, 0}}, Route: rt}})
			v.Advance(10 * time.Microsecond)
		}
		v.Advance(time.Second)
		require.Zero(t, v.Pending())
		count := map[bool]map[Verdict]int{false: {}, true: {}}
		for _, s := range seen {
			count[s.arrived][s.verdict]++
			require.Equal(t, s.verdict == Corrupt, s.bit >= 0)
		}
		in, out := count[false], count[true]
		n := port.(*udpPort).sock.(*virtualSocket).net
		for _, v := range []Verdict{Pass, Duplicate, Reorder, Delay, Corrupt, Drop} {
			require.NotZero(t, in[v], v)
			require.EqualValues(t, in[v], n.Count(v))
			want := in[v]
			switch v {
			case Drop:
				want = 0
			case Duplicate:
				want *= 2
			}
			require.Equal(t, want, out[v], v)
		}
		taken := 0
		last, early := -1, 0
		for _, p := range got.taken() {
			taken += int(p.N)
			if int(p.PSN) < last {
				early++
			}
			last = int(p.PSN)
		}
		require.NotZero(t, early, "nothing was reordered")
		require.GreaterOrEqual(t, taken, in[Pass]+2*in[Duplicate]+in[Reorder]+in[Delay])
		require.Less(t, taken, in[Pass]+2*in[Duplicate]+in[Reorder]+in[Delay]+in[Corrupt])
		return seen
	}
	first := run(1)
	assert.Equal(t, first, run(1))
	assert.NotEqual(t, first, run(2))
}

func TestVirtualFilter(t *testing.T) {
	t.Parallel()
	v, port, got, rt := pairOfPorts(t, virtualAddrs["IPv6"], NetworkConfig{Filter: func(d *Datagram) Verdict {
		return map[byte]Verdict{1: Drop, 2: Duplicate, 3: Reorder, 5: 99}[d.Data[wire.IPv6Len+wire.UDPLen+11]]
	}})
	for psn := range ci.PSN(6) {
		port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn, N: 1, Route: rt}})
	}
	v.Advance(time.Millisecond)
	var order []ci.PSN
	for _, p := range got.taken() {
		order = append(order, p.PSN)
	}
	require.Len(t, order, 6)
	require.Equal(t, []ci.PSN{0, 2, 2, 4}, order[:4])
	require.ElementsMatch(t, []ci.PSN{3, 5}, order[4:])
}

func TestVirtualErrors(t *testing.T) {
	t.Parallel()
	n := NewNetwork(NetworkConfig{})
	for _, c := range []struct {
		net  *Network
		c    VirtualConfig
		want string
	}{
		{nil, VirtualConfig{Addr: virtualAddrs["IPv4"][0]}, "NewNetwork"},
		{n, VirtualConfig{}, "unicast"},
		{n, VirtualConfig{Addr: netip.MustParseAddr("224.0.0.9")}, "unicast"},
		{n, VirtualConfig{Addr: netip.MustParseAddr("fe80::1%eth0")}, "zone"},
		{n, VirtualConfig{Addr: virtualAddrs["IPv4"][0], MTU: 6}, "MTU code 6"},
		{n, VirtualConfig{Addr: virtualAddrs["IPv4"][0], Window: -1}, "Window -1"},
	} {
		_, err := New(Config{Ports: []PortConfig{Virtual(c.net, c.c)}})
		require.ErrorContains(t, err, c.want)
	}
	h, err := New(Config{Ports: []PortConfig{Virtual(n, VirtualConfig{Addr: virtualAddrs["IPv4"][0]})}})
	require.NoError(t, err)
	_, err = New(Config{Ports: []PortConfig{Virtual(n, VirtualConfig{Addr: virtualAddrs["IPv4"][0]})}})
	require.ErrorContains(t, err, "10.0.0.1")
	require.NoError(t, h.Close())
	h, err = New(Config{Ports: []PortConfig{Virtual(n, VirtualConfig{Addr: virtualAddrs["IPv4"][0]})}})
	require.NoError(t, err, "Close gives the address back")
	require.NoError(t, h.Close())
}

// A datagram to a group reaches its members, the sender among them, and nobody else.
func TestVirtualMulticast(t *testing.T) {
	t.Parallel()
	v, port, got, _ := pairOfPorts(t, virtualAddrs["IPv4"], NetworkConfig{})
	gid := gidOf(netip.MustParseAddr("224.1.2.3"))
	rt, err := port.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: gid}}, rvt.Flow{Datagram: true})
	require.NoError(t, err)
	own := port.(*udpPort).recv.(*collector)
	to := port.(*udpPort).sock.(*virtualSocket).net.members[virtualAddrs["IPv4"][1]][0].port
	send := func() (members [2]int) {
		port.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, N: 1, Route: rt}})
		v.Advance(time.Millisecond)
		return [2]int{len(own.taken()), len(got.taken())}
	}
	require.Equal(t, [2]int{}, send())
	require.NoError(t, to.JoinGroup(gid))
	require.NoError(t, to.JoinGroup(gid))
	require.Equal(t, [2]int{0, 1}, send())
	require.NoError(t, port.(rvt.GroupPort).JoinGroup(gid))
	require.Equal(t, [2]int{1, 1}, send())
	require.NoError(t, to.LeaveGroup(gid))
	require.Equal(t, [2]int{1, 1}, send())
	require.NoError(t, to.LeaveGroup(gid))
	require.Error(t, to.LeaveGroup(gid))
	require.Equal(t, [2]int{1, 0}, send())
}

// Close of an HCA whose CA is open stops the ports, and says that the consumer was not done.
func TestCloseWithOpenCA(t *testing.T) {
	n := NewNetwork(NetworkConfig{})
	config := Config{Ports: []PortConfig{Virtual(n, VirtualConfig{Addr: virtualAddrs["IPv4"][0]})}}
	h, err := New(config)
	require.NoError(t, err)
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	err = h.Close()
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, "close the CA first")
	require.NoError(t, h.Close(), "the second time")
	require.NoError(t, ca.Destroy())

	h, err = New(config)
	require.NoError(t, err, "the first Close gave the address back")
	ca, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	require.NoError(t, ca.Destroy())
	require.NoError(t, h.Close())
}
