package lnd

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nidA = must(NIDOf(0, netip.MustParseAddr("10.0.0.1")))
	nidB = must(NIDOf(3, netip.MustParseAddr("10.0.0.2")))
)

// header is the first 48 bytes of every golden message: from 10.0.0.1@o2ib, to 10.0.0.2@o2ib3.
func header(typ, nob string) string {
	return "911be90b 1200 " + typ + " 05 " + nob + " 00000000" +
		" 0100000a 00000500 8877665544332211" + // srcnid, srcstamp
		" 0200000a 03000500 00ffeeddccbbaa99" // dstnid, dststamp
}

// lnetPut is LNet's header of a PUT of 300 bytes.
const lnetPut = " 0200000a03000500 0100000a00000500 39300000 39300000 01000000 2c010000" + // nids, pids, type, length
	" 0100000000000000 0200000000000000 0df0adba00000000 efbeadde00000000 07000000 00100000" // handle, match, header data, portal, offset

const desc2 = " 78563412 02000000 00100000 0000efcdab896745 00020000 00a0000000000000"

func base(t Type) Message {
	return Message{Version: version2, Type: t, Credits: 5, From: nidA, FromStamp: 0x1122334455667788, To: nidB, ToStamp: 0x99aabbccddeeff00}
}

func put300() LNetHeader {
	return LNetHeader{To: nidB, From: nidA, ToPID: 12345, FromPID: 12345, Type: LNetPut, PayloadLen: 300, Handle: Handle{1, 2},
		Address: Address{Portal: 7, Match: 0xbaadf00d, Offset: 0x1000}, Header: 0xdeadbeef}
}

// golden are messages whose bytes were put together by hand from the table of the protocol.
func golden() []struct {
	name, bytes string
	m           Message
} {
	desc := Descriptor{Key: 0x12345678, Frags: []Frag{{Addr: 0x456789abcdef0000, Len: 4096}, {Addr: 0xa000, Len: 512}}}
	with := func(t Type, f func(*Message)) Message {
		m := base(t)
		f(&m)
		return m
	}
	params := Params{Depth: 8, MaxFrags: 257, MsgSize: 4096}
	return []struct {
		name, bytes string
		m           Message
	}{
		{"CONNREQ", header("c0", "38000000") + " 0800 0101 00100000", with(ConnReq, func(m *Message) { m.Params = params })},
		{"CONNACK", header("c1", "38000000") + " 0800 0101 00100000", with(ConnAck, func(m *Message) { m.Params = params })},
		{"NOOP", header("d0", "30000000"), base(Noop)},
		{"IMMEDIATE", header("d1", "7b000000") + lnetPut + " 616263", with(Immediate, func(m *Message) { m.LNet = put300(); m.Payload = []byte("abc") })},
		{"PUT_REQ", header("d2", "80000000") + lnetPut + " 0807060504030201", with(PutReq, func(m *Message) { m.LNet = put300(); m.Cookie = 0x0102030405060708 })},
		{"PUT_NAK", header("d3", "3c000000") + " 0807060504030201 c3ffffff", with(PutNak, func(m *Message) { m.Cookie = 0x0102030405060708; m.Status = -61 })},
		{"PUT_ACK", header("d4", "60000000") + " 0807060504030201 1100000000000000" + desc2,
			with(PutAck, func(m *Message) { m.Cookie = 0x0102030405060708; m.SinkCookie = 0x11; m.Desc = desc })},
		{"PUT_DONE", header("d5", "3c000000") + " 1100000000000000 00000000", with(PutDone, func(m *Message) { m.Cookie = 0x11 })},
		{"GET_REQ", header("d6", "a0000000") + lnetPut + " 0807060504030201" + desc2,
			with(GetReq, func(m *Message) { m.LNet = put300(); m.Cookie = 0x0102030405060708; m.Desc = desc })},
		{"GET_DONE", header("d7", "3c000000") + " 0807060504030201 00001000", with(GetDone, func(m *Message) { m.Cookie = 0x0102030405060708; m.Status = 1 << 20 })},
	}
}

func unhex(s string) []byte { return must(hex.DecodeString(strings.ReplaceAll(s, " ", ""))) }

func TestMessageGolden(t *testing.T) {
	for _, tt := range golden() {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.name, tt.m.Type.String())
			require.Equal(t, unhex(tt.bytes), tt.m.Append(nil, false))
			got, err := Parse(unhex(tt.bytes))
			require.NoError(t, err)
			require.Equal(t, tt.m.Append(nil, false), got.Append(nil, false))
			// The same from a big-endian machine: other bytes, same message; cookies and LNet's header as they are.
			big := tt.m.append(nil, binary.BigEndian, false)
			require.Equal(t, unhex("0be91b91"), big[:4])
			got, err = Parse(big)
			require.NoError(t, err)
			require.Equal(t, tt.m.Append(nil, false), got.Append(nil, false))
			for _, b := range [][]byte{tt.m.Append(nil, true), tt.m.append(nil, binary.BigEndian, true)} {
				got, err = Parse(append(b, "what follows is nobody's"...))
				require.NoError(t, err)
				require.Equal(t, tt.m.Append(nil, false), got.Append(nil, false))
				b[len(b)-1] ^= 0x10
				_, err = Parse(b)
				require.ErrorIs(t, err, ErrMessage, "a bit flipped")
				_, err = Parse(b[:len(b)-1])
				require.ErrorIs(t, err, ErrMessage, "a byte short")
			}
		})
	}
}

