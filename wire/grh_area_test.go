package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/wire"
)

func TestGRHArea(t *testing.T) {
	eachGolden(t, func(t *testing.T, g golden) {
		b := make([]byte, wire.GRHAreaLen)
		for i := range b {
			b[i] = 0xee
		}
		var f wire.Frame
		require.NoError(t, wire.ParseIP(g.ip, &f))
		want := wire.GRH{PayloadLen: f.UDP.Length, NextHeader: wire.ProtocolUDP, HopLimit: 64, SGID: f.IP6.Src,
			DGID: f.IP6.Dst}
		if g.v4() {
			wire.PutGRHArea4(b, &f.IP4)
			assert.Equal(t, append(make([]byte, 20), g.ip[:20]...), b)
			want.SGID, want.DGID = wire.GIDFromIPv4(f.IP4.Src), wire.GIDFromIPv4(f.IP4.Dst)
		} else {
			wire.PutGRHArea6(b, &f.IP6)
			assert.Equal(t, g.ip[:40], b)
		}
		got, err := wire.ParseGRHArea(b)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestGRHAreaOfGRH(t *testing.T) {
	h := wire.GRH{TrafficClass: 3, FlowLabel: 0x54321, PayloadLen: 280, NextHeader: wire.NextHeaderIBA, HopLimit: 9,
		SGID: [16]byte{1}, DGID: [16]byte{2}}
	b := make([]byte, wire.GRHAreaLen+7)
	h.Put(b)
	got, err := wire.ParseGRHArea(b)
	require.NoError(t, err)
	assert.Equal(t, h, got)
}

func TestGRHAreaErrors(t *testing.T) {
	_, err := wire.ParseGRHArea(make([]byte, 39))
	require.ErrorIs(t, err, wire.ErrShort)
	b := make([]byte, 40)
	_, err = wire.ParseGRHArea(b)
	require.ErrorIs(t, err, wire.ErrVersion)
	b[20] = 0x45
	_, err = wire.ParseGRHArea(b)
	require.ErrorIs(t, err, wire.ErrChecksum)
}
