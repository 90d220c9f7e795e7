package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/wire"
)

func TestGID(t *testing.T) {
	g := wire.GIDFromIPv4([4]byte{10, 77, 0, 2})
	assert.Equal(t, [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: 2}, g)
	a, ok := wire.IPv4FromGID(g)
	assert.True(t, ok)
	assert.Equal(t, [4]byte{10, 77, 0, 2}, a)
	for i := range 12 {
		h := g
		h[i] ^= 1
		_, ok = wire.IPv4FromGID(h)
		assert.False(t, ok, "byte %d", i)
	}
	assert.Equal(t, [16]byte{0xfe, 0x80, 8: 0x50, 0x54, 0x00, 0xff, 0xfe, 0x12, 0x34, 0x56},
		wire.LinkLocalGID([6]byte{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}))
}

func TestMulticast(t *testing.T) {
	for _, c := range []struct {
		gid [16]byte
		mac [6]byte
		ok  bool
	}{
		{wire.GIDFromIPv4([4]byte{239, 129, 2, 3}), [6]byte{1, 0, 0x5e, 1, 2, 3}, true},
		{wire.GIDFromIPv4([4]byte{10, 1, 2, 3}), [6]byte{}, false},
		{[16]byte{0: 0xff, 1: 0x0e, 12: 1, 13: 2, 14: 3, 15: 4}, [6]byte{0x33, 0x33, 1, 2, 3, 4}, true},
		{[16]byte{0: 0xfe, 1: 0x80}, [6]byte{}, false},
	} {
		mac, ok := wire.MulticastMAC(c.gid)
		assert.Equal(t, c.ok, ok)
		assert.Equal(t, c.mac, mac)
		assert.Equal(t, c.ok, wire.IsMulticastGID(c.gid))
	}
}

// The expected values are from senders on Linux.
func TestSourcePorts(t *testing.T) {
	assert.EqualValues(t, 50176, wire.SourcePort(wire.QPFlowLabel(0x20, 0x20)))
	assert.EqualValues(t, 58177, wire.SourcePort(0x12345))
	assert.EqualValues(t, 55410, wire.UDSourcePort(1))
	for q := uint32(1); q < 1<<24; q = q*3 + 1 {
		assert.Equal(t, wire.QPFlowLabel(q, 0xabcdef), wire.QPFlowLabel(0xabcdef, q))
		assert.LessOrEqual(t, wire.QPFlowLabel(q, 0xabcdef), uint32(wire.MaskFlowLabel))
		assert.GreaterOrEqual(t, wire.SourcePort(q), uint16(0xc000))
		assert.GreaterOrEqual(t, wire.UDSourcePort(q), uint16(0xc000))
	}
	assert.Equal(t, wire.SourcePort(0x12345), wire.SourcePort(0xfff12345), "bits beyond the flow label")
}

// Every golden packet has the source port that the functions return. The port of a connected QP depends on both QPNs,
// and a packet has only one of them. In these captures, the sender and the receiver have the same QPN.
func TestGoldenSourcePorts(t *testing.T) {
	hits := 0
	eachGolden(t, func(t *testing.T, g golden) {
		var f wire.Frame
		if err := wire.ParseIP(g.ip, &f); err != nil {
			t.Fatal(err)
		}
		p := f.Packet
		want := wire.SourcePort(wire.QPFlowLabel(p.BTH.DestQP, p.BTH.DestQP))
		if p.BTH.Opcode.HasDETH() {
			want = wire.UDSourcePort(p.DETH.SrcQP)
		}
		if f.UDP.SrcPort == want {
			hits++
		} else {
			t.Logf("port %d, by the rule %d, QP %#x", f.UDP.SrcPort, want, p.BTH.DestQP)
		}
	})
	assert.Equal(t, 58, hits)
}
