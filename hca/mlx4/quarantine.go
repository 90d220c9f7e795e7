package mlx4

import (
	"slices"
	"sync"
	"time"
)

// quarantine has the QP numbers that are not free yet after the Destroy of their QPs.
type quarantine struct {
	mu   sync.Mutex
	list []retired
}

type retired struct {
	num   uint32
	until time.Duration
}

func (x *quarantine) add(num uint32, until time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, retired{num, until})
}

// expire frees the numbers whose time is over.
func (x *quarantine) expire(h *HCA) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.list) == 0 {
		return
	}
	now := h.now()
	x.list = slices.DeleteFunc(x.list, func(r retired) bool {
		if r.until > now {
			return false
		}
		h.qpns.release(r.num)
		return true
	})
}

// now returns the time of the clock.
func (h *HCA) now() time.Duration { return h.clock.Elapsed() }
