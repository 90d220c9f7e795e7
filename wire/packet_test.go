package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/wire"
)

func TestParsePacketErrors(t *testing.T) {
	pkt := func(op wire.Opcode, n int, edit func(b []byte)) []byte {
		b := make([]byte, n)
		b[0] = byte(op)
		b[7] = 0x21 // destination QP
		if edit != nil {
			edit(b)
		}
		return b
	}
	for _, c := range []struct {
		name   string
		b      []byte
		want   error
		text   string
		bthSet bool
	}{
		{"empty", nil, wire.ErrShort, "wire: packet too short: 0 bytes, want at least 16 for BTH and ICRC", false},
		{"no ICRC", make([]byte, 12), wire.ErrShort, "12 bytes", false},
		{"odd", make([]byte, 17), wire.ErrLength, "17 bytes, want a multiple of 4", false},
		{"TVer", pkt(wire.RCSendOnly, 16, func(b []byte) { b[1] = 3 }), wire.ErrVersion, "TVer 3, want 0", true},
		{"reserved opcode", pkt(0x1f, 16, nil), wire.ErrOpcode, "Opcode(0x1f)", true},
		{"RD", pkt(wire.RDSendOnly, 28, nil), wire.ErrOpcode, "RD_SEND_ONLY", true},
		{"UC read", pkt(0x2c, 32, nil), wire.ErrOpcode, "Opcode(0x2c)", true},
		{"no RETH", pkt(wire.RCReadRequest, 28, nil), wire.ErrShort, "28 bytes, want at least 32 for " +
			"RC_RDMA_READ_REQUEST",
			true},
		{"pad of nothing", pkt(wire.RCSendOnly, 16, func(b []byte) { b[1] = 0x10 }), wire.ErrPad,
			"1 pad bytes in 0", true},
		{"ACK with data", pkt(wire.RCAcknowledge, 24, nil), wire.ErrPayload, "RC_ACKNOWLEDGE with 4 bytes", true},
		{"read with data", pkt(wire.RCReadRequest, 36, nil), wire.ErrPayload,
			"RC_RDMA_READ_REQUEST with 4 bytes", true},
		{"ACK with pad", pkt(wire.RCAcknowledge, 20, func(b []byte) { b[1] = 0x20 }), wire.ErrPad,
			"2 pad bytes in 0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p wire.Packet
			err := wire.ParsePacket(c.b, &p)
			require.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.text)
			if c.bthSet {
				assert.EqualValues(t, 0x21, p.BTH.DestQP)
			}
		})
	}
}

// Every truncation of every golden packet is rejected, or parsed as a shorter packet with a wrong ICRC if it is cut at
// a multiple of 4 inside the payload.
func TestTruncation(t *testing.T) {
	eachGolden(t, func(t *testing.T, g golden) {
		var f, cut wire.Frame
		require.NoError(t, wire.ParseIP(g.ip, &f))
		tr := g.transport()
		for n := range tr {
			if err := wire.ParsePacket(tr[:n], &cut.Packet); err == nil {
				require.Zero(t, n%4)
				cut.Eth, cut.UDP = f.Eth, f.UDP
				cut.IP4, cut.IP6 = f.IP4, f.IP6
				require.ErrorIs(t, cut.CheckICRC(), wire.ErrChecksum)
			}
		}
		for n := range g.ip {
			require.Error(t, wire.ParseIP(g.ip[:n], &cut))
		}
	})
}

func TestCheckReserved(t *testing.T) {
	ok := func(op wire.Opcode, n int) wire.Packet {
		var p wire.Packet
		p.BTH.Opcode, p.Payload = op, make([]byte, n)
		return p
	}
	for _, c := range []struct {
		name string
		op   wire.Opcode
		n    int
		edit func(p *wire.Packet)
		text string
	}{
		{"clean", wire.UDSendOnly, 3, func(*wire.Packet) {}, ""},
		{"ECN is no reserved field", wire.RCSendOnly, 0, func(p *wire.Packet) { p.BTH.FECN, p.BTH.BECN = true, true },
			""},
		{"BTH byte 4", wire.RCSendOnly, 0, func(p *wire.Packet) { p.BTH.Resv6 = 1 }, "BTH byte 4"},
		{"BTH byte 8", wire.RCSendOnly, 0, func(p *wire.Packet) { p.BTH.Resv7 = 1 }, "BTH byte 8"},
		{"DETH", wire.UDSendOnly, 0, func(p *wire.Packet) { p.DETH.Resv8 = 7 }, "DETH byte 4 is 0x07"},
		{"FETH", wire.RCFlush, 0, func(p *wire.Packet) { p.FETH.Resv26 = 1 }, "FETH has reserved bits 0x1"},
		{"no DETH", wire.RCSendOnly, 0, func(p *wire.Packet) { p.DETH.Resv8 = 7 }, ""},
		{"syndrome", wire.RCAcknowledge, 0, func(p *wire.Packet) { p.AETH.Syndrome = 0x7f }, "reserved syndrome 0x7f"},
		{"pad", wire.RCSendOnly, 3, func(p *wire.Packet) { p.Padding = []byte{9} }, "pad byte 0 is 0x09"},
		{"CNP", wire.CNP, 16, func(*wire.Packet) {}, ""},
		{"CNP length", wire.CNP, 12, func(*wire.Packet) {}, "12 bytes after the BTH, want 16"},
		{"CNP contents", wire.CNP, 16, func(p *wire.Packet) { p.Payload[3] = 1 }, "CNP byte 15 is 0x01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := ok(c.op, c.n)
			c.edit(&p)
			err := p.CheckReserved()
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, wire.ErrReserved)
			assert.ErrorContains(t, err, c.text)
		})
	}
}

