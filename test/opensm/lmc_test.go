package opensm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
)

// With an LMC of 2 each port has four LIDs, which OpenSM routes over different switches. Connections and datagrams use
// any of them, and completions contain the one that was used.
func TestLMC(t *testing.T) {
	r, _ := managed(t, "-l", "2")
	a, b := r.adapter("h5", ci.RC), r.adapter("h2", ci.RC)
	spines := map[string]bool{}
	for _, n := range []*linktest.Node{a, b} {
		require.EqualValues(t, 2, n.Attr.LMC)
		require.Zero(t, n.Attr.LID%4)
	}
	for bits := range ci.LID(4) {
		path, err := r.fabric.Trace("h5", b.Attr.LID+bits)
		require.NoError(t, err)
		require.Len(t, path, 8)
		assert.Equal(t, "h2", path[7].Node())
		spines[path[3].Node()] = true
	}
	assert.Len(t, spines, 2, "switches on the way")
	a.PathBits, b.PathBits = 1, 3
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)

	c, d := r.adapter("h3", ci.UD), r.adapter("h6", ci.UD)
	for _, n := range []*linktest.Node{c, d} {
		require.NoError(t, n.QP.Modify(ci.ToInit{Port: 1, QKey: 7}.For(ci.UD)))
		require.NoError(t, n.QP.Modify(ci.ToRTR{}.For(ci.UD)))
		require.NoError(t, n.QP.Modify(ci.ToRTS{}.For(ci.UD)))
	}
	const grh = 40
	for from := range uint8(4) {
		for to := range uint8(4) {
			c.PathBits, d.PathBits = from, to
			av, err := c.PD.CreateAV(c.AV(d))
			require.NoError(t, err)
			d.Recv(ci.RecvWR{SGL: d.SGE(0, grh+4)})
			copy(c.Buf, []byte{from, to, 3, 4})
			c.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: c.SGE(0, 4),
				To: ci.Dest{AV: av, QPN: d.QP.Num(), QKey: 7}})
			c.Poll(1)
			wc := d.Poll(1)[0]
			assert.Equal(t, c.Attr.LID+ci.LID(from), wc.SLID)
			assert.Equal(t, to, wc.PathBits)
			assert.Equal(t, []byte{from, to, 3, 4}, d.Buf[grh:grh+4])
			require.NoError(t, av.Destroy())
		}
	}
}
