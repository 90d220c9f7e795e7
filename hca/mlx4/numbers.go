package mlx4

import "sync"

// keptNumbers is how many numbers of a kind are not used for a while after the Destroy of their objects.
const keptNumbers = 256

// numbers are the numbers of objects of a kind. A number that was released is used again when keptNumbers others have
// been released, and before new ones are allocated: the adapter needs memory for each number that was ever in use.
type numbers struct {
	alloc func() (uint32, error)

	mu   sync.Mutex
	free []uint32 // the oldest first
}

// take returns a number.
func (x *numbers) take() (uint32, error) {
	if n, ok := x.reuse(keptNumbers); ok {
		return n, nil
	}
	n, err := x.alloc()
	if err != nil {
		if n, ok := x.reuse(0); ok {
			return n, nil
		}
	}
	return n, err
}

// reuse returns the number that was released first, if there are more than kept ones.
func (x *numbers) reuse(kept int) (uint32, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.free) <= kept {
		return 0, false
	}
	n := x.free[0]
	x.free = append(x.free[:0], x.free[1:]...)
	return n, true
}

// release makes a number free.
func (x *numbers) release(n uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.free = append(x.free, n)
}

// startNumbers sets the sources of numbers.
func (h *HCA) startNumbers() {
	h.qpns.alloc = func() (uint32, error) { return h.dev.AllocQPs(h.ctx, 1, 1) }
	h.cqns.alloc = func() (uint32, error) { return h.dev.AllocCQ(h.ctx) }
	h.srqns.alloc = func() (uint32, error) { return h.dev.AllocSRQ(h.ctx) }
	h.mpts.alloc = func() (uint32, error) { return h.dev.AllocMPT(h.ctx) }
}
