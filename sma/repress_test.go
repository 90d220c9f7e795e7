package sma_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/mad"
	"ciddk/sma"
)

// A TrapRepress needs the M_Key at every protection level (IBTA volume 1, 14.2.4.1). One without it is a violation and
// does not end the repetition.
func TestRepressNeedsMKey(t *testing.T) {
	t.Parallel()
	const key = 0xabc
	for level := range uint8(4) {
		r := newCA(t)
		r.activate()
		require.Zero(t, r.set(mad.AttrPortInfo, 0, r.info(0, func(p *mad.PortInfo) {
			p.MKey, p.MKeyProtect = key, level
		})))
		r.node.LinkError(1, mad.TrapLinkIntegrity)
		require.Len(t, r.traps, 1)
		r.repress(r.traps[0].TID)
		assert.Zero(t, r.agent.Count(sma.TrapsRepressed))
		require.Len(t, r.traps, 2, "trap 256")
		var n mad.Notice
		n.Parse(r.traps[1].Data[:])
		var d mad.TrapMKey
		d.Parse(n.Details[:])
		assert.Equal(t, mad.TrapMKey{LID: 6, Method: mad.TrapRepress, Attribute: mad.AttrNotice}, d)
		r.repress(r.traps[1].TID)
		assert.Len(t, r.traps, 2, "the same violation causes no further trap at once")
		r.key = key
		r.repress(r.traps[0].TID)
		r.repress(r.traps[1].TID)
		assert.EqualValues(t, 2, r.agent.Count(sma.TrapsRepressed))
		r.clock.Advance(time.Minute)
		assert.NotContains(t, r.traps[2:], r.traps[0])
		var p mad.PortInfo
		r.get(mad.AttrPortInfo, 0, &p)
		assert.EqualValues(t, 2, p.MKeyViolations)
	}
}
