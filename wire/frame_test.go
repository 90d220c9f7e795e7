package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/wire"
)

func genFrame(t *rapid.T) wire.Frame {
	f := wire.Frame{Packet: genPacket(t)}
	f.Eth = wire.Ethernet{Dst: [6]byte{2, 0, 0, 0, 0, 1}, Src: [6]byte{2, 0, 0, 0, 0, 2},
		EtherType: rapid.SampledFrom([]uint16{wire.EtherTypeIPv4, wire.EtherTypeIPv6, wire.EtherTypeRoCEv1}).Draw(t,
			"type")}
	if rapid.Bool().Draw(t, "tagged") {
		f.Eth.Tagged, f.Eth.TCI = true, rapid.Uint16().Draw(t, "TCI")
	}
	tc, hops := rapid.Byte().Draw(t, "TC"), rapid.Byte().Draw(t, "hops")
	src, dst := genGID(t, "source"), genGID(t, "destination")
	label := rapid.Uint32Range(0, wire.MaskFlowLabel).Draw(t, "flow label")
	switch f.Eth.EtherType {
	case wire.EtherTypeIPv4:
		f.IP4 = wire.IPv4{TOS: tc, ID: rapid.Uint16().Draw(t, "ID"), TTL: hops, Src: [4]byte(src[:]),
			Dst:  [4]byte(dst[:]),
			Frag: rapid.SampledFrom([]uint16{0, wire.IPv4DontFragment}).Draw(t, "DF")}
	case wire.EtherTypeIPv6:
		f.IP6 = wire.IPv6{TrafficClass: tc, FlowLabel: label, HopLimit: hops, Src: src, Dst: dst}
	default:
		f.GRH = wire.GRH{TrafficClass: tc, FlowLabel: label, HopLimit: hops, SGID: src, DGID: dst}
		return f
	}
	f.UDP = wire.UDP{SrcPort: rapid.Uint16().Draw(t, "port"), Checksum: rapid.Uint16().Draw(t, "UDP checksum")}
	return f
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFrame(t)
		b := wire.AppendFrame(nil, &f)
		n := f.Eth.Len()
		var g wire.Frame
		// Ethernet pads short frames.
		require.NoError(t, wire.ParseFrame(append(append([]byte(nil), b...), 0, 0, 0), &g))
		require.Equal(t, f, g)
		require.NoError(t, g.CheckICRC())
		if f.Eth.EtherType != wire.EtherTypeRoCEv1 {
			require.Equal(t, b[n:], wire.AppendIP(nil, &f))
			require.NoError(t, wire.ParseIP(b[n:], &g))
			g.Eth = f.Eth
			require.Equal(t, f, g)
			require.Equal(t, plainICRC(golden{ip: b[n:]}, ""), f.Packet.ICRC)
			return
		}
		// Annex A16: ones in place of the LRH, then the GRH with its variant fields as ones.
		plain := append([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), b[n:len(b)-wire.ICRCLen]...)
		copy(plain[8:], "\x6f\xff\xff\xff")
		plain[8+7], plain[8+wire.GRHLen+4] = 0xff, 0xff
		require.Equal(t, bitwiseCRC(32, 0x04c11db7, plain), f.Packet.ICRC)
	})
}

func TestCheckICRCNotices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFrame(t)
		wire.AppendFrame(nil, &f)
		require.NoError(t, f.CheckICRC())
		f.Packet.ICRC ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit")
		require.ErrorIs(t, f.CheckICRC(), wire.ErrChecksum)
	})
}

