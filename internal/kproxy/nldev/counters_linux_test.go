package nldev

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCounters queries the hardware counters of a port.
func TestCounters(t *testing.T) {
	r := newRig(t)
	var all, port attrs
	port.u32(attrDevIndex, 0)
	port.u32(attrPortIndex, 1)
	for flags, q := range map[uint16]attrs{flagDump: all, flagAck: port} {
		list := r.do(cmdStatGet, flags, q)
		require.Len(t, list, 1)
		assert.EqualValues(t, 1, ne.Uint32(list[0][attrPortIndex]))
		var got []uint64
		var names []string
		for table := list[0][attrHWCounters]; len(table) > 0; {
			size := int(ne.Uint16(table))
			entry := attributes(table[attrSize:size])
			names = append(names, string(entry[attrCounterName]))
			got = append(got, ne.Uint64(entry[attrCounterValue]))
			table = table[size:]
		}
		assert.Equal(t, []string{"a\x00", "b\x00"}, names)
		assert.Equal(t, []uint64{1 << 40, 2}, got)
	}
	for _, number := range []uint32{0, 2} {
		var q attrs
		q.u32(attrDevIndex, 0)
		q.u32(attrPortIndex, number)
		replies := r.datagram(request(cmdStatGet, flagAck, q))
		require.Len(t, replies, 1)
		h, _, ok := next(replies[0])
		require.True(t, ok)
		assert.EqualValues(t, typeError, h.typ)
		assert.Equal(t, -int32(syscall.EINVAL), int32(ne.Uint32(h.body)))
	}
}