// validOpcodes returns the opcodes that ParsePacket accepts.
func validOpcodes() (os []wire.Opcode) {
	for i := range 256 {
		if o := wire.Opcode(i); o.Valid() {
			os = append(os, o)
		}
	}
	return os
}

// genPacket draws a packet with the headers of its opcode.
func genPacket(t *rapid.T) wire.Packet {
	var p wire.Packet
	u24 := rapid.Uint32Range(0, wire.Mask24)
	o := rapid.SampledFrom(validOpcodes()).Draw(t, "opcode")
	p.BTH = wire.BTH{Opcode: o, SE: rapid.Bool().Draw(t, "SE"), MigReq: rapid.Bool().Draw(t, "M"),
		PKey: rapid.Uint16().Draw(t, "P_Key"),
		FECN: rapid.Bool().Draw(t, "FECN"), BECN: rapid.Bool().Draw(t, "BECN"), DestQP: u24.Draw(t, "QP"),
		AckReq: rapid.Bool().Draw(t, "A"), PSN: u24.Draw(t, "PSN")}
	if o.HasDETH() {
		p.DETH = wire.DETH{QKey: rapid.Uint32().Draw(t, "Q_Key"), SrcQP: u24.Draw(t, "source QP")}
	}
	if o.HasFETH() {
		p.FETH = wire.FETH{Resv26: rapid.Uint32Max(1<<26-1).Draw(t, "reserved"), Sel: rapid.Uint8Max(3).Draw(t, "SEL"),
			Types: rapid.Uint8Max(15).Draw(t, "PLT")}
	}
	if o.HasRETH() {
		p.RETH = wire.RETH{VA: rapid.Uint64().Draw(t, "VA"), RKey: rapid.Uint32().Draw(t, "R_Key"),
			DMALen: rapid.Uint32().Draw(t, "len")}
	}
	if o.HasAtomicETH() {
		p.AtomicETH = wire.AtomicETH{VA: rapid.Uint64().Draw(t, "VA"), RKey: rapid.Uint32().Draw(t, "R_Key"),
			SwapAdd: rapid.Uint64().Draw(t, "swap"), Compare: rapid.Uint64().Draw(t, "compare")}
	}
	if o.HasAETH() {
		p.AETH = wire.AETH{Syndrome: wire.Syndrome(rapid.Byte().Draw(t, "syndrome")), MSN: u24.Draw(t, "MSN")}
	}
	if o.HasAtomicAckETH() {
		p.AtomicAckETH.Orig = rapid.Uint64().Draw(t, "orig")
	}
	if o.HasImm() {
		p.ImmDt.Imm = rapid.Uint32().Draw(t, "imm")
	}
	if o.HasIETH() {
		p.IETH.RKey = rapid.Uint32().Draw(t, "inv")
	}
	p.Payload, p.Padding = []byte{}, []byte{}
	if o.HasPayload() {
		p.Payload = rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "payload")
		p.Padding = make([]byte, wire.PadLen(len(p.Payload)))
	}
	p.BTH.Pad = uint8(len(p.Padding))
	return p
}

func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPacket(t)
		p.ICRC = rapid.Uint32().Draw(t, "ICRC")
		b := wire.AppendPacket([]byte("before"), &p)
		require.Equal(t, "before", string(b[:6]))
		b = b[6:]
		require.Len(t, b, wire.PacketLen(p.BTH.Opcode, len(p.Payload)))
		var q wire.Packet
		require.NoError(t, wire.ParsePacket(b, &q))
		require.Equal(t, p, q)
	})
}

func TestPutHeadersOfForeignOpcodes(t *testing.T) {
	b := make([]byte, wire.MaxHeaderLen)
	for i := range 256 {
		p := wire.Packet{BTH: wire.BTH{Opcode: wire.Opcode(i)}}
		n := p.PutHeaders(b)
		assert.Equal(t, wire.Opcode(i).HeaderLen(), n)
		assert.LessOrEqual(t, n, wire.MaxHeaderLen)
		assert.EqualValues(t, i, b[0])
	}
}

func TestPadLen(t *testing.T) {
	for n, want := range []uint8{0, 3, 2, 1, 0, 3} {
		assert.Equal(t, want, wire.PadLen(n))
	}
}
