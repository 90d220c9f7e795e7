package udp

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// needRaw skips the test where raw sockets are not permitted.
func needRaw(t testing.TB) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		t.Skipf("raw sockets need CAP_NET_RAW: %v", err)
	}
	require.NoError(t, unix.Close(fd))
}

// Trains of every form arrive as single packets, also where the system does not cut them.
func TestPrivilegedRoundTrip(t *testing.T) {
	t.Parallel()
	needRaw(t)
	for _, from := range []Config{{}, {Portable: true}, {Privileged: true}} {
		t.Run(fmt.Sprintf("%+v", from), func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, from)
			b, rb := openTest(t, Config{Privileged: true})
			checkRoundTrip(t, a, ra, b, rb)
			assert.Zero(t, b.core.Stats.SolvedID.Load())
		})
	}
}

// Trains of any packet length, whose payload looks like the beginning of further packets.
func TestPrivilegedTrains(t *testing.T) {
	t.Parallel()
	needRaw(t)
	a, ra := openTest(t, Config{})
	b, rb := openTest(t, Config{Privileged: true})
	rt := routeTo(t, a, b)
	for _, fill := range [][]byte{{0}, {1}, {0xff}, {4, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0}} {
		for _, size := range []int{1, 4, 61, 64, 100, 255, 256, 1000, 3000, 4095, 4096} {
			body := bytes.Repeat(fill, size)[:size]
			var pkts []rvt.Packet
			for i := range 7 {
				pkts = append(pkts, rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff,
					DestQP: 0x123456, PSN: ci.PSN(i), N: 1, MTU: 4096,
					Len: uint32(size), Payload: [][]byte{body}, Route: rt})
			}
			a.Send(pkts)
			got := rb.Packets(t, len(pkts))
			require.Len(t, got, len(pkts), "%d bytes", size)
			for _, p := range got {
				require.Equal(t, body, p.Payload[0])
			}
		}
	}
	require.Empty(t, ra.Counts)
	require.Empty(t, rb.Counts)
}

// rawIP4 sends whole IPv4 packets.
func rawIP4(t *testing.T) func(b []byte) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return func(b []byte) {
		require.NoError(t, unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: [4]byte(b[16:20])}))
	}
}

// Every bit of the identification counts: a packet is accepted only with the one that its ICRC covers. A plain socket
// accepts identifications close to it.
func TestPrivilegedStrict(t *testing.T) {
	t.Parallel()
	needRaw(t)
	strict, rs := openTest(t, Config{Privileged: true})
	plain, rp := openTest(t, Config{})
	send := rawIP4(t)
	src := linktest.Addr()
	packet := func(to netip.Addr, in, shown uint16, tos, ttl uint8) []byte {
		w := wire.Packet{BTH: wire.BTH{Opcode: 0x64, DestQP: 5, PKey: 0xffff}, DETH: wire.DETH{SrcQP: 6},
			Payload: make([]byte, 8)}
		n := wire.PacketLen(w.BTH.Opcode, 8)
		h := wire.IPv4{TOS: tos, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), ID: shown,
			Frag: wire.IPv4DontFragment, TTL: ttl, Protocol: wire.ProtocolUDP,
			Src: src.As4(), Dst: to.As4()}
		h.SetChecksum()
		b := make([]byte, wire.IPv4Len+wire.UDPLen)
		h.Put(b)
		(&wire.UDP{SrcPort: 0xc123, DstPort: wire.RoCEv2Port, Length: uint16(wire.UDPLen + n)}).Put(b[wire.IPv4Len:])
		p := wire.AppendPacket(nil, &w)
		end := len(p) - wire.ICRCLen
		wire.NewFlow4(h.Src, h.Dst, 0xc123, wire.RoCEv2Port, wire.IPv4DontFragment).Start(n,
			in).Transport(p[:end]).Put(p[end:])
		return append(b, p...)
	}
	send(packet(strict.core.Addr, 0x1234, 0x1234, 0x6a, 17))
	p := rs.Packets(t, 1)[0]
	g := p.GRH[20:]
	assert.Equal(t, []byte{0x45, 0x6a}, g[:2])
	assert.Equal(t, []byte{0x12, 0x34}, g[4:6])
	assert.Equal(t, byte(17), g[8], "TTL")
	send(packet(strict.core.Addr, 0x1235, 0x1236, 0, 64))
	rs.Wait(t, "the refusal", func(c *linktest.Collector) bool { return c.Counts[rvt.DropICRC] == 1 })

	send(packet(plain.core.Addr, 0x1234, 0x1234, 0x6a, 17))
	p = rp.Packets(t, 1)[0]
	assert.Equal(t, []byte{0x45, 0x6a}, p.GRH[20:22])
	assert.Equal(t, byte(17), p.GRH[28], "TTL")
	send(packet(plain.core.Addr, 0x1235, 0x1236, 0, 64))
	rp.Packets(t, 1)
	send(packet(plain.core.Addr, 0x9235, 0x9235, 0, 64))
	rp.Wait(t, "the refusal", func(c *linktest.Collector) bool { return c.Counts[rvt.DropIPv4ID] == 1 })
}

