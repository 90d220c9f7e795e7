package wire_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/wire"
)

// plainSum computes the checksum of RFC 1071 word by word, over the pseudo header and the datagram.
func plainSum(src, dst, datagram []byte) uint16 {
	b := append(append([]byte{}, src...), dst...)
	b = append(b, 0, 17)
	b = binary.BigEndian.AppendUint16(b, uint16(len(datagram)))
	b = append(b, datagram...)
	if len(b)%2 != 0 {
		b = append(b, 0)
	}
	var s uint32
	for ; len(b) > 0; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
		if s > 0xffff {
			s -= 0xffff
		}
	}
	return ^uint16(s)
}

func TestUDPChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src, dst := genGID(t, "source"), genGID(t, "destination")
		d := rapid.SliceOfN(rapid.Byte(), 8, 99).Draw(t, "datagram")
		d[6], d[7] = 0, 0
		for _, n := range []int{4, 16} {
			want := plainSum(src[:n], dst[:n], d)
			if want == 0 {
				want = 0xffff
			}
			sum, check := wire.UDPChecksum6(src, dst, d), wire.CheckUDP6
			if n == 4 {
				sum = wire.UDPChecksum4([4]byte(src[:]), [4]byte(dst[:]), d)
				check = func(s, t [16]byte, d []byte) bool { return wire.CheckUDP4([4]byte(s[:]), [4]byte(t[:]), d) }
			}
			require.Equal(t, want, sum)
			require.True(t, check(src, dst, d), "no checksum")
			binary.BigEndian.PutUint16(d[6:], sum)
			require.True(t, check(src, dst, d))
			at := rapid.IntRange(0, len(d)-1).Draw(t, "at")
			d[at] ^= 0x10
			require.False(t, check(src, dst, d))
			d[at] ^= 0x10
			d[6], d[7] = 0, 0
		}
	})
	assert.False(t, wire.CheckUDP4([4]byte{}, [4]byte{}, make([]byte, 7)))
}

// A checksum of zero is sent as all ones, because zero means that there is none.
func TestUDPChecksumNeverZero(t *testing.T) {
	d := make([]byte, 8)
	// The sum of the pseudo header is 17+8. This word makes the total all ones.
	binary.BigEndian.PutUint16(d, 0xffff-17-8)
	assert.EqualValues(t, 0xffff, wire.UDPChecksum4([4]byte{}, [4]byte{}, d))
}
