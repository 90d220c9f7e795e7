package capture

import (
	"sync"

	"ciddk/rvt"
)

// A dropWatch finds out from an engine's counters what it dropped during a delivery. The ports of an HCA that share a
// tap share one.
type dropWatch struct {
	counters func() map[string]uint64 // rvt.PortContext.Counters; nil: there are none
	mu       sync.Mutex
	running  int
	begun    uint64
}

// delivery is one in progress.
type delivery struct {
	before map[string]uint64
	alone  bool
	begun  uint64
}

// begin is called before a delivery.
func (w *dropWatch) begin() delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
	w.begun++
	return delivery{before: w.snapshot(), alone: w.running == 1, begun: w.begun}
}

// end is called after it. It returns the reason for which most packets were dropped meanwhile, and their number. alone
// reports that nothing else was delivered at the same time, so that they were packets of this delivery.
func (w *dropWatch) end(d delivery) (reason string, n uint64, alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	after := w.snapshot()
	for _, c := range engineDrops {
		if k := after[c] - d.before[c]; k > n {
			reason, n = c, k
		}
	}
	return reason, n, d.alone && d.begun == w.begun
}

func (w *dropWatch) snapshot() map[string]uint64 {
	if w.counters == nil {
		return nil
	}
	return w.counters()
}

// engineDrops are the counters of the packets that the engine drops. Those of ports are not among them.
var engineDrops = func() (names []string) {
	for c := rvt.DropNoQP; c <= rvt.DropBusy; c++ {
		names = append(names, c.String())
	}
	return append(names, rvt.DropEntropy.String())
}()
