package rvt

import (
	"sync"
	"time"

	"ciddk/ci"
)

// maxQuarantined bounds the numbers in quarantine, and with them its memory: about 40 MB.
const maxQuarantined = 1 << 20

// quarantine keeps numbers of destroyed QPs out of use.
type quarantine struct {
	mu    sync.Mutex
	until map[ci.QPN]time.Duration
}

func (t *quarantine) add(n ci.QPN, now, until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until == nil {
		t.until = make(map[ci.QPN]time.Duration)
	}
	if len(t.until) >= 1024 && len(t.until)&(len(t.until)-1) == 0 { // at each doubling
		for k, u := range t.until {
			if u <= now {
				delete(t.until, k)
			}
		}
	}
	if len(t.until) >= maxQuarantined {
		for k := range t.until { // any: the number is issued again with a chance of one in 2^24
			delete(t.until, k)
			break
		}
	}
	t.until[n] = until
}

func (t *quarantine) holds(n ci.QPN, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, ok := t.until[n]
	if ok && u <= now {
		delete(t.until, n)
		return false
	}
	return ok
}

func (h *HCA) eachQP(f func(*QP)) {
	h.qps.all(f)
	for _, p := range h.ports {
		for i := range p.special {
			if q := p.special[i].Load(); q != nil {
				f(q)
			}
		}
	}
}
