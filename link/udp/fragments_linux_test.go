package udp

import (
	"bytes"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/internal/linktest"
	"ciddk/wire"
)

// datagramOf returns a UDP datagram with a packet of RoCEv2 between two addresses, whose ICRC is right.
func datagramOf(src, dst netip.Addr, port, id uint16, payload []byte) []byte {
	const source = 0xc123
	w := wire.Packet{BTH: wire.BTH{Opcode: 0x64, DestQP: 5, PKey: 0xffff}, DETH: wire.DETH{SrcQP: 6}, Payload: payload}
	p := wire.AppendPacket(nil, &w)
	end := len(p) - wire.ICRCLen
	if src.Is4() {
		wire.NewFlow4(src.As4(), dst.As4(), source, port, wire.IPv4DontFragment).Start(len(p),
			id).Transport(p[:end]).Put(p[end:])
	} else {
		wire.NewFlow6(src.As16(), dst.As16(), source, port).Start(len(p)).Transport(p[:end]).Put(p[end:])
	}
	b := make([]byte, wire.UDPLen)
	(&wire.UDP{SrcPort: source, DstPort: port, Length: uint16(wire.UDPLen + len(p))}).Put(b)
	return append(b, p...)
}

// TestFragments sends packets with a right ICRC in fragments of IPv4, which RoCEv2 does not use. Those that are
// complete arrive as what was sent, and others do not arrive. The port works afterwards.
func TestFragments(t *testing.T) {
	t.Parallel()
	needRaw(t)
	type piece struct {
		from, to int  // of the datagram; 0: its end
		fill     byte // replaces the content, if not 0
	}
	for _, privileged := range []bool{false, true} {
		p, r := openTest(t, Config{Privileged: privileged})
		send, src, dst := rawIP4(t), linktest.Addr(), p.core.Addr
		id := uint16(0)
		for _, c := range []struct {
			name   string
			pieces []piece
			isHere bool
		}{
			{"whole", []piece{{}}, true},
			{"two", []piece{{to: 40}, {from: 40}}, true},
			{"reverse order", []piece{{from: 40}, {to: 40}}, true},
			{"first only", []piece{{to: 40}}, false},
			{"last only", []piece{{from: 40}}, false},
			{"gap", []piece{{to: 40}, {from: 48}}, false},
			{"other content", []piece{{to: 40}, {from: 40, fill: 1}}, false},
			{"overlap", []piece{{to: 48}, {from: 40, fill: 1}}, false},
		} {
			id++
			payload := bytes.Repeat([]byte{byte(id)}, 64)
			all := datagramOf(src, dst, p.core.UDP, id, payload)
			for _, x := range c.pieces {
				h := wire.IPv4{ID: id, Frag: wire.IPv4DontFragment | uint16(x.from/8), TTL: 9,
					Protocol: wire.ProtocolUDP, Src: src.As4(), Dst: dst.As4()}
				if x.to == 0 {
					x.to = len(all)
				} else {
					h.Frag |= 0x2000 // more fragments
				}
				h.TotalLen = uint16(wire.IPv4Len + x.to - x.from)
				h.SetChecksum()
				b := make([]byte, wire.IPv4Len)
				h.Put(b)
				body := all[x.from:x.to]
				if x.fill != 0 {
					body = bytes.Repeat([]byte{x.fill}, len(body))
				}
				send(append(b, body...))
			}
			var want [][]byte
			if c.isHere {
				want = append(want, payload)
			}
			id++
			last := []byte{1, 2, 3, byte(id)}
			whole := datagramOf(src, dst, p.core.UDP, id, last)
			h := wire.IPv4{ID: id, Frag: wire.IPv4DontFragment, TTL: 9, Protocol: wire.ProtocolUDP, Src: src.As4(),
				Dst: dst.As4(), TotalLen: uint16(wire.IPv4Len + len(whole))}
			h.SetChecksum()
			b := make([]byte, wire.IPv4Len)
			h.Put(b)
			send(append(b, whole...))
			want = append(want, last)
			var got [][]byte
			for _, x := range r.Packets(t, len(want)) {
				got = append(got, bytes.Join(x.Payload, nil))
			}
			require.Equal(t, want, got, "privileged %v, %s", privileged, c.name)
		}
	}
}

// TestExtensionHeaders sends packets with a right ICRC behind extension headers of IPv6, which RoCEv2 does not use.
// They arrive as what was sent, or not at all, as the system decides. The port works afterwards.
func TestExtensionHeaders(t *testing.T) {
	t.Parallel()
	needRaw(t)
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	defer unix.Close(fd)
	at := netip.IPv6Loopback()
	port := uint16(20000 + os.Getpid()%10000)
	p, r := openTest6(t, port, false)
	const hopByHop, routing, fragment, options = 0, 43, 44, 60
	id := byte(0)
	send := func(next byte, extension, datagram []byte) {
		h := wire.IPv6{NextHeader: next, HopLimit: 9, PayloadLen: uint16(len(extension) + len(datagram)),
			Src: at.As16(), Dst: at.As16()}
		b := make([]byte, wire.IPv6Len)
		h.Put(b)
		require.NoError(t, unix.Sendto(fd, append(append(b, extension...), datagram...), 0,
			&unix.SockaddrInet6{Addr: at.As16()}))
	}
	for _, c := range []struct {
		next      byte
		extension []byte // its first byte is the next header
		isHere    bool
	}{
		{options, []byte{wire.ProtocolUDP, 0, 1, 4, 0, 0, 0, 0}, true},
		{hopByHop, []byte{wire.ProtocolUDP, 0, 1, 4, 0, 0, 0, 0}, true},
		{options, []byte{options, 0, 1, 4, 0, 0, 0, 0, wire.ProtocolUDP, 0, 1, 4, 0, 0, 0, 0}, true},
		{options, []byte{wire.ProtocolUDP, 255, 1, 4, 0, 0, 0, 0}, false},                // too long
		{options, []byte{wire.ProtocolUDP, 0, 0xc0, 4, 0, 0, 0, 0}, false},               // an unknown option
		{fragment, []byte{wire.ProtocolUDP, 0, 0, 0, 0, 0, 0, 1}, true},                  // of one fragment
		{fragment, []byte{wire.ProtocolUDP, 0, 0, 1, 0, 0, 0, 2}, false},                 // the first of several
		{fragment, []byte{wire.ProtocolUDP, 0, 0, 8, 0, 0, 0, 3}, false},                 // the last of several
		{routing, append([]byte{wire.ProtocolUDP, 2, 0, 1}, make([]byte, 20)...), false}, // type 0
		{routing, append([]byte{wire.ProtocolUDP, 0, 253, 0}, make([]byte, 4)...), true}, // no segment left
		{59, []byte{wire.ProtocolUDP, 0, 1, 4, 0, 0, 0, 0}, false},                       // no next header
	} {
		id++
		payload, last := bytes.Repeat([]byte{id}, 64), []byte{1, 2, 3, id}
		send(c.next, c.extension, datagramOf(at, at, port, 0, payload))
		send(wire.ProtocolUDP, nil, datagramOf(at, at, port, 0, last))
		want := [][]byte{last}
		if c.isHere {
			want = [][]byte{payload, last}
		}
		var got [][]byte
		for _, x := range r.Packets(t, len(want)) {
			got = append(got, bytes.Join(x.Payload, nil))
		}
		require.Equal(t, want, got, "%d %x", c.next, c.extension)
	}
	checkRoundTrip(t, p, r, p, r)
}
