package driver

import "sync"

// A Vector is a completion vector: it runs the callbacks of its notifiers one after another, on a goroutine that exists
// only while there are any. Notifiers that are due take turns, one callback each. The zero value is ready for use.
type Vector struct {
	mu      sync.Mutex // after Notifier.mu
	idle    *sync.Cond // made by Wait
	running bool
	queue   []*Notifier
}

// add queues n, which has a callback to run. The caller holds n.mu.
func (v *Vector) add(n *Notifier) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue = append(v.queue, n)
	if !v.running {
		v.running = true
		go v.serve()
	}
}

func (v *Vector) serve() {
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

// Wait returns when the goroutine has ended. The caller has closed all notifiers of the vector.
func (v *Vector) Wait() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.running {
		if v.idle == nil {
			v.idle = sync.NewCond(&v.mu)
		}
		v.idle.Wait()
	}
}
