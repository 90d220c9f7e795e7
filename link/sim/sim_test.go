package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

var addrs = map[string][2]netip.Addr{
	"IPv4": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
	"IPv6": {netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")},
}

// Every operation of RC over a network in real time that impairs some packets.
func TestOperations(t *testing.T) {
	t.Parallel()
	for name, at := range addrs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, bad := range []float64{0, 0.02} {
				n := NewNetwork(NetworkConfig{Seed: 1, Impairment: impair.Model{Drop: bad, Duplicate: bad, Reorder: bad,
					Delay: bad, Corrupt: bad}})
				a := linktest.Open(t, ci.RC, 1<<20, testenv.Must(New(n, Config{Addr: at[0]})))
				b := linktest.Open(t, ci.RC, 1<<20, testenv.Must(New(n, Config{Addr: at[1]})))
				a.Hasty, b.Hasty = true, true
				linktest.ConnectBoth(a, b)
				linktest.Exercise(t, a, b)
				if bad > 0 {
					assert.NotZero(t,
						n.Count(impair.Drop)+n.Count(impair.Duplicate)+n.Count(impair.Reorder)+
							n.Count(impair.Delay)+n.Count(impair.Corrupt))
				}
			}
		})
	}
}

// pairOfPorts returns a port that sends and one that collects what it receives, in virtual time.
func pairOfPorts(t *testing.T, at [2]netip.Addr, c NetworkConfig) (*clock.Virtual, *Port,
	*linktest.Collector, rvt.Route) {
	t.Helper()
	v := clock.NewVirtual(time.Hour)
	c.Clock = v
	n := NewNetwork(c)
	var ports [2]*Port
	var recv [2]*linktest.Collector
	for i := range ports {
		p, err := New(n, Config{Addr: at[i]})
		require.NoError(t, err)
		recv[i] = linktest.NewCollector()
		require.NoError(t, linktest.Start(p, recv[i]))
		t.Cleanup(func() { require.NoError(t, p.Close()); require.NoError(t, p.Close()) })
		ports[i] = p
	}
	rt, err := ports[0].Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: rocev2.GIDOf(at[1])}}, rvt.Flow{})
	require.NoError(t, err)
	return v, ports[0], recv[1], rt
}

// TestEveryBit flips each bit of a packet. The change is detected, except in bits that neither the ICRC nor the IPv4
// header checksum covers; then the received payload is the one that was sent.
func TestEveryBit(t *testing.T) {
	t.Parallel()
	for name, at := range addrs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, port, got, rt := pairOfPorts(t, at, NetworkConfig{})
			var sent []byte
			network := port.core.Socket.(*socket).net
			network.c.Watch = func(d *Datagram) {
				if !d.Arrived {
					sent = bytes.Clone(d.Data)
				}
			}
			port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, HasImm: true, Imm: 7,
				PSN: 5, PKey: 0xffff, VA: 1, RKey: 2,
				DMALen: 3, N: 1, MTU: 1024, Len: 3, Payload: [][]byte{{1, 2, 3}}, Route: rt}})
			require.True(t, v.Step())
			clean := got.Taken()
			require.Len(t, clean, 1)
			ip, masked := wire.IPv4Len, map[int]byte{}
			if name == "IPv6" {
				ip = wire.IPv6Len
				masked = map[int]byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff,
					7: 0xff} // traffic class, flow label, hop limit
			}
			masked[ip+6], masked[ip+7], masked[ip+wire.UDPLen+4] = 0xff, 0xff, 0xff // UDP checksum, BTH resv8a
			to := network.members[at[1]][0]
			for bit := range 8 * len(sent) {
				b := bytes.Clone(sent)
				b[bit/8] ^= 1 << (bit % 8)
				to.receive([]parcel{{to: to, from: at[0], packet: packet{data: b}}})
				pkts := got.Taken()
				if masked[bit/8]>>(bit%8)&1 == 0 {
					require.Empty(t, pkts, "bit %d of byte %d", bit%8, bit/8)
					continue
				}
				require.Equal(t, clean, pkts, "bit %d of byte %d", bit%8, bit/8)
			}
		})
	}
}

