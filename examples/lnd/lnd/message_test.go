package lnd

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nidA = must(nid(netip.MustParseAddr("10.0.0.1")))
	nidB = must(nid(netip.MustParseAddr("::ffff:10.0.0.2")))
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
	at := where{Key: 0x12345678, Pieces: 1, Len: 4096, Addr: 0x456789abcdef0000}
	put := lnet{To: nidB, From: nidA, ToPID: 12345, FromPID: 12345, Op: lnetPut, PayloadLen: 300, Handle: handle{1, 2},
		Match: 0xbaadf00d,
		Words: [4]uint32{0xdeadbeef, 0, 7, 0x1000}}
	c, sink := cookie(0x0102030405060708), cookie(0x11)
	terms := params{Depth: 8, Pieces: 1, MsgSize: 4096}
	return []goldenMessage{
		{"CONNREQ", first("c0", "38000000") + " 0800 0100 00100000",
			with(connReq, func(m *message) { m.params = terms })},
		{"CONNACK", first("c1", "38000000") + " 0800 0100 00100000",
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
		{"GET_DONE", first("d7", "3c000000") + " 0807060504030201 00001000",
			with(getDone, func(m *message) { m.cookie, m.status = c, 1<<20 })},
	}
}

func unhex(s string) []byte { return must(hex.DecodeString(strings.ReplaceAll(s, " ", ""))) }

func TestMessageGolden(t *testing.T) {
	for _, tt := range golden() {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(tt.bytes)
			require.Equal(t, b, tt.m.append(nil))
			got, err := parse(append(b, "what follows is nobody's"...))
			require.NoError(t, err)
			tt.m.Magic, tt.m.Version, tt.m.Len = magic, version, uint32(len(b))
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
		{"nothing", nil, "0 bytes came"},
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\nAccept: anything at all, please\r\n\r\n"),
			"the header says"},
		{"another magic number", edit("NOOP", func(b []byte) { b[0]++ }), "0xbe91b92"},
		{"the other byte order", edit("NOOP", func(b []byte) { copy(b, []byte{0x0b, 0xe9, 0x1b, 0x91}) }),
			"0x911be90b"},
		{"another version", edit("NOOP", func(b []byte) { b[4] = 0x11 }), "version 0x11"},
		{"length too small", edit("NOOP", func(b []byte) { b[8] = 47 }), "the header says 47"},
		{"length too large", edit("NOOP", func(b []byte) { b[11] = 0xff }), "48 bytes came"},
		{"unknown type", edit("NOOP", func(b []byte) { b[6] = 0x42 }), "unknown type 0x42"},
		{"body cut", edit("PUT_REQ", func(b []byte) { b[8] = 127 }), "type 0xd2 with 127 bytes"},
		{"no pieces", edit("PUT_ACK", func(b []byte) { b[68] = 0 }), "0 pieces"},
		{"many pieces", edit("GET_REQ", func(b []byte) { b[48+72+8+4+3] = 1 }), "16777217 pieces"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.b)
			require.ErrorIs(t, err, ErrMessage)
			require.ErrorContains(t, err, tt.says)
		})
	}
	_, err := nid(netip.MustParseAddr("fe80::1"))
	require.ErrorContains(t, err, "IPv4")
	_, err = nid(netip.Addr{})
	require.ErrorContains(t, err, "IPv4")
}

func FuzzParse(f *testing.F) {
	for _, g := range golden() {
		f.Add(unhex(g.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			require.ErrorIs(t, err, ErrMessage)
			return
		}
		again, err := parse(m.append(nil))
		require.NoError(t, err)
		m.Len = again.Len // without the bytes after the last part
		require.Equal(t, m, again)
	})
}
