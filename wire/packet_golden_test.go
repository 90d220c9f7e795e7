package wire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/wire"
)

func TestGoldenRoundTrip(t *testing.T) {
	eachGolden(t, func(t *testing.T, g golden) {
		var out []byte
		var u wire.UDP
		var p wire.Packet
		rest := g.ip[g.ipLen():]
		require.NoError(t, u.Parse(rest))
		require.NoError(t, wire.ParsePacket(g.transport(), &p))
		require.NoError(t, p.CheckReserved())
		assert.EqualValues(t, wire.RoCEv2Port, u.DstPort)
		assert.Equal(t, len(g.transport()), wire.PacketLen(p.BTH.Opcode, len(p.Payload)))

		if g.v4() {
			var h wire.IPv4
			require.NoError(t, h.Parse(g.ip))
			want := h.Checksum
			h.SetChecksum()
			assert.Equal(t, want, h.Checksum, "IPv4 header checksum computed")
			out = make([]byte, wire.IPv4Len+wire.UDPLen)
			h.Put(out)
		} else {
			var h wire.IPv6
			require.NoError(t, h.Parse(g.ip))
			out = make([]byte, wire.IPv6Len+wire.UDPLen)
			h.Put(out)
		}
		u.Put(out[g.ipLen():])
		out = wire.AppendPacket(out, &p)
		assert.Equal(t, g.ip, out)
		assert.Contains(t, g.name, fmt.Sprintf("pad_%d", p.BTH.Pad))
		assert.Contains(t, g.name, p.BTH.Opcode.Service().String(), "%s: %v", g.name, p.BTH.Opcode)
	})
}

func TestGoldenICRC(t *testing.T) {
	eachGolden(t, func(t *testing.T, g golden) {
		tr := g.transport()
		var p wire.Packet
		require.NoError(t, wire.ParsePacket(tr, &p))
		var u wire.UDP
		require.NoError(t, u.Parse(g.ip[g.ipLen():]))
		var start wire.ICRC
		if g.v4() {
			var h wire.IPv4
			require.NoError(t, h.Parse(g.ip))
			f := wire.NewFlow4(h.Src, h.Dst, u.SrcPort, u.DstPort, h.Frag)
			start = f.Start(len(tr), h.ID)
			id, ok := f.Check(tr)
			assert.True(t, ok)
			assert.Equal(t, h.ID, id)
		} else {
			var h wire.IPv6
			require.NoError(t, h.Parse(g.ip))
			f := wire.NewFlow6(h.Src, h.Dst, u.SrcPort, u.DstPort)
			start = f.Start(len(tr))
			assert.True(t, f.Check(tr))
		}
		end := len(tr) - wire.ICRCLen
		assert.Equal(t, p.ICRC, uint32(start.Transport(tr[:end])), "in one piece")
		n := p.BTH.Opcode.HeaderLen()
		assert.Equal(t, p.ICRC, uint32(start.Headers(tr[:end])), "all by the header code")
		pieces := start.Headers(tr[:n])
		for _, c := range p.Payload {
			pieces = pieces.Update([]byte{c})
		}
		assert.Equal(t, p.ICRC, uint32(pieces.Pad(p.BTH.Pad)), "in pieces")
		var b [4]byte
		pieces.Pad(p.BTH.Pad).Put(b[:])
		assert.Equal(t, tr[end:], b[:])
	})
}
