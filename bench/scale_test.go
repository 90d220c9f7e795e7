package bench

import (
	"math/bits"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

const (
	megabyte  = 1 << 20
	scaleQPs  = 10_000
	scaleRate = 100_000
	quietQPs  = 1_000
)

// scaleCaps are queues of depth 15 with one SGE.
var scaleCaps = ci.QPCaps{SendDepth: 15, RecvDepth: 15, SendSGE: 1, RecvSGE: 1}

// ringBytes returns the size of a QP's queues in the layout of docs/abi/rings.md: 2^k slots, more than the depth, of
// 2^m bytes each, behind 384 bytes of header and indices. A send slot has 208 bytes before its SGEs, a receive slot 40.
func ringBytes(c ci.QPCaps) int {
	ring := func(depth, head, sge int) int {
		return 384 + (1<<bits.Len(uint(depth)))<<bits.Len(uint(head+16*sge-1))
	}
	return ring(c.SendDepth, 208, c.SendSGE) + ring(c.RecvDepth, 40, c.RecvSGE)
}

// inUse returns the sizes of heap and stacks after a garbage collection.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second collection frees what pools held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// newScalePair opens two HCAs without QPs, each with a CQ for n completions.
func newScalePair(t *testing.T, cqes int, port func(i int) openPort) (a, b *side) {
	t.Helper()
	var s [2]*side
	for i := range s {
		var err error
		s[i], err = newHCA(port(i), 4096)
		require.NoError(t, err)
		s[i].cq, err = s[i].pd.CreateCQ(ci.CQCreate{Size: cqes})
		require.NoError(t, err)
		s[i].undo = append(s[i].undo, s[i].cq.Destroy)
	}
	return s[0], s[1]
}

// directPorts returns the ports of a new link.
func directPorts() func(int) openPort {
	link := direct.NewLink()
	return func(int) openPort {
		return func() (rvt.Port, error) { return direct.New(link, direct.Config{}) }
	}
}

// connected creates a pair of QPs and connects them.
func connected(t *testing.T, a, b *side) (x, y ci.QP) {
	x, err := a.newQP(scaleCaps)
	require.NoError(t, err)
	y, err = b.newQP(scaleCaps)
	require.NoError(t, err)
	to := func(s *side, q ci.QP) address { d := s.address(); d.QPN = q.Num(); return d }
	require.NoError(t, a.connect(x, to(b, y)))
	require.NoError(t, b.connect(y, to(a, x)))
	return x, y
}

// exchange moves one message from x to y.
func exchange(t *testing.T, a, b *side, x, y ci.QP) {
	_, err := y.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{b.mem.SGE(0, small)}}})
	require.NoError(t, err)
	_, err = x.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{a.mem.SGE(0, small)}}})
	require.NoError(t, err)
	for _, s := range []*side{a, b} {
		p := poller{cq: s.cq, yield: true}
		for n := 0; n == 0; {
			wcs, err := p.poll()
			require.NoError(t, err)
			n = len(wcs)
		}
	}
}

// TestMemory measures 10,000 connected RC QPs in one process. Each has carried a message, so that nothing remains to be
// allocated at first use.
func TestMemory(t *testing.T) {
	testenv.Measurement(t)
	if testenv.Race {
		t.Skip("a figure of the plain build")
	}
	before := inUse()
	a, b := newScalePair(t, 64, directPorts())
	qps := make([]ci.QP, 0, scaleQPs)
	for len(qps) < scaleQPs {
		x, y := connected(t, a, b)
		exchange(t, a, b, x, y)
		exchange(t, b, a, y, x)
		qps = append(qps, x, y)
	}
	all := int(inUse() - before)
	c, err := qps[0].Query()
	require.NoError(t, err)
	rings := len(qps) * ringBytes(c.QPCaps)
	t.Logf("%d QPs: %.1f MB, of which %.1f MB rings, %.1f MB other: %d bytes for each", len(qps), float64(all)/megabyte,
		float64(rings)/megabyte,
		float64(all-rings)/megabyte, (all-rings)/len(qps))
	require.LessOrEqual(t, all, 200*megabyte)
	require.LessOrEqual(t, all-rings, 60*megabyte)
	for _, q := range qps {
		require.NoError(t, q.Destroy())
	}
	require.NoError(t, a.close())
	require.NoError(t, b.close())
}

// TestChurn checks that 100,000 QPs that are created, connected and destroyed leave nothing behind.
func TestChurn(t *testing.T) {
	testenv.Measurement(t)
	n := scaleRate
	if testenv.Race {
		n /= 20
	}
	a, b := newScalePair(t, 64, directPorts())
	round := func() {
		x, y := connected(t, a, b)
		require.NoError(t, x.Destroy())
		require.NoError(t, y.Destroy())
	}
	for range 1000 { // permanent size of tables and pools
		round()
	}
	live := []map[string]int{a.hca.Live(), b.hca.Live()}
	routines, before := testenv.NumGoroutine(), inUse()
	for range n / 2 {
		round()
	}
	now := []map[string]int{a.hca.Live(), b.hca.Live()}
	require.Equal(t, live, now)
	require.LessOrEqual(t, testenv.NumGoroutine(), routines)
	after := inUse()
	t.Logf("%d bytes in use before %d QPs, %d after", before, n, after)
	require.Less(t, int64(after)-int64(before), int64(megabyte), "10 bytes for each QP would be more")
	require.NoError(t, a.close())
	require.NoError(t, b.close())
	for _, h := range []*reference.HCA{a.hca, b.hca} {
		for kind, k := range h.Live() {
			require.Zero(t, k, kind)
		}
	}
}

// TestQuiet checks that connected idle QPs use no processor time. All have carried a message, so a timer that was not
// stopped would be one of thousands that fire.
func TestQuiet(t *testing.T) {
	testenv.Measurement(t)
	if testenv.Race {
		t.Skip("a figure of the plain build")
	}
	x, y := needAddresses(t)
	a, b := newScalePair(t, 64, func(i int) openPort {
		if i == 0 {
			return udpPort(x)
		}
		return udpPort(y)
	})
	var qps []ci.QP
	for len(qps) < quietQPs {
		x, y := connected(t, a, b)
		exchange(t, a, b, x, y)
		exchange(t, b, a, y, x)
		qps = append(qps, x, y)
	}
	runtime.GC()
	// Retry timers are lazy: those of the messages just sent fire once within 1.1 s (the QPs' timeout) and find nothing
	// to do.
	<-time.After(1200 * time.Millisecond)
	before := [2]map[string]uint64{a.hca.Counters(), b.hca.Counters()}
	const watch = time.Second
	used := processTime(t)
	<-time.After(watch)
	used = processTime(t) - used
	t.Logf("%d quiet QPs: %v of processor time in %v", len(qps), used, watch)
	require.Less(t, used, watch/10)
	after := [2]map[string]uint64{a.hca.Counters(), b.hca.Counters()}
	require.Equal(t, before, after, "packets moved")
	for _, q := range qps {
		require.NoError(t, q.Destroy())
	}
	require.NoError(t, a.close())
	require.NoError(t, b.close())
}
