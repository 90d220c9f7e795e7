package wiresuite

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// golden returns whole IP packets that Linux Soft-RoCE sent.
func golden(t *testing.T) map[string][]byte {
	t.Helper()
	f, err := os.Open("../../../wire/testdata/rocev2-vectors.txt")
	require.NoError(t, err)
	defer f.Close()
	out := map[string][]byte{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		col := strings.Split(sc.Text(), "|")
		require.Len(t, col, 3)
		b, err := hex.DecodeString(strings.TrimSpace(col[2]))
		require.NoError(t, err)
		out[strings.TrimSpace(col[0])+col[1]] = b
	}
	require.NotEmpty(t, out)
	return out
}

// TestICRC checks the ICRC of packets of Linux, and that a change of each covered byte is detected.
func TestICRC(t *testing.T) {
	for name, b := range golden(t) {
		at := bthAt(ci.LinkEthernet, b)
		require.Positive(t, at, name)
		assert.True(t, icrcHolds(ci.LinkEthernet, b, at, true), name)
		for i := range b {
			c := append([]byte(nil), b...)
			c[i] ^= 0x04
			var masked bool
			if b[0]>>4 == 4 {
				masked = i == 1 || i == 8 || i == 10 || i == 11 || i == at-1 || i == at-2 || i == at+4
			} else {
				masked = i > 0 && i < 4 || i == 7 || i == at-1 || i == at-2 || i == at+4 || i == 0 && b[0]^c[0]&15 != 0
			}
			if a := bthAt(ci.LinkEthernet, c); a == at {
				assert.Equal(t, masked, icrcHolds(ci.LinkEthernet, c, at, true), "%s: byte %d", name, i)
			}
		}
	}
}

// TestICRCWithoutIdentification checks that an unknown identification is found and that other changes are still
// detected.
func TestICRCWithoutIdentification(t *testing.T) {
	for name, b := range golden(t) {
		if b[0]>>4 != 4 {
			continue
		}
		b[4], b[5] = 0, 0
		at := bthAt(ci.LinkEthernet, b)
		assert.True(t, icrcHolds(ci.LinkEthernet, b, at, false), name)
		assert.False(t, icrcHolds(ci.LinkEthernet, b, at, true), name)
		b[at+5] ^= 1
		assert.False(t, icrcHolds(ci.LinkEthernet, b, at, false), name)
	}
}

// TestLinkCRCs compares both CRCs of InfiniBand packets with those of package wire, which is tested with the sample of
// the specification.
func TestLinkCRCs(t *testing.T) {
	for _, lnh := range []uint8{wire.LNHLocal, wire.LNHGlobal} {
		p := wire.LinkPacket{LRH: wire.LRH{VL: 3, SL: 2, LNH: lnh, SLID: 1, DLID: 2},
			Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly,
				PKey: 0xffff, DestQP: 5, PSN: 7}, Payload: []byte("InfiniBand")}}
		p.GRH.NextHeader = wire.NextHeaderIBA
		b := wire.AppendLinkPacket(nil, &p)
		at := bthAt(ci.LinkInfiniBand, b)
		require.Positive(t, at)
		assert.True(t, icrcHolds(ci.LinkInfiniBand, b, at, true))
		got := vcrc(b[:len(b)-vcrcLen])
		assert.Equal(t, [2]byte{b[len(b)-2], b[len(b)-1]}, [2]byte{byte(got), byte(got >> 8)})
	}
}
