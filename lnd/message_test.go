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
	nidA = must(NIDOf(netip.MustParseAddr("10.0.0.1"), 0))
	nidB = must(NIDOf(netip.MustParseAddr("::ffff:10.0.0.2"), 0))
)

// first returns the first 48 bytes of a golden message from 10.0.0.1@o2ib to 10.0.0.2@o2ib.
func first(typ, length string) string {
	return "911be90b 1200 " + typ + " 05 " + length + " 00000000" +
		" 0100000a 00000500 8877665544332211" + // srcnid, srcstamp
		" 0200000a 00000500 00ffeeddccbbaa99" // dstnid, dststamp
}

// lnetPut300 is the LNet header of a PUT of 300 bytes.
const lnetPut300 = " 0200000a00000500 0100000a00000500 39300000 39300000 01000000 2c010000" +
	// nids, pids, operation, length
	// handle, match, header data, portal, offset
	" 0100000000000000 0200000000000000 0df0adba00000000 efbeadde00000000 07000000 00100000"

const piece = " 78563412 01000000 00100000 0000efcdab896745"

type goldenMessage struct {
	name, bytes string
	m           message
}

// golden holds messages whose bytes were written by hand from the protocol's tables.
func golden() []goldenMessage {
	with := func(t msgType, f func(*message)) message {
		m := message{header: header{Type: t, Credits: 5, From: nidA, FromStamp: 0x1122334455667788, To: nidB,
			ToStamp: 0x99aabbccddeeff00}}
		f(&m)
		return m
	}
	at := where{0x12345678, []frag{{4096, 0x456789abcdef0000}}}
	two := where{0x12345678, append(at.frags, frag{8, 0x10})}
	put := lnetHeader{To: nidB, From: nidA, ToPID: 12345, FromPID: 12345,
		Op: lnetPut, PayloadLen: 300, Handle: handle{1, 2},
		Match: 0xbaadf00d,
		Words: [4]uint32{0xdeadbeef, 0, 7, 0x1000}}
	c, sink := cookie(0x0102030405060708), cookie(0x11)
	terms := params{Depth: 8, Frags: 257, MsgSize: 4096}
	return []goldenMessage{
		{"CONNREQ", first("c0", "38000000") + " 0800 0101 00100000",
			with(connReq, func(m *message) { m.params = terms })},
		{"CONNACK", first("c1", "38000000") + " 0800 0101 00100000",
			with(connAck, func(m *message) { m.params = terms })},
		{"NOOP", first("d0", "30000000"), with(noop, func(*message) {})},
		{"IMMEDIATE", first("d1", "7b000000") + lnetPut300 + " 616263",
			with(immediate, func(m *message) { m.lnet, m.payload = put, []byte("abc") })},
		{"PUT_REQ", first("d2", "80000000") + lnetPut300 + " 0807060504030201",
			with(putReq, func(m *message) { m.lnet, m.cookie = put, c })},
		{"PUT_NAK", first("d3", "3c000000") + " 0807060504030201 c3ffffff",
			with(putNak, func(m *message) { m.cookie, m.status = c, -61 })},
		{"PUT_ACK", first("d4", "54000000") + " 0807060504030201 1100000000000000" + piece,
			with(putAck, func(m *message) { m.cookie, m.sinkCookie, m.where = c, sink, at })},
		{"PUT_DONE", first("d5", "3c000000") + " 1100000000000000 00000000",
			with(putDone, func(m *message) { m.cookie = sink })},
		{"GET_REQ", first("d6", "94000000") + lnetPut300 + " 0807060504030201" + piece,
			with(getReq, func(m *message) { m.lnet, m.cookie, m.where = put, c, at })},
		{"GET_REQ of two pieces", first("d6", "a0000000") + lnetPut300 + " 0807060504030201" +
			" 78563412 02000000 00100000 0000efcdab896745 08000000 1000000000000000",
			with(getReq, func(m *message) { m.lnet, m.cookie, m.where = put, c, two })},
		{"GET_DONE", first("d7", "3c000000") + " 0807060504030201 00001000",
			with(getDone, func(m *message) { m.cookie, m.status = c, 1<<20 })},
	}
}

func unhex(s string) []byte { return must(hex.DecodeString(strings.ReplaceAll(s, " ", ""))) }

// plain is how nodes encode messages by default.
var plain = format{order: binary.LittleEndian, version: version2}

// formats are all ways of encoding messages.
func formats() (all []format) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, version := range []uint16{version1, version2} {
			all = append(all, format{order, version, false}, format{order, version, true})
		}
	}
	return all
}

func TestMessageGolden(t *testing.T) {
	for _, tt := range golden() {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(tt.bytes)
			require.Equal(t, b, tt.m.append(nil, plain))
			got, err := parse(append(b, "what follows is nobody's"...))
			require.NoError(t, err)
			tt.m.Magic, tt.m.Version, tt.m.Len = magic, version2, uint32(len(b))
			if tt.m.Type == immediate {
				require.Equal(t, tt.m.payload, got.payload)
			}
			require.Equal(t, tt.m, got)
			for n := range b {
				_, err = parse(b[:n])
				require.ErrorIs(t, err, ErrMessage, "cut to %d bytes", n)
			}
		})
	}
}