func TestParseFrameErrors(t *testing.T) {
	v4 := wire.Frame{Eth: wire.Ethernet{EtherType: wire.EtherTypeIPv4},
		Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly}}}
	v6 := wire.Frame{Eth: wire.Ethernet{EtherType: wire.EtherTypeIPv6}, Packet: v4.Packet}
	v1 := wire.Frame{Eth: wire.Ethernet{EtherType: wire.EtherTypeRoCEv1}, Packet: v4.Packet}
	set := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	// sum corrects the IPv4 header checksum, so that the edit is the only error.
	sum := func(edit func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte {
			b = edit(b)
			b[24], b[25] = 0, 0
			var s uint32
			for i := 14; i < 34; i += 2 {
				s += uint32(b[i])<<8 | uint32(b[i+1])
			}
			s = s>>16 + s&0xffff
			s = ^(s>>16 + s&0xffff)
			b[24], b[25] = byte(s>>8), byte(s)
			return b
		}
	}
	for _, c := range []struct {
		name string
		f    wire.Frame
		edit func([]byte) []byte
		want error
		text string
	}{
		{"no Ethernet", v4, cut(13), wire.ErrShort, "13 bytes, want at least 14 for an Ethernet header"},
		{"no tag", v4, func(b []byte) []byte { return set(12, 0x81, 0)(b)[:16] }, wire.ErrShort,
			"want at least 18 for an Ethernet header with a VLAN tag"},
		{"ARP", v4, set(12, 0x08, 0x06), wire.ErrProtocol, "EtherType 0x0806"},
		{"two tags", v4, set(12, 0x81, 0, 0, 1, 0x81, 0), wire.ErrProtocol, "EtherType 0x8100"},
		{"IPv4 short", v4, cut(33), wire.ErrShort, "19 bytes, want at least 20 for an IPv4 header"},
		{"IPv4 version", v4, set(14, 0x65), wire.ErrVersion, "IP version 6, want 4"},
		{"IPv4 options", v4, set(14, 0x46), wire.ErrLength, "6 words"},
		{"IPv4 too long", v4, sum(set(16, 9, 9)), wire.ErrLength, "IPv4 total length 2313 in 44 bytes"},
		{"IPv4 too small", v4, sum(set(16, 0, 19)), wire.ErrLength, "IPv4 total length 19"},
		{"IPv4 checksum", v4, set(24, 1, 2), wire.ErrChecksum, "0x0102"},
		{"IPv4 more fragments", v4, sum(set(20, 0x20)), wire.ErrFragment, "0x2000"},
		{"IPv4 offset", v4, sum(set(20, 0, 1)), wire.ErrFragment, "0x0001"},
		{"IPv4 TCP", v4, sum(set(23, 6)), wire.ErrProtocol, "IPv4 protocol 6"},
		{"UDP port", v4, set(36, 0, 53), wire.ErrProtocol, "UDP port 53"},
		{"UDP long", v4, set(38, 0, 25), wire.ErrLength, "UDP length 25 in 24"},
		{"UDP small", v4, set(38, 0, 7), wire.ErrLength, "UDP length 7"},
		{"UDP shorter than IP", v4, set(38, 0, 20), wire.ErrLength, "UDP length 20 in an IP payload of 24"},
		{"no UDP", v4, sum(set(16, 0, 27)), wire.ErrShort, "7 bytes, want at least 8 for a UDP header"},
		{"transport", v4, set(42, 0x1f), wire.ErrOpcode, "Opcode(0x1f)"},
		{"IPv6 short", v6, cut(53), wire.ErrShort, "39 bytes, want at least 40 for an IPv6 header"},
		{"IPv6 version", v6, set(14, 0x40), wire.ErrVersion, "IP version 4, want 6"},
		{"IPv6 long", v6, set(18, 0, 25), wire.ErrLength, "IPv6 payload length 25 in 24"},
		{"IPv6 extension", v6, set(20, 0), wire.ErrProtocol, "IPv6 next header 0"},
		{"GRH next", v1, set(20, 17), wire.ErrProtocol, "GRH next header 0x11"},
		{"GRH payload", v1, set(18, 0, 15), wire.ErrShort, "15 bytes, want at least 16 for BTH and ICRC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g wire.Frame
			err := wire.ParseFrame(c.edit(wire.AppendFrame(nil, &c.f)), &g)
			require.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.text)
		})
	}
	var g wire.Frame
	require.ErrorIs(t, wire.ParseIP(nil, &g), wire.ErrShort)
	require.ErrorIs(t, wire.ParseIP([]byte{0x50}, &g), wire.ErrVersion)
}
