package wiresuite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/wire"
)

// TestRelayLines checks that packets of two adapters that use the same QP number reach the right line.
func TestRelayLines(t *testing.T) {
	const qpn = 0x48
	for link, send := range map[ci.Link]func(byte) *packet{
		ci.LinkInfiniBand: func(n byte) *packet {
			b := make([]byte, lrhLen+12)
			b[7] = n
			return &packet{Packet: wire.Packet{BTH: wire.BTH{DestQP: qpn}}, whole: b, at: lrhLen}
		},
		ci.LinkEthernet: func(n byte) *packet {
			return &packet{Packet: wire.Packet{BTH: wire.BTH{DestQP: qpn}}, src: ci.GID{15: n}}
		},
	} {
		r := &relay{info: validate.WireInfo{Link: link}, lines: map[uint32][]*line{}}
		from := func(n byte) *line { return &line{from: origin{lid: ci.LID(n), gid: ci.GID{15: n}}} }
		assert.Nil(t, r.line(send(1)), "no QP")
		one, two := from(1), from(2)
		r.add(qpn, one)
		assert.Same(t, one, r.line(send(3)), "a wrong source address and one QP")
		r.add(qpn, two)
		assert.Same(t, one, r.line(send(1)))
		assert.Same(t, two, r.line(send(2)))
		next := from(1)
		r.add(qpn, next)
		assert.Same(t, next, r.line(send(1)), "a new QP has the number")
		assert.Same(t, two, r.line(send(2)))
		assert.Len(t, r.lines[qpn], 2)
		other := send(1)
		other.BTH.DestQP++
		assert.Nil(t, r.line(other))
	}
}