// The sum is rotated left by one before each byte is added; a byte from 0x80 counts as negative or not.
func TestChecksum(t *testing.T) {
	b := make([]byte, 17)
	b[10], b[11], b[12], b[16] = 1, 2, 99, 0x80
	// 1; 1<<1+2 = 4; <<4 for the four bytes of the field that count as 0 = 0x40; then 0x80+0x80 = 0x100, or 0x80-0x80 = 0, which stands as 1.
	require.EqualValues(t, 0x100, sumUnsigned(b))
	require.EqualValues(t, 1, sumSigned(b))
	m := base(Noop)
	msg := m.Append(nil, false)
	binary.LittleEndian.PutUint32(msg[12:], sumUnsigned(msg))
	_, err := Parse(msg)
	require.NoError(t, err, "the sum of a machine with unsigned characters")
	require.NotEqual(t, sumSigned(msg), sumUnsigned(msg))
}

func TestParseRefuses(t *testing.T) {
	edit := func(t Type, f func(b []byte) []byte) []byte {
		for _, g := range golden() {
			if g.m.Type == t {
				return f(unhex(g.bytes))
			}
		}
		panic("no such message")
	}
	tests := []struct {
		name string
		b    []byte
		is   error
		says string
	}{
		{"nothing", nil, ErrMessage, "0 bytes"},
		{"another protocol", []byte("GET / HTTP/1.1\r\n"), ErrMagic, "47 45 54 20"},
		{"another version", edit(Noop, func(b []byte) []byte { b[4] = 0x13; return b[:6] }), ErrVersion, "0x13"},
		{"header cut", edit(Noop, func(b []byte) []byte { return b[:47] }), ErrMessage, "47 bytes"},
		{"length too small", edit(Noop, func(b []byte) []byte { b[8] = 47; return b }), ErrMessage, "47 bytes"},
		{"unknown type", edit(Noop, func(b []byte) []byte { b[6] = 0x42; return b }), ErrMessage, "0x42"},
		{"body cut", edit(PutReq, func(b []byte) []byte { b[8] = 127; return b[:127] }), ErrMessage, "PUT_REQ of 127"},
		{"no pieces", edit(PutAck, func(b []byte) []byte { b[68] = 0; return b }), ErrMessage, "0 pieces"},
		{"more pieces than there are", edit(PutAck, func(b []byte) []byte { b[68] = 3; return b }), ErrMessage, "3 pieces"},
		{"too many pieces", edit(PutAck, func(b []byte) []byte { b[69] = 2; return b }), ErrMessage, "514 pieces"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.b)
			require.ErrorIs(t, err, tt.is)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestReject(t *testing.T) {
	r := Reject{Version: version2, Why: WhyStale, Stamp: 0x1122334455667788, Params: Params{Depth: 8, MaxFrags: 256, MsgSize: 4096}}
	b := unhex("911be90b 1200 05 00 8877665544332211 0800 0001 00100000")
	require.Equal(t, b, r.Append(nil))
	got, err := ParseReject(append(b, 0, 0, 0)) // as REJ brings it
	require.NoError(t, err)
	require.Equal(t, &r, got)
	got, err = ParseReject(unhex("0be91b91 0012 05 00 1122334455667788 0008 0100 00001000"))
	require.NoError(t, err)
	require.Equal(t, &r, got)
	_, err = ParseReject(b[:23])
	require.ErrorIs(t, err, ErrMessage)
	_, err = ParseReject(make([]byte, 148))
	require.ErrorIs(t, err, ErrMagic)
	require.ErrorContains(t, &r, "restarted")
}

func FuzzParse(f *testing.F) {
	for _, g := range golden() {
		f.Add(unhex(g.bytes))
		f.Add(g.m.append(nil, binary.BigEndian, true))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		for _, o := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, sum := range []bool{false, true} {
				out := m.append(nil, o, sum)
				again, err := Parse(out)
				require.NoError(t, err)
				require.Equal(t, out, again.append(nil, o, sum))
				require.Equal(t, m.Append(nil, false), again.Append(nil, false))
			}
		}
	})
}

func FuzzParseReject(f *testing.F) {
	f.Add((&Reject{Version: version2, Why: WhyRace}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseReject(b)
		if err != nil {
			return
		}
		again, err := ParseReject(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.NotEmpty(t, r.Error())
	})
}

func TestNID(t *testing.T) {
	require.Equal(t, "10.0.0.1@o2ib", nidA.String())
	require.Equal(t, "10.0.0.2@o2ib3", nidB.String())
	require.Equal(t, netip.MustParseAddr("10.0.0.2"), nidB.Addr())
	require.Contains(t, NID(0x0002000000000001).String(), "<2:0>")
	_, err := NIDOf(0, netip.MustParseAddr("fe80::1"))
	require.ErrorContains(t, err, "IPv4")
	_, err = NIDOf(0, netip.Addr{})
	require.ErrorContains(t, err, "IPv4")
	// 0x0100000a against 0x0002000a: the last byte counts most.
	low, high := must(NIDOf(0, netip.MustParseAddr("10.0.2.0"))), must(NIDOf(0, netip.MustParseAddr("10.0.0.1")))
	require.Less(t, low.rank(), high.rank())
	require.EqualValues(t, 0x00050000^0x0100000a, high.rank())
}
