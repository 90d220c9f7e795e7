package linux

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// packet is a captured RoCEv2 packet.
type packet struct {
	opcode   byte
	psn      uint32
	source   []byte // IP address
	id       uint16 // identification of IPv4
	checksum error  // of the ICRC
}

const (
	etherLen   = 14
	etherIPv4  = 0x0800
	etherIPv6  = 0x86dd
	protoUDP   = 17
	roceV2Port = 4791
)

// parse returns the RoCEv2 packet in a frame. It returns false for any other frame. It does not use package wire, so
// that it finds errors in that package.
func parse(frame []byte) (packet, bool) {
	if len(frame) < etherLen {
		return packet{}, false
	}
	ip := frame[etherLen:]
	var head int
	var p packet
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		if len(ip) < 20 || ip[9] != protoUDP {
			return packet{}, false
		}
		head = int(ip[0]&15) * 4
		ip = ip[:min(len(ip), int(binary.BigEndian.Uint16(ip[2:])))] // without Ethernet's padding
		p.source = ip[12:16]
		p.id = binary.BigEndian.Uint16(ip[4:])
	case etherIPv6:
		if len(ip) < 40 || ip[6] != protoUDP {
			return packet{}, false
		}
		head = 40
		ip = ip[:min(len(ip), 40+int(binary.BigEndian.Uint16(ip[4:])))]
		p.source = ip[8:24]
	default:
		return packet{}, false
	}
	const udp, bth, crc = 8, 12, 4
	if len(ip) < head+udp || binary.BigEndian.Uint16(ip[head+2:]) != roceV2Port {
		return packet{}, false
	}
	if len(ip) < head+udp+bth+crc {
		p.checksum = fmt.Errorf("%d bytes are too few for a BTH and an ICRC", len(ip)-head-udp)
		return p, true
	}
	p.opcode = ip[head+udp]
	p.psn = binary.BigEndian.Uint32(ip[head+udp+8:]) & 0xffffff
	got := binary.LittleEndian.Uint32(ip[len(ip)-crc:])
	if want := icrc(ip[:len(ip)-crc], head); got != want {
		p.checksum = fmt.Errorf("ICRC %08x, computed %08x", got, want)
	}
	return p, true
}

// icrc returns the invariant CRC for an IP packet without it (A17.3.3): the CRC-32 of Ethernet over eight bytes of ones
// in place of the LRH, and over the packet. These fields count as ones: TOS, TTL and checksum of IPv4, or traffic
// class, flow label and hop limit of IPv6; the UDP checksum; and byte 4 of the BTH.
func icrc(ip []byte, head int) uint32 {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ip...)
	m := b[8:]
	masked := []int{1, 8, 10, 11}
	if head == 40 && m[0]>>4 == 6 {
		masked = []int{1, 2, 3, 7}
		m[0] |= 0x0f
	}
	for _, i := range append(masked, head+6, head+7, head+8+4) {
		m[i] = 0xff
	}
	return crc32.ChecksumIEEE(b)
}

// TestICRC checks the checker with packets that rxe sent. It must accept them, and detect each flipped bit except
// masked ones.
func TestICRC(t *testing.T) {
	tests := []struct {
		name, ether, packet string
		masked              []int // whole bytes, counted from the IP header
		half                int   // a byte of which the lower half is masked, or -1
	}{
		{"IPv4", "0800", "4500002c6a9940004011bb890a4d00030a4d0002c48412b7001800000400ffff00000022800021002b3a02cc",
			[]int{1, 8, 10, 11, 26, 27, 32}, -1},
		{"IPv6", "86dd",
			"6000000000181140fd770000000000000000000000000003fd770000000000000000000000000002" +
				"ca9012b7001800000400ffff000000348000210076405edd",
			[]int{1, 2, 3, 7, 46, 47, 52}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame, err := hex.DecodeString("525400770002525400770003" + tt.ether + tt.packet)
			require.NoError(t, err)
			p, ok := parse(frame)
			require.True(t, ok)
			require.NoError(t, p.checksum)
			require.Equal(t, byte(4), p.opcode)
			for bit := range 8 * (len(frame) - etherLen) {
				i := bit / 8
				frame[etherLen+i] ^= 1 << (bit % 8)
				p, ok := parse(frame)
				masked := slices.Contains(tt.masked, i) || i == tt.half && bit%8 < 4
				if good := ok && p.checksum == nil; good != masked {
					t.Errorf("bit %d of byte %d flipped: accepted %v, masked %v", bit%8, i, good, masked)
				}
				frame[etherLen+i] ^= 1 << (bit % 8)
			}
			_, ok = parse(frame[:etherLen+10])
			require.False(t, ok, "cut")
		})
	}
}