// TestReplays checks that two runs with the same seed give each packet the same verdict, and that every packet is
// counted.
func TestReplays(t *testing.T) {
	t.Parallel()
	type sight struct {
		at      time.Duration
		arrived bool
		verdict impair.Verdict
		bit     int
		data    string
	}
	bad := impair.Model{Drop: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 0.1, Corrupt: 0.1}
	run := func(seed uint64) (seen []sight) {
		at := addrs["IPv4"]
		v, port, got, rt := pairOfPorts(t, at, NetworkConfig{Seed: seed, Impairment: bad, Watch: func(d *Datagram) {
			seen = append(seen, sight{d.Time, d.Arrived, d.Verdict, d.Flipped, string(d.Data)})
		}})
		for psn := range ci.PSN(300) {
			port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn, N: 1,
				MTU: 256, Len: 4,
				Payload: [][]byte{{byte(psn), byte(psn >> 8), 0, 0}}, Route: rt}})
			v.Advance(10 * time.Microsecond)
		}
		v.Advance(time.Second)
		require.Zero(t, v.Pending())
		count := map[bool]map[impair.Verdict]int{false: {}, true: {}}
		for _, s := range seen {
			count[s.arrived][s.verdict]++
			require.Equal(t, s.verdict == impair.Corrupt, s.bit >= 0)
		}
		in, out := count[false], count[true]
		n := port.core.Socket.(*socket).net
		for _, v := range []impair.Verdict{impair.Pass, impair.Duplicate, impair.Reorder, impair.Delay,
			impair.Corrupt, impair.Drop} {
			require.NotZero(t, in[v], v)
			require.EqualValues(t, in[v], n.Count(v))
			want := in[v]
			switch v {
			case impair.Drop:
				want = 0
			case impair.Duplicate:
				want *= 2
			}
			require.Equal(t, want, out[v], v)
		}
		taken := 0
		last, early := -1, 0
		for _, p := range got.Taken() {
			taken += int(p.N)
			if int(p.PSN) < last {
				early++
			}
			last = int(p.PSN)
		}
		require.NotZero(t, early, "nothing was reordered")
		require.GreaterOrEqual(t, taken, in[impair.Pass]+2*in[impair.Duplicate]+in[impair.Reorder]+in[impair.Delay])
		require.Less(t, taken,
			in[impair.Pass]+2*in[impair.Duplicate]+in[impair.Reorder]+in[impair.Delay]+in[impair.Corrupt])
		return seen
	}
	first := run(1)
	assert.Equal(t, first, run(1))
	assert.NotEqual(t, first, run(2))
}

func TestFilter(t *testing.T) {
	t.Parallel()
	v, port, got, rt := pairOfPorts(t, addrs["IPv6"], NetworkConfig{Filter: func(d *Datagram) impair.Verdict {
		return map[byte]impair.Verdict{1: impair.Drop, 2: impair.Duplicate, 3: impair.Reorder,
			5: 99}[d.Data[wire.IPv6Len+wire.UDPLen+11]]
	}})
	for psn := range ci.PSN(6) {
		port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn, N: 1, Route: rt}})
	}
	v.Advance(time.Millisecond)
	var order []ci.PSN
	for _, p := range got.Taken() {
		order = append(order, p.PSN)
	}
	require.Len(t, order, 6)
	require.Equal(t, []ci.PSN{0, 2, 2, 4}, order[:4])
	require.ElementsMatch(t, []ci.PSN{3, 5}, order[4:])
}

func TestErrors(t *testing.T) {
	t.Parallel()
	n := NewNetwork(NetworkConfig{})
	for _, c := range []struct {
		net  *Network
		c    Config
		want string
	}{
		{nil, Config{Addr: addrs["IPv4"][0]}, "NewNetwork"},
		{n, Config{}, "unicast"},
		{n, Config{Addr: netip.MustParseAddr("224.0.0.9")}, "unicast"},
		{n, Config{Addr: netip.MustParseAddr("fe80::1%eth0")}, "zone"},
		{n, Config{Addr: addrs["IPv4"][0], MTU: 6}, "MTU code 6"},
		{n, Config{Addr: addrs["IPv4"][0], Window: -1}, "Window -1"},
	} {
		_, err := New(c.net, c.c)
		require.ErrorContains(t, err, c.want)
	}
	h, err := New(n, Config{Addr: addrs["IPv4"][0]})
	require.NoError(t, err)
	_, err = New(n, Config{Addr: addrs["IPv4"][0]})
	require.ErrorContains(t, err, "10.0.0.1")
	require.NoError(t, h.Close())
	h, err = New(n, Config{Addr: addrs["IPv4"][0]})
	require.NoError(t, err, "Close gives the address back")
	require.NoError(t, h.Close())
}

// A datagram to a group reaches the members, including the sender, and no other host.
func TestMulticast(t *testing.T) {
	t.Parallel()
	v, port, got, _ := pairOfPorts(t, addrs["IPv4"], NetworkConfig{})
	gid := rocev2.GIDOf(netip.MustParseAddr("224.1.2.3"))
	rt, err := port.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: gid}}, rvt.Flow{Datagram: true})
	require.NoError(t, err)
	own := port.core.Receiver.(*linktest.Collector)
	to := port.net.members[addrs["IPv4"][1]][0]
	group := rocev2.AddrOf(gid)
	send := func() (members [2]int) {
		port.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, N: 1, Route: rt}})
		v.Advance(time.Millisecond)
		return [2]int{len(own.Taken()), len(got.Taken())}
	}
	require.Equal(t, [2]int{}, send())
	require.NoError(t, to.Join(group))
	require.NoError(t, to.Join(group))
	require.Equal(t, [2]int{0, 1}, send())
	require.NoError(t, port.JoinGroup(gid))
	require.Equal(t, [2]int{1, 1}, send())
	require.NoError(t, to.Leave(group))
	require.Equal(t, [2]int{1, 1}, send())
	require.NoError(t, to.Leave(group))
	require.Error(t, to.Leave(group))
	require.Equal(t, [2]int{1, 0}, send())
}

