package rvt

import "sync"

// defaultVectors is the number of completion vectors of an HCA whose configuration has none.
const defaultVectors = 8

// maxVectors is the most completion vectors of an HCA: ci.Affinity.Vector has 16 bits.
const maxVectors = 1<<16 - 1

// vector is a completion vector: it runs the callbacks of its CQs one after another, on a goroutine that exists only
// while there are any. CQs that are due take turns, one callback each.
type vector struct {
	mu      sync.Mutex // after notifier.mu
	idle    *sync.Cond // made by wait
	running bool
	queue   []*notifier
}

// add queues n, which has a callback to run. The caller holds n.mu.
func (v *vector) add(n *notifier) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue = append(v.queue, n)
	if !v.running {
		v.running = true
		go v.serve()
	}
}

func (v *vector) serve() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) > 0 {
		n := v.queue[0]
		v.queue[0] = nil
		v.queue = v.queue[1:]
		v.mu.Unlock()
		n.turn()
		v.mu.Lock()
	}
	v.queue, v.running = nil, false
	if v.idle != nil {
		v.idle.Broadcast()
	}
}

// wait returns when the goroutine has ended. The caller has closed all notifiers of the vector.
func (v *vector) wait() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.running {
		if v.idle == nil {
			v.idle = sync.NewCond(&v.mu)
		}
		v.idle.Wait()
	}
}
