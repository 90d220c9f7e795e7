package wire_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/wire"
)

// bitwiseCRC computes a CRC with the textbook shift register, one bit at a time, least significant bit of each byte
// first. It shares no code or table with the package. The result is complemented and reversed, so that bit 0 is the
// first bit on the wire.
func bitwiseCRC(width uint, poly uint32, b []byte) uint32 {
	ones := uint32(1)<<width - 1
	r := ones
	for _, v := range b {
		for i := range 8 {
			in := uint32(v>>i) & 1
			out := r >> (width - 1) & 1
			r = r << 1 & ones
			if in^out != 0 {
				r ^= poly
			}
		}
	}
	r ^= ones
	var rev uint32
	for i := range width {
		rev |= (r >> i & 1) << (width - 1 - i)
	}
	return rev
}

// maskedField is a part of an IP packet that counts as ones in the ICRC.
type maskedField struct {
	name string
	off  int
	bits []byte // mask of the bits, from byte off on
}

func maskedFields(g golden) []maskedField {
	n := g.ipLen()
	fs := []maskedField{
		{"UDP checksum", n + 6, []byte{0xff, 0xff}},
		{"BTH byte 4", n + wire.UDPLen + 4, []byte{0xff}},
	}
	if g.v4() {
		return append(fs, maskedField{"TOS", 1, []byte{0xff}}, maskedField{"TTL", 8, []byte{0xff}},
			maskedField{"IPv4 checksum", 10, []byte{0xff, 0xff}})
	}
	return append(fs, maskedField{"traffic class", 0, []byte{0x0f, 0xf0}},
		maskedField{"flow label", 1, []byte{0x0f, 0xff, 0xff}},
		maskedField{"hop limit", 7, []byte{0xff}})
}

// plainICRC computes the ICRC of an IP packet bit by bit, without the mask of one field.
func plainICRC(g golden, unmasked string) uint32 {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, g.ip[:len(g.ip)-wire.ICRCLen]...)
	for _, f := range maskedFields(g) {
		if f.name != unmasked {
			for i, m := range f.bits {
				b[8+f.off+i] |= m
			}
		}
	}
	return bitwiseCRC(32, 0x04c11db7, b)
}

func TestICRCAgainstTextbook(t *testing.T) {
	eachGolden(t, func(t *testing.T, g golden) {
		want := binary.LittleEndian.Uint32(g.ip[len(g.ip)-wire.ICRCLen:])
		require.Equal(t, want, plainICRC(g, ""), "textbook")
		for _, f := range maskedFields(g) {
			require.NotEqual(t, want, plainICRC(g, f.name), "%s left unmasked", f.name)
		}
		var fr wire.Frame
		require.NoError(t, wire.ParseIP(g.ip, &fr))
		require.NoError(t, fr.CheckICRC())
	})
}

// TestICRCEveryBit flips each bit of a packet. The ICRC must stay correct for bits in a masked field, and become wrong
// for all others.
func TestICRCEveryBit(t *testing.T) {
	eachGolden(t, func(t *testing.T, g golden) {
		var f wire.Frame
		require.NoError(t, wire.ParseIP(g.ip, &f))
		icrc := func(ip []byte) uint32 {
			n := g.ipLen()
			c := rawStart(ip, n)
			return uint32(c.Transport(ip[n+wire.UDPLen : len(ip)-wire.ICRCLen]))
		}
		masked := make([]byte, len(g.ip))
		for _, m := range maskedFields(g) {
			for i, bits := range m.bits {
				masked[m.off+i] |= bits
			}
		}
		// TestICRCAgainstTextbook covers version and IHL, which have no field in the structs, and the protocol and the
		// two lengths, which are computed.
		first, skip := 1, map[int]bool{2: true, 3: true, 9: true}
		if !g.v4() {
			first, skip = 0, map[int]bool{4: true, 5: true, 6: true}
		}
		skip[g.ipLen()+4], skip[g.ipLen()+5] = true, true
		b := append([]byte(nil), g.ip...)
		for i := first; i < len(b)-wire.ICRCLen; i++ {
			if skip[i] {
				continue
			}
			for bit := range 8 {
				if i == 0 && bit >= 4 {
					continue // IPv6 version
				}
				b[i] ^= 1 << bit
				same := icrc(b) == f.Packet.ICRC
				require.Equal(t, masked[i]>>bit&1 != 0, same, "byte %d bit %d", i, bit)
				b[i] ^= 1 << bit
			}
		}
	})
}