// Close of an HCA whose CA is open changes nothing. Afterwards it gives the address back.
func TestCloseWithOpenCA(t *testing.T) {
	n := NewNetwork(NetworkConfig{})
	open := func() (*rvt.HCA, error) {
		port, err := New(n, Config{Addr: addrs["IPv4"][0]})
		if err != nil {
			return nil, err
		}
		return rvt.New(linktest.Config(port))
	}
	h, err := open()
	require.NoError(t, err)
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, h.Close(), ci.ResourceBusy)
	_, err = open()
	require.ErrorContains(t, err, "has the address")
	require.NoError(t, ca.Destroy())
	require.NoError(t, h.Close())

	h, err = open()
	require.NoError(t, err, "Close gave the address back")
	ca, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	require.NoError(t, ca.Destroy())
	require.NoError(t, h.Close())
}

// TestCatchUp checks that a port on a network in memory has caught up when no packet that has arrived is waiting.
// Packets in flight do not count.
func TestCatchUp(t *testing.T) {
	v := clock.NewVirtual(0)
	var port *Port
	arrived := 0
	n := NewNetwork(NetworkConfig{Clock: v, Watch: func(d *Datagram) {
		if d.Arrived {
			arrived++
			_, done := port.CatchUp(0)
			require.False(t, done, "it is being delivered")
		}
	}})
	port, err := New(n, Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	defer port.Close()
	require.NoError(t, linktest.Start(port, linktest.NewCollector()))
	bad, err := impair.New(port, impair.Config{})
	require.NoError(t, err)
	for _, p := range []rvt.Port{port, bad} {
		inbox, ok := ci.As[rvt.BacklogPort](p)
		require.True(t, ok)
		arrived = 0
		rt, err := port.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: port.core.GID}}, rvt.Flow{})
		require.NoError(t, err)
		port.Send(linktest.Trains(rt)[:1])
		_, done := inbox.CatchUp(0)
		require.True(t, done)
		for arrived == 0 {
			require.True(t, v.Step())
		}
		_, done = inbox.CatchUp(0)
		require.True(t, done)
	}
}

// TestFlowLabel checks that a network in memory passes on GRH.FlowLabel.
func TestFlowLabel(t *testing.T) {
	v := clock.NewVirtual(0)
	var first uint32
	n := NewNetwork(NetworkConfig{Clock: v, Watch: func(d *Datagram) { first = binary.BigEndian.Uint32(d.Data) }})
	port, err := New(n, Config{Addr: netip.MustParseAddr("fd00::1")})
	require.NoError(t, err)
	defer port.Close()
	require.NoError(t, linktest.Start(port, linktest.NewCollector()))
	rt, err := port.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: port.core.GID, FlowLabel: 0x12345,
		TrafficClass: 0x28}},
		rvt.Flow{Datagram: true})
	require.NoError(t, err)
	port.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: 5,
		SrcQP: 6, N: 1, MTU: 1024, Len: 4,
		Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
	require.EqualValues(t, 0x62812345, first)
}

// An end of a network sends and receives IP packets of both versions, and exchanges them with the port of an HCA.
func TestEnd(t *testing.T) {
	for name, at := range addrs {
		n := NewNetwork(NetworkConfig{})
		p, err := New(n, Config{Addr: at[0]})
		require.NoError(t, err)
		got := linktest.NewCollector()
		require.NoError(t, linktest.Start(p, got))
		e, err := n.End(at[1])
		require.NoError(t, err, name)
		_, err = n.End(at[1])
		require.ErrorContains(t, err, "another port of the network has the address")
		_, err = n.End(netip.MustParseAddr("ff02::1"))
		require.ErrorContains(t, err, "unicast")
		rt, err := p.Route(&ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: rocev2.GIDOf(at[1])}}, rvt.Flow{})
		require.NoError(t, err)
		p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: 9, N: 1,
			MTU: 1024, Len: 2, Payload: [][]byte{{1, 2}}, Route: rt}})
		b := received(t, e)
		var f wire.Frame
		require.NoError(t, wire.ParseIP(b, &f), name)
		assert.Equal(t, []byte{1, 2}, f.Packet.Payload)
		require.Error(t, e.Send([]byte{0}))
		require.NoError(t, e.Close())
		require.NoError(t, e.Close())
		require.ErrorIs(t, e.Send(b), ErrClosed)
		_, err = e.Recv(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, p.Close())
	}
}

// received waits for the next packet of an end.
func received(t *testing.T, e interface {
	Recv(context.Context) ([]byte, error)
}) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	b, err := e.Recv(ctx)
	require.NoError(t, err)
	return b
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
