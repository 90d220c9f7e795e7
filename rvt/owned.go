package rvt

import (
	"cmp"
	"slices"
	"sync"

	"ciddk/ci"
)

// owned is the set of objects of one client process, which are destroyed when the context of the process is closed. A
// nil owned is that of consumers in this process; its methods do nothing.
type owned struct {
	mu      sync.Mutex
	changed sync.Cond // with mu
	closing bool
	pending int // creates in progress
	seq     uint64
	removed uint64               // objects ever removed
	objects map[ci.Object]uint64 // by the order of their creation
}

func newOwned() *owned {
	o := &owned{objects: map[ci.Object]uint64{}}
	o.changed.L = &o.mu
	return o
}

// begin announces a create, or another verb that takes a reference on an object for a time. It reports false if the
// context is being closed.
func (o *owned) begin() bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return false
	}
	o.pending++
	return true
}

// abort ends a verb that has created nothing.
func (o *owned) abort() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending--
	o.changed.Broadcast()
}

// add ends a create.
func (o *owned) add(x ci.Object) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending--
	o.seq++
	o.objects[x] = o.seq
	o.changed.Broadcast()
}

// remove takes a destroyed object out. It is the last step of a Destroy, after the references to other objects are
// dropped.
func (o *owned) remove(x ci.Object) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.objects, x)
	o.removed++
	o.changed.Broadcast()
}

// destroyAll destroys all objects, the newest first, and waits for those that others create or destroy meanwhile.
func (o *owned) destroyAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	for o.pending > 0 {
		o.changed.Wait()
	}
	for len(o.objects) > 0 {
		before := o.removed
		list := o.newestFirst()
		o.mu.Unlock()
		for _, x := range list {
			// Busy objects follow in the next round. Any other error means that another goroutine destroys the object.
			_ = x.Destroy()
		}
		o.mu.Lock()
		for o.removed == before {
			o.changed.Wait()
		}
	}
}

// newestFirst returns the objects. mu is held.
func (o *owned) newestFirst() []ci.Object {
	list := make([]ci.Object, 0, len(o.objects))
	for x := range o.objects {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b ci.Object) int { return cmp.Compare(o.objects[b], o.objects[a]) })
	return list
}