// rawStart returns the ICRC of the headers in front of the BTH, from the bytes of a packet. It accepts all values of
// fields.
func rawStart(ip []byte, ipLen int) wire.ICRC {
	u := ip[ipLen:]
	sport, dport := binary.BigEndian.Uint16(u), binary.BigEndian.Uint16(u[2:])
	n := len(ip) - ipLen - wire.UDPLen
	if ipLen == wire.IPv4Len {
		return wire.NewFlow4([4]byte(ip[12:]), [4]byte(ip[16:]), sport, dport, binary.BigEndian.Uint16(ip[6:])).
			Start(n, binary.BigEndian.Uint16(ip[4:]))
	}
	return wire.NewFlow6([16]byte(ip[8:]), [16]byte(ip[24:]), sport, dport).Start(n)
}

// TestFlowStart compares the tables of Start with the textbook CRC, over lengths and IDs of every magnitude.
func TestFlowStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 4 * rapid.IntRange(4, 65504/4).Draw(t, "words")
		id := rapid.Uint16().Draw(t, "id")
		f := wire.Frame{
			IP4: wire.IPv4{TotalLen: uint16(n + 28), ID: id,
				Frag:     rapid.SampledFrom([]uint16{0, 0x4000}).Draw(t, "frag"),
				Protocol: wire.ProtocolUDP, Src: [4]byte{10, 1, 2, 3}, Dst: [4]byte{10, 1, 2, 4}},
			IP6: wire.IPv6{PayloadLen: uint16(n + 8), NextHeader: wire.ProtocolUDP, Src: [16]byte{0xfd, 1},
				Dst: [16]byte{0xfd, 2}},
			UDP: wire.UDP{SrcPort: rapid.Uint16().Draw(t, "sport"), DstPort: wire.RoCEv2Port, Length: uint16(n + 8)},
		}
		// With an empty transport part, the result of Start is the CRC of the headers alone.
		g4 := golden{ip: make([]byte, wire.IPv4Len+wire.UDPLen+wire.BTHLen+wire.ICRCLen)}
		f.IP4.Put(g4.ip)
		f.UDP.Put(g4.ip[wire.IPv4Len:])
		g6 := golden{ip: make([]byte, wire.IPv6Len+wire.UDPLen+wire.BTHLen+wire.ICRCLen)}
		f.IP6.Put(g6.ip)
		f.UDP.Put(g6.ip[wire.IPv6Len:])
		zero := make([]byte, wire.BTHLen)
		c4 := wire.NewFlow4(f.IP4.Src, f.IP4.Dst, f.UDP.SrcPort, f.UDP.DstPort, f.IP4.Frag).Start(n, id)
		require.Equal(t, plainICRC(g4, ""), uint32(c4.Headers(zero)))
		c6 := wire.NewFlow6(f.IP6.Src, f.IP6.Dst, f.UDP.SrcPort, f.UDP.DstPort).Start(n)
		require.Equal(t, plainICRC(g6, ""), uint32(c6.Headers(zero)))
	})
}

func TestICRCPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPacket(t)
		p.BTH.Resv6 = rapid.Byte().Draw(t, "reserved") & 0x3f
		b := wire.AppendPacket(nil, &p)
		b = b[:len(b)-wire.ICRCLen]
		start := wire.NewFlow4([4]byte{1}, [4]byte{2}, 3, 4, 0).Start(len(b)+wire.ICRCLen, 77)
		want := start.Transport(b)

		n := p.BTH.Opcode.HeaderLen()
		c := start.Headers(b[:n])
		for rest := p.Payload; len(rest) > 0; {
			k := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			c, rest = c.Update(rest[:k]), rest[k:]
		}
		require.Equal(t, want, c.Pad(p.BTH.Pad))
	})
}

func TestSolveIPv4ID(t *testing.T) {
	gs := loadGolden(t)
	for _, g := range gs {
		if !g.v4() {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			id := binary.BigEndian.Uint16(g.ip[4:])
			zero := append([]byte(nil), g.ip...)
			zero[4], zero[5] = 0, 0
			got := plainICRC(golden{ip: zero}, "")
			want := binary.LittleEndian.Uint32(g.ip[len(g.ip)-4:])
			solved, ok := wire.SolveIPv4ID(got, want, len(g.transport())-wire.ICRCLen)
			require.True(t, ok)
			require.Equal(t, id, solved)
		})
	}
}

