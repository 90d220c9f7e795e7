package reference_test

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// TestQueueMemory creates QPs of the largest size until the adapter's queue memory is used up. The heap has then grown
// by no more than what was counted, so the count does not miss what a queue holds, and by at least a third of it: send
// windows grow only with use.
func TestQueueMemory(t *testing.T) {
	const limit = 256 << 20
	h, err := reference.New(reference.Config{QueueMemory: limit,
		Ports: []rvt.Port{testenv.Must(sim.New(sim.NewNetwork(sim.NetworkConfig{}),
			sim.Config{Addr: netip.MustParseAddr("10.0.0.1")}))}})
	require.NoError(t, err)
	defer h.Close()
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	defer ca.Destroy()
	attr, err := ca.Query()
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	defer pd.Destroy()
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 1 << 16})
	require.NoError(t, err)
	create := ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: attr.MaxWRs, RecvDepth: attr.MaxWRs, SendSGE: attr.MaxSGEs, RecvSGE: attr.MaxSGEs}}
	var qps []ci.QP
	for {
		qp, err := pd.CreateQP(create)
		if err != nil {
			require.ErrorIs(t, err, ci.InsufficientResources)
			break
		}
		qps = append(qps, qp)
	}
	used, most := h.QueueMemory()
	require.Equal(t, int64(limit), most)
	grown := heap() - before
	t.Logf("%d QPs of the largest size: %d bytes counted, %d bytes of heap", len(qps), used, grown)
	assert.NotEmpty(t, qps)
	assert.Less(t, len(qps), 8)
	assert.LessOrEqual(t, grown, used+1<<20)
	assert.Greater(t, grown, used/3)
	for _, qp := range qps {
		require.NoError(t, qp.Destroy())
	}
	require.NoError(t, cq.Destroy())
	used, _ = h.QueueMemory()
	assert.Zero(t, used)
	assert.Less(t, heap()-before, int64(1<<20), "destroyed queues hold nothing, though they are referred to")
	runtime.KeepAlive(qps)
	runtime.KeepAlive(cq)
}