// Malformed packets are counted as on a plain socket, and no ICMP error reports the port as unreachable.
func TestPrivilegedHostile(t *testing.T) {
	t.Parallel()
	needRaw(t)
	b, rb := openTest(t, Config{Privileged: true})
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: b.core.Addr.AsSlice(), Port: 4791})
	require.NoError(t, err)
	defer conn.Close()
	for _, c := range []struct {
		bytes []byte
		want  rvt.Counter
	}{
		{nil, rvt.DropMalformed}, {make([]byte, 12), rvt.DropMalformed}, {make([]byte, 17),
			rvt.DropMalformed}, {make([]byte, 16), rvt.DropICRC},
		{make([]byte, 5000), rvt.DropICRC}, {bytes.Repeat([]byte{4, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0},
			5000), rvt.DropICRC},
	} {
		before := rb.Counted(c.want)
		_, err := conn.Write(c.bytes)
		require.NoError(t, err, "an ICMP error, perhaps")
		rb.Wait(t, c.want.String(), func(r *linktest.Collector) bool { return r.Counts[c.want] == before+1 })
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Empty(t, rb.Taken())
}

func TestPrivilegedMulticast(t *testing.T) {
	t.Parallel()
	needRaw(t)
	port := uint16(30000 + os.Getpid()%10000)
	a, ra := openTest(t, Config{Port: port})
	b, rb := openTest(t, Config{Port: port, Privileged: true})
	group := rocev2.GIDOf(netip.MustParseAddr("239.77.1.3"))
	rt, err := a.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: group, TrafficClass: 0x20}}, rvt.Flow{Datagram: true})
	require.NoError(t, err)
	pkt := rvt.Packet{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, DestQP: 0xffffff, SrcQP: 3, QKey: 4,
		N: 1, Len: 4, Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}
	require.NoError(t, b.JoinGroup(group))
	a.Send([]rvt.Packet{pkt})
	p := rb.Packets(t, 1)[0]
	assert.Equal(t, group, p.Dst.GID)
	assert.EqualValues(t, 0x20, p.GRH[21])
	require.NoError(t, b.LeaveGroup(group))
	a.Send([]rvt.Packet{pkt})
	pkt.Route, pkt.DestQP = routeTo(t, a, b), 7
	a.Send([]rvt.Packet{pkt})
	assert.EqualValues(t, 7, rb.Packets(t, 1)[0].DestQP, "nothing came of the group after leaving it")
	require.Empty(t, ra.Counts)
	require.Empty(t, rb.Counts)
}

// Over IPv6, the header fields that the ICRC does not cover are received, too. No capability is needed.
func TestPrivileged6(t *testing.T) {
	t.Parallel()
	l, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, l.Close())
	p, r := openTest(t, Config{Addr: netip.IPv6Loopback(), Port: uint16(30000 + os.Getpid()%10000), Privileged: true})
	rt, err := p.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: p.core.GID, TrafficClass: 0x68, HopLimit: 3}},
		rvt.Flow{Datagram: true})
	require.NoError(t, err)
	p.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, DestQP: 5, SrcQP: 3, N: 1, Len: 4,
		Payload: [][]byte{{1, 2, 3, 4}}, Route: rt}})
	g, err := wire.ParseGRHArea(r.Packets(t, 1)[0].GRH)
	require.NoError(t, err)
	assert.EqualValues(t, 0x68, g.TrafficClass)
	assert.EqualValues(t, 3, g.HopLimit)
	checkRoundTrip(t, p, r, p, r)
}

// Without the capability, the error names what is missing and what to do.
func TestPrivilegedRefused(t *testing.T) {
	errs := make(chan error, 1)
	go func() {
		// Capabilities belong to a thread. This one ends with the goroutine, which stays locked to it.
		runtime.LockOSThread()
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var d [2]unix.CapUserData
		if err := unix.Capset(&h, &d[0]); err != nil {
			errs <- fmt.Errorf("capset: %w", err)
			return
		}
		_, err := New(Config{Addr: linktest.Addr(), Privileged: true})
		errs <- err
	}()
	err := <-errs
	require.ErrorIs(t, err, unix.EPERM)
	for _, say := range []string{"CAP_NET_RAW", "setcap", "root", "Privileged"} {
		assert.ErrorContains(t, err, say)
	}
}

func TestPrivilegedElsewhere(t *testing.T) {
	c := Config{Privileged: true}
	require.NoError(t, c.checkPrivileged("linux"))
	require.ErrorContains(t, c.checkPrivileged("darwin"), "darwin")
	c.Portable = true
	_, err := New(Config{Addr: linktest.Addr(), Privileged: true, Portable: true})
	require.ErrorContains(t, err, "exclude each other")
}

// Datagrams that the system drops because the buffer is full are counted, also after the port is closed.
func TestKernelDrops(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{}, {Privileged: true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			if c.Privileged {
				needRaw(t)
			}
			a, _ := openTest(t, Config{})
			c.Addr = linktest.Addr()
			p, err := New(c) // and never started
			require.NoError(t, err)
			b := p
			drops := func() uint64 {
				m := map[string]uint64{}
				b.AddCounters(m)
				return m["udp_kernel_drops"]
			}
			require.Zero(t, drops())
			body := make([]byte, 8*4096)
			for range 1 + 2*4*bufferWish/len(body) {
				a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, N: 8, MTU: 4096, Len: uint32(len(body)),
					Payload: [][]byte{body}, Route: routeTo(t, a, b)}})
			}
			n := drops()
			require.NotZero(t, n)
			require.NoError(t, b.Close())
			require.Equal(t, n, drops())
		})
	}
}
