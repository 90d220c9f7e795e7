package wire_test

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/wire"
)

// ibtaSample is the sample packet of IBTA vol 1, 7.8.1, without VCRC: an RDMA WRITE ONLY of 14 bytes in a local packet.
// It checks the mask of local packets (VL, BTH byte 4) and the byte order of the ICRC independently of captures.
const ibtaSample = "7012375c000e17d2" + "0a2024870087b1b3000dec2a" + "01710a1c015d400238f27a050000000e" +
	"bb884d85fd5cfba4728bc0690ed40000" + "9625b75a"

func TestIBTASample(t *testing.T) {
	b, err := hex.DecodeString(ibtaSample)
	require.NoError(t, err)
	vcrc := bitwiseCRC(16, 0x100b, b)
	b = binary.LittleEndian.AppendUint16(b, uint16(vcrc))

	var p wire.LinkPacket
	require.NoError(t, wire.ParseLinkPacket(b, &p))
	require.NoError(t, wire.CheckLinkCRC(b, &p))
	assert.False(t, p.Global())
	assert.Equal(t, wire.LRH{VL: 7, SL: 1, LNH: wire.LNHLocal, DLID: 0x375c, SLID: 0x17d2, PktLen: 14}, p.LRH)
	assert.Equal(t, wire.BTH{Opcode: wire.RCWriteOnly, PKey: 0x2487, DestQP: 0x87b1b3, PSN: 0x0dec2a, Pad: 2},
		p.Packet.BTH)
	assert.Equal(t, wire.RETH{VA: 0x01710a1c015d4002, RKey: 0x38f27a05, DMALen: 14}, p.Packet.RETH)
	assert.Len(t, p.Packet.Payload, 14)
	assert.Equal(t, b, wire.AppendLinkPacket(nil, &p))

	// Switches may change VL and BTH byte 4. The VCRC covers them, and the ICRC does not.
	for _, at := range []int{0, wire.LRHLen + 4} {
		c := append([]byte(nil), b...)
		c[at] ^= 0xc0
		require.NoError(t, wire.ParseLinkPacket(c, &p))
		err := wire.CheckLinkCRC(c, &p)
		require.ErrorIs(t, err, wire.ErrChecksum)
		require.ErrorContains(t, err, "VCRC")
		wire.VCRC(0).Update(c[:len(c)-wire.VCRCLen]).Put(c[len(c)-wire.VCRCLen:])
		require.NoError(t, wire.ParseLinkPacket(c, &p))
		require.NoError(t, wire.CheckLinkCRC(c, &p))
	}
	// Both CRCs cover everything else.
	for i := range len(b) - wire.VCRCLen {
		c := append([]byte(nil), b...)
		c[i] ^= 0x01
		wire.VCRC(0).Update(c[:len(c)-wire.VCRCLen]).Put(c[len(c)-wire.VCRCLen:])
		err := wire.ParseLinkPacket(c, &p)
		if err == nil {
			err = wire.CheckLinkCRC(c, &p)
		}
		if i == wire.LRHLen+4 {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "byte %d", i)
	}
}

func TestVCRCAgainstTextbook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes")
		want := wire.VCRC(bitwiseCRC(16, 0x100b, b))
		require.Equal(t, want, wire.VCRC(0).Update(b))
		k := rapid.IntRange(0, len(b)).Draw(t, "cut")
		require.Equal(t, want, wire.VCRC(0).Update(b[:k]).Update(b[k:]))
	})
}

func genGID(t *rapid.T, name string) [16]byte {
	return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
}

func TestLinkPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nib := rapid.Uint8Range(0, 15)
		p := wire.LinkPacket{Packet: genPacket(t)}
		p.LRH = wire.LRH{VL: nib.Draw(t, "VL"), SL: nib.Draw(t, "SL"), LNH: rapid.Uint8Range(wire.LNHLocal,
			wire.LNHGlobal).Draw(t, "LNH"),
			DLID: rapid.Uint16().Draw(t, "DLID"), SLID: rapid.Uint16().Draw(t, "SLID")}
		if p.Global() {
			p.GRH = wire.GRH{TrafficClass: rapid.Byte().Draw(t, "TC"), FlowLabel: rapid.Uint32Range(0,
				wire.MaskFlowLabel).Draw(t, "FL"),
				HopLimit: rapid.Byte().Draw(t, "hops"), SGID: genGID(t, "SGID"), DGID: genGID(t, "DGID")}
		}
		b := wire.AppendLinkPacket(nil, &p)
		var q wire.LinkPacket
		require.NoError(t, wire.ParseLinkPacket(b, &q))
		require.Equal(t, p, q)
		require.NoError(t, wire.CheckLinkCRC(b, &q))

		// The ICRC does not cover the LRH of a global packet, and covers that of a local packet except the VL.
		plain := append([]byte(nil), b[:len(b)-wire.VCRCLen-wire.ICRCLen]...)
		bth := wire.LRHLen
		if p.Global() {
			copy(plain, "\xff\xff\xff\xff\xff\xff\xff\xff\x6f\xff\xff\xff")
			plain[wire.LRHLen+7] = 0xff
			bth += wire.GRHLen
		}
		plain[0] |= 0xf0
		plain[bth+4] = 0xff
		require.Equal(t, bitwiseCRC(32, 0x04c11db7, plain), q.Packet.ICRC)
		require.EqualValues(t, bitwiseCRC(16, 0x100b, b[:len(b)-wire.VCRCLen]), q.VCRC)
	})
}

func TestParseLinkPacketErrors(t *testing.T) {
	p := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHGlobal},
		Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly}, Payload: []byte("abcd")}}
	good := wire.AppendLinkPacket(nil, &p)
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
		want error
		text string
	}{
		{"short", func(b []byte) []byte { return b[:25] }, wire.ErrShort,
			"25 bytes, want at least 26 for an IBA packet"},
		{"version", func(b []byte) []byte { b[0] = 1; return b }, wire.ErrVersion, "link version 1"},
		{"cut", func(b []byte) []byte { return b[:len(b)-4] }, wire.ErrLength,
			"LRH packet length 17 (70 bytes with VCRC), got 66 bytes"},
		{"longer", func(b []byte) []byte { return append(b, 0) }, wire.ErrLength, "got 71"},
		{"raw", func(b []byte) []byte { b[1] = 0; return b }, wire.ErrLinkLayer, "LNH 0"},
		{"raw IPv6", func(b []byte) []byte { b[1] = 1; return b }, wire.ErrLinkLayer, "LNH 1"},
		{"GRH version", func(b []byte) []byte { b[8] = 0x40; return b }, wire.ErrVersion, "IP version 4"},
		{"GRH payload", func(b []byte) []byte { b[13] = 16; return b }, wire.ErrLength,
			"GRH payload length 16, got 20"},
		{"GRH payload beyond", func(b []byte) []byte { b[12] = 9; return b }, wire.ErrLength,
			"payload length 2324 in 20 bytes"},
		{"next header", func(b []byte) []byte { b[14] = 17; return b }, wire.ErrProtocol,
			"GRH next header 0x11, want 0x1b"},
		{"opcode", func(b []byte) []byte { b[48] = 0x1e; return b }, wire.ErrOpcode, "Opcode(0x1e)"},
		{"GRH cut", func(b []byte) []byte { b[5] = 6; return b[:26] }, wire.ErrShort, "16 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q wire.LinkPacket
			err := wire.ParseLinkPacket(c.edit(append([]byte(nil), good...)), &q)
			require.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.text)
		})
	}
}

func TestCheckLinkCRCFindsICRC(t *testing.T) {
	p := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal},
		Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly}, Payload: []byte("abcd")}}
	b := wire.AppendLinkPacket(nil, &p)
	b[len(b)-3] ^= 1
	wire.VCRC(0).Update(b[:len(b)-2]).Put(b[len(b)-2:])
	require.NoError(t, wire.ParseLinkPacket(b, &p))
	err := wire.CheckLinkCRC(b, &p)
	require.ErrorIs(t, err, wire.ErrChecksum)
	assert.ErrorContains(t, err, "ICRC")
}
