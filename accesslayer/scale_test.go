package accesslayer_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// Many objects are created and destroyed, one by one and all at once, on one CQ. The time grows in proportion, and
// nothing is left.
func TestManyObjects(t *testing.T) {
	h, _, _, ca := setup(t)
	pd := must(ca.NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{}))
	const n = 20_000
	qps := make([]*accesslayer.QP, n)
	for i := range qps {
		qps[i] = must(pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, func(*accesslayer.QP, ci.Event) {}))
	}
	for _, qp := range qps[:n/2] {
		require.NoError(t, qp.DestroyAsync(nil))
	}
	clear(qps)
	require.NoError(t, pd.Destroy())
	assert.Empty(t, h.liveObjects())
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	for range n {
		pd := must(ca.NewPD(ci.PDNormal))
		require.NoError(t, pd.Destroy())
		h.mu.Lock()
		h.trace = nil
		h.mu.Unlock()
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	assert.Less(t, m.HeapAlloc, before+1<<20)
}

func BenchmarkQPCreateDestroy(b *testing.B) {
	h := newFake(1)
	al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1})
	defer al.Close()
	if err := al.Register(h); err != nil {
		b.Fatal(err)
	}
	pd := must(must(must(al.Open(accesslayer.ClientConfig{})).OpenCA(fakeGUID, nil)).NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{}))
	c := ci.QPCreate{SendCQ: cq, RecvCQ: cq}
	b.ReportAllocs()
	for b.Loop() {
		qp, err := pd.NewQP(c, nil)
		if err == nil {
			err = qp.Destroy()
		}
		if err != nil {
			b.Fatal(err)
		}
		h.trace = h.trace[:0]
	}
}