func TestSolveIPv4IDAll(t *testing.T) {
	f := wire.NewFlow4([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 0xc123, wire.RoCEv2Port, wire.IPv4DontFragment)
	b := make([]byte, wire.BTHLen+8)
	b[4] = 0x80 // a switch may set FECN
	for id := range 1 << 16 {
		c := f.Start(len(b)+wire.ICRCLen, uint16(id)).Transport(b)
		solved, ok := wire.SolveIPv4ID(uint32(f.Start(len(b)+wire.ICRCLen, 0).Transport(b)), uint32(c), len(b))
		if !ok || int(solved) != id {
			t.Fatalf("ID %d: solved %d, %v", id, solved, ok)
		}
	}
	for _, n := range []int{12, 13, 16, 1024 + 12, 4096 + 12 + 16, 4096 + 1000, 60001} {
		t.Log("tail", n)
		b := make([]byte, n)
		got := f.Start(n+wire.ICRCLen, 0).Transport(b)
		want := f.Start(n+wire.ICRCLen, 0xbeef).Transport(b)
		id, ok := wire.SolveIPv4ID(uint32(got), uint32(want), n)
		assert.True(t, ok)
		assert.EqualValues(t, 0xbeef, id)
	}
	_, ok := wire.SolveIPv4ID(1, 2, -5)
	assert.False(t, ok)
}

// TestFirst checks that First finds the end of the first of several packets, for any contents.
func TestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := wire.NewFlow4([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 0xc123, wire.RoCEv2Port, wire.IPv4DontFragment)
		id := rapid.Uint16().Draw(t, "id")
		fill := rapid.SampledFrom([]byte{0, 1, 0xff}).Draw(t, "fill")
		n := 4 * rapid.IntRange(4, 1055).Draw(t, "words")
		b := bytes.Repeat([]byte{fill}, n)
		b[4] |= rapid.Byte().Draw(t, "FECN and the like")
		f.Start(n, id).Transport(b[:n-4]).Put(b[n-4:])
		b = append(b, rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "rest")...)
		calls := 0
		count := func(b []byte) bool { calls++; return true }
		require.Equal(t, n, f.First(b, id, n, count))
		require.Equal(t, n/4-3, calls)
		require.Equal(t, n, f.First(b, id, len(b), nil))
		require.Zero(t, f.First(b, id, n-1, nil), "too long")
		require.Zero(t, f.First(b[:n], id, n, nil), "nothing behind it")
		require.Zero(t, f.First(b, id^1, n, nil), "another identification")
		require.Zero(t, f.First(b, id, n, func(rest []byte) bool { return len(rest) != len(b)-n }))
		b[rapid.IntRange(5, n-1).Draw(t, "byte")] ^= 1
		require.Zero(t, f.First(b, id, n, nil))
	})
	require.Zero(t, wire.Flow4{}.First(nil, 0, 100, nil))
}

// With an unknown ID, the check must still detect any burst of up to 16 bits after the ID, and any single-bit or
// double-bit error.
func TestSolveIPv4IDKeepsChecking(t *testing.T) {
	eachGolden4(t, func(t *testing.T, g golden) {
		var f wire.Frame
		require.NoError(t, wire.ParseIP(g.ip, &f))
		flow := wire.NewFlow4(f.IP4.Src, f.IP4.Dst, f.UDP.SrcPort, f.UDP.DstPort, f.IP4.Frag)
		b := append([]byte(nil), g.transport()...)
		id, ok := flow.Check(b)
		require.True(t, ok)
		require.Equal(t, f.IP4.ID, id)
		for i := range b {
			if i == 4 {
				continue // not covered
			}
			for bit := range 8 {
				b[i] ^= 1 << bit
				_, ok := flow.Check(b)
				require.False(t, ok, "byte %d bit %d", i, bit)
				b[i] ^= 1 << bit
			}
			b[i] ^= 0xff
			_, ok := flow.Check(b)
			require.False(t, ok, "byte %d", i)
			b[i] ^= 0xff
		}
	})
}

// No single-bit error of any packet is equivalent to another identification. This depends only on the distance between
// the bit and the identification, and the longest packet has every distance.
func TestSolveIPv4IDSingleBit(t *testing.T) {
	f := wire.NewFlow4([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 0xc123, wire.RoCEv2Port, wire.IPv4DontFragment)
	b := make([]byte, wire.BTHLen+16+4+4096+wire.ICRCLen)
	end := len(b) - wire.ICRCLen
	f.Start(len(b), 7).Transport(b[:end]).Put(b[end:])
	for bit := range 8 * len(b) {
		if bit/8 == 4 {
			continue // not covered
		}
		b[bit/8] ^= 1 << (bit % 8)
		if id, ok := f.Check(b); ok {
			t.Fatalf("bit %d flipped passes for identification %#x", bit, id)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func TestFlowCheckShort(t *testing.T) {
	f4 := wire.NewFlow4([4]byte{}, [4]byte{}, 0, 0, 0)
	f6 := wire.NewFlow6([16]byte{}, [16]byte{}, 0, 0)
	for _, n := range []int{0, 3, 15, 17} {
		_, ok := f4.Check(make([]byte, n))
		assert.False(t, ok)
		assert.False(t, f6.Check(make([]byte, n)))
	}
}
