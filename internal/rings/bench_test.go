package rings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
)

const batch = 32

func benchSend(tb testing.TB, wr ci.SendWR) func() {
	r, err := RXE{}.SendRing(127, 1, 64, nil)
	require.NoError(tb, err)
	wrs := make([]ci.SendWR, batch)
	for i := range wrs {
		wrs[i] = wr
	}
	w := rvt.Work{SGL: make([]ci.SGE, 0, 1)}
	return func() {
		if r.Post(wrs, faces{}) != batch {
			tb.Fatal("no room")
		}
		for r.Next(&w) {
		}
		r.Retire(batch)
	}
}

func benchRecv(tb testing.TB) func() {
	r, err := RXE{}.RecvRing(127, 1, nil)
	require.NoError(tb, err)
	wrs := make([]ci.RecvWR, batch)
	for i := range wrs {
		wrs[i].SGL = []ci.SGE{{Addr: 1, Length: 64}}
	}
	w := rvt.RecvWork{SGL: make([]ci.SGE, 0, 1)}
	return func() {
		if r.Post(wrs) != batch {
			tb.Fatal("no room")
		}
		for r.Next(&w) {
		}
	}
}

func benchCompletion(tb testing.TB) func() {
	r, err := RXE{}.CompletionRing(127, nil)
	require.NoError(tb, err)
	wc, out := ci.WC{Context: tb, Length: 64}, make([]ci.WC, batch)
	return func() {
		for range batch {
			if !r.Put(&wc) {
				tb.Fatal("no room")
			}
		}
		if r.Get(out) != batch {
			tb.Fatal("lost")
		}
	}
}

func paths(tb testing.TB) map[string]func() {
	return map[string]func(){
		"send":   benchSend(tb, ci.SendWR{Op: ci.OpSend, SGL: []ci.SGE{{Addr: 1, Length: 64}}}),
		"inline": benchSend(tb, ci.SendWR{Op: ci.OpSend, Inline: make([]byte, 64)}),
		"datagram": benchSend(tb, ci.SendWR{Op: ci.OpSend, To: ci.Dest{AV: new(faceAV)},
			SGL: []ci.SGE{{Addr: 1, Length: 64}}}),
		"recv":       benchRecv(tb),
		"completion": benchCompletion(tb),
	}
}

// TestNoAllocation checks that no path allocates after the first use of the side table.
func TestNoAllocation(t *testing.T) {
	for name, f := range paths(t) {
		f()
		require.Zero(t, testing.AllocsPerRun(20, f), name)
	}
}

// BenchmarkQueue measures one request through both ends of its queue, in batches of 32.
func BenchmarkQueue(b *testing.B) {
	for name, f := range paths(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				f()
			}
		})
	}
}