// Messages in every format are the same when they are decoded. Cookies and LNet's header have the same bytes in all.
func TestFormats(t *testing.T) {
	for _, tt := range golden() {
		for _, f := range formats() {
			b := tt.m.append(nil, f)
			got, err := parse(b)
			require.NoError(t, err, "%s %v", tt.name, f)
			require.Equal(t, f.checksum, got.Checksum != 0)
			require.Equal(t, f.version, got.Version)
			got.Magic, got.Version = 0, 0
			got.Len, got.Checksum = 0, 0
			if tt.m.Type != immediate {
				got.payload = nil
			}
			require.Equal(t, tt.m, got, "%s %v", tt.name, f)
			if tt.m.Type == putReq {
				require.Equal(t, unhex(lnetPut300+"0807060504030201"), b[headerSize:])
			}
			if f.checksum {
				b[len(b)-1]++
				_, err = parse(b)
				require.ErrorContains(t, err, "checksum")
			}
		}
	}
	b := unhex("0be91b91 0012 d0 05 00000030 00000000 000500000a000001 1122334455667788 000500000a000002" +
		"99aabbccddeeff00")
	m, err := parse(b)
	require.NoError(t, err)
	require.Equal(t, header{magic, version2, noop, 5, 48, 0, nidA, 0x1122334455667788, nidB, 0x99aabbccddeeff00},
		m.header)
	require.Equal(t, b, m.append(nil, format{binary.BigEndian, version2, false}))
}

// The checksums, computed by hand: each step rotates by one bit to the left and adds a char.
func TestChecksums(t *testing.T) {
	for _, tt := range []struct {
		bytes            string
		signed, unsigned uint32
	}{
		{"01", 1, 1},
		{"0101", 3, 3},
		{"80", 0xffffff80, 0x80},
		{"8001", 0xffffff02, 0x101},
		{"", 1, 1},
		{"00", 1, 1},
		{strings.Repeat("00", 12) + "ffffffff" + "02", 2, 2},
	} {
		signed, unsigned := checksums(unhex(tt.bytes))
		require.Equal(t, tt.signed, signed, tt.bytes)
		require.Equal(t, tt.unsigned, unsigned, tt.bytes)
	}
	b := message{header: header{Type: noop, From: nidA, FromStamp: 0xff}}.append(nil, plain)
	_, unsigned := checksums(b)
	binary.LittleEndian.PutUint32(b[12:], unsigned)
	_, err := parse(b)
	require.NoError(t, err, "from a machine whose chars are unsigned")
}

func TestParseRefuses(t *testing.T) {
	edit := func(name string, f func(b []byte)) []byte {
		for _, g := range golden() {
			if g.name == name {
				b := unhex(g.bytes)
				f(b)
				return b
			}
		}
		panic("no such message")
	}
	tests := []struct {
		name string
		b    []byte
		says string
	}{
		{"nothing", nil, "0 bytes, which"},
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\nAccept: anything at all, please\r\n\r\n"),
			"do not begin with the magic number"},
		{"another magic number", edit("NOOP", func(b []byte) { b[0]++ }), "do not begin"},
		{"another version", edit("NOOP", func(b []byte) { b[4] = 0x13 }), "version 0x13"},
		{"length too small", edit("NOOP", func(b []byte) { b[8] = 47 }), "the header says 47"},
		{"length too large", edit("NOOP", func(b []byte) { b[11] = 0xff }), "48 bytes came"},
		{"unknown type", edit("NOOP", func(b []byte) { b[6] = 0x42 }), "unknown type 0x42"},
		{"body cut", edit("PUT_REQ", func(b []byte) { b[8] = 127 }), "PUT_REQ with 127 bytes"},
		{"no pieces", edit("PUT_ACK", func(b []byte) { b[68] = 0 }), "in 0 pieces"},
		{"many pieces", edit("GET_REQ", func(b []byte) { b[48+72+8+4+3] = 1 }), "16777217 pieces"},
		{"one piece too many", edit("GET_REQ", func(b []byte) { b[48+72+8+4] = 2 }),
			"2 pieces, of which there is room for 1"},
		{"no room for pieces", edit("PUT_ACK", func(b []byte) { b[8] = 70 }), "no description"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.b)
			require.ErrorIs(t, err, ErrMessage)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestNID(t *testing.T) {
	for text, want := range map[string]NID{
		"10.0.0.1@o2ib":     nidA,
		"10.0.0.1@o2ib0":    nidA,
		"10.0.0.1":          nidA,
		"10.77.0.2@o2ib":    0x000500000a4d0002,
		"10.77.0.2@o2ib258": 0x000501020a4d0002,
	} {
		var n NID
		require.NoError(t, n.UnmarshalText([]byte(text)))
		require.Equal(t, want, n, text)
		require.Equal(t, n, must(ParseNID(string(must(n.MarshalText())))))
		require.Equal(t, n, must(NIDOf(n.Addr(), n.Network())))
	}
	require.Equal(t, "10.77.0.2@o2ib258", NID(0x000501020a4d0002).String())
	require.Equal(t, "0@lo", NID(loopback<<48).String())
	require.Equal(t, "NID 0x20000c0a80001", NID(2<<48|0xc0a80001).String())
	for _, text := range []string{"", "@o2ib", "10.0.0.1@tcp", "10.0.0.1@o2ibx", "10.0.0.1@o2ib65536", "10.0.0.1@o",
		"fe80::1@o2ib"} {
		_, err := ParseNID(text)
		require.Error(t, err, text)
	}
	_, err := NIDOf(netip.Addr{}, 0)
	require.ErrorContains(t, err, "IPv4")
}

func FuzzParse(f *testing.F) {
	for _, g := range golden() {
		f.Add(unhex(g.bytes))
		for _, format := range formats() {
			f.Add(g.m.append(nil, format))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			require.ErrorIs(t, err, ErrMessage)
			return
		}
		order, _ := orderOf(b, magic).(binary.AppendByteOrder)
		again, err := parse(m.append(nil, format{order, m.Version, m.Checksum != 0}))
		require.NoError(t, err)
		m.Len, m.Checksum = again.Len, again.Checksum // without the bytes after the last part
		require.Equal(t, m, again)
	})
}
