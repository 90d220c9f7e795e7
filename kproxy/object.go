package kproxy

import (
	"errors"
	"math"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// object is an entry of a session's handle table. Session.mu guards the fields from state on.
type object struct {
	kind   schema.Kind
	handle schema.Handle
	token  uint64
	ca     *object     // the open adapter that it belongs to
	al     destroyable // the access layer's object; nil for an event queue
	queue  *eventQueue // of an event queue
	attr   *ci.CAAttr  // of a CA, when it was opened
	user   userCA      // of a CA
	qpType ci.QPType   // of a QP

	// The queues that receive its events, and how many each has delivered; the queue's lock guards the number.
	completions, async   *eventQueue
	completed, delivered uint64

	removed bool // of a CA: the adapter was removed
	fatal   bool // of a CA: EventLocalFatal was sent

	state    objectState
	parent   *object
	uses     []*object
	children int
	users    int
	charge   charge
	memories []*mapping // of an MR; more than one after a change that failed

	// change serializes Destroy and the verbs that change charge or memories. It is locked before Session.mu.
	change sync.Mutex

	item    *Item   // of an object of a service
	servant Servant // of an item, when it is live
}

// destroyable is what all objects of the access layer have in common.
type destroyable interface{ Destroy() error }

type objectState uint8

const (
	creating objectState = iota
	live
	destroying
)

// slot is a place in the table. Its generation changes whenever it is used again.
type slot struct {
	generation uint32
	o          *object
}

// objects returns everything in the table. mu is held.
func (c *Session) objects() []*object {
	var list []*object
	for i := range c.slots {
		if o := c.slots[i].o; o != nil {
			list = append(list, o)
		}
	}
	return list
}

// find returns the object of a handle. Status: that of the kind; InvalidState (the adapter was removed). mu is held.
func (c *Session) find(verb string, k schema.Kind, h schema.Handle) (*object, error) {
	o, err := c.findAny(verb, k, h)
	if err == nil && o.isRemoved() {
		return nil, removedError(verb)
	}
	return o, err
}

// findAny returns what find does, and finds objects of removed adapters, too.
func (c *Session) findAny(verb string, k schema.Kind, h schema.Handle) (*object, error) {
	if i := h.Index(); h.Kind() == k && uint64(i) < uint64(len(c.slots)) {
		s := &c.slots[i]
		if s.o != nil && s.o.handle == h && s.o.state == live {
			return s.o, nil
		}
	}
	return nil, failf(verb, k.Invalid(), "handle %x is not one of this client's objects of kind %v", uint64(h), k)
}

// lookup returns the object of a handle. Status: that of the kind.
func (c *Session) lookup(verb string, k schema.Kind, h schema.Handle) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(verb, k, h)
}

// reserve puts a new object into the table, in state creating: its handle is valid only after commit. The parent and
// the objects that it uses are busy from now on. Status: InsufficientResources (quota), InvalidState (closed).
func (c *Session) reserve(verb string, o *object, parent *object, uses ...*object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return failf(verb, ci.InvalidState, "the client is being closed")
	}
	for _, p := range append(uses, parent) {
		switch {
		case p == nil:
		case p.isRemoved():
			return removedError(verb)
		case p.state != live:
			return failf(verb, p.kind.Invalid(), "the %v is being destroyed", p.kind)
		}
	}
	if limit := c.quota.kind(o.kind); c.used.count[o.kind] >= limit {
		c.s.refused.objects[o.kind].Add(1)
		return overQuota(verb, "the client has %d objects of kind %v, which is its quota", limit, o.kind)
	}
	if err := c.addCharge(verb, o.charge); err != nil {
		return err
	}
	c.used.count[o.kind]++
	var i uint32
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		i = uint32(len(c.slots))
		c.slots = append(c.slots, slot{})
	}
	s := &c.slots[i]
	s.generation = s.generation%schema.MaxGeneration + 1
	s.o = o
	o.handle = schema.MakeHandle(o.kind, s.generation, i)
	o.parent, o.uses = parent, uses
	if parent != nil {
		parent.children++
	}
	for _, u := range uses {
		u.users++
	}
	return nil
}

// addCharge adds to the client's usage. Status: InsufficientResources. mu is held.
func (c *Session) addCharge(verb string, x charge) error {
	if x.queue > c.quota.QueueBytes-c.used.queueBytes {
		c.s.refused.queueBytes.Add(1)
		return overQuota(verb, "queues of %d bytes and %d more, quota %d", c.used.queueBytes, x.queue,
			c.quota.QueueBytes)
	}
	if x.memory > c.quota.MemoryBytes-c.used.memoryBytes {
		c.s.refused.memoryBytes.Add(1)
		return overQuota(verb, "%d bytes of registered memory and %d more, quota %d", c.used.memoryBytes,
			x.memory, c.quota.MemoryBytes)
	}
	if x.service > c.quota.ServiceBytes-c.used.serviceBytes {
		c.s.refused.serviceBytes.Add(1)
		return overQuota(verb, "%d bytes of services and %d more, quota %d", c.used.serviceBytes,
			x.service, c.quota.ServiceBytes)
	}
	if x.mappings > c.quota.Mappings-c.used.mappings {
		c.s.refused.mappings.Add(1)
		return overQuota(verb, "the daemon has %d mappings of the client's memory, quota %d",
			c.used.mappings, c.quota.Mappings)
	}
	if err := c.s.shares.take(verb, c.peer, x.share()); err != nil {
		c.s.refused.shares.Add(1)
		return err
	}
	c.used.queueBytes += x.queue
	c.used.memoryBytes += x.memory
	c.used.mappings += x.mappings
	c.used.files += x.files
	c.used.space += x.space
	c.used.serviceBytes += x.service
	return nil
}

// dropCharge takes back from the client's usage. mu is held.
func (c *Session) dropCharge(x charge) {
	c.used.queueBytes -= x.queue
	c.used.memoryBytes -= x.memory
	c.used.mappings -= x.mappings
	c.used.files -= x.files
	c.used.space -= x.space
	c.s.shares.give(c.peer, x.share())
	c.used.serviceBytes -= x.service
}

// commit makes the handle of a new object valid.
func (c *Session) commit(o *object) {
	c.mu.Lock()
	o.state = live
	c.mu.Unlock()
}

// remove takes an object out of the table.
func (c *Session) remove(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots == nil {
		return // the session has been closed meanwhile
	}
	i := o.handle.Index()
	c.slots[i].o = nil
	c.free = append(c.free, i)
	c.used.count[o.kind]--
	c.dropCharge(o.charge)
	if o.parent != nil {
		o.parent.children--
	}
	for _, u := range o.uses {
		u.users--
	}
}

// destroy executes the Destroy of every kind. An object whose adapter was removed is destroyed already: the verb waits
// until it is, releases the handle and succeeds.
func (c *Session) destroy(r *schema.Object) (*Result, error) {
	k := r.Handle.Kind()
	if k >= schema.NumKinds {
		return nil, failf(destroyVerb[schema.KindNone], ci.InvalidHandle, "handle %x has no kind", uint64(r.Handle))
	}
	verb := destroyVerb[k]
	c.mu.Lock()
	o, err := c.findAny(verb, k, r.Handle)
	if err == nil && (o.children > 0 || o.users > 0) {
		err = failf(verb, ci.ResourceBusy, "%d objects were made from it and %d use it: destroy them first",
			o.children, o.users)
	}
	if err == nil {
		o.state = destroying
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	o.change.Lock()
	defer o.change.Unlock()
	if o.al != nil {
		err = o.al.Destroy()
	}
	if c.wasRemoved(o) {
		switch {
		case ci.StatusOf(err) == ci.Timeout:
			c.commit(o) // the client may repeat the verb
			return nil, err
		case errors.Is(err, accesslayer.ErrClosed) && !errors.Is(err, accesslayer.ErrGivenUp):
			err = nil
		}
	}
	switch {
	case ci.StatusOf(err) == ci.ResourceBusy:
		c.commit(o)
		return nil, err
	case err == nil:
		c.release(o.memories...)
		o.memories = nil
	default:
		c.log.Error("kproxy: destroy failed", "kind", k, "error", err)
	}
	var reply schema.DestroyReply
	if o.queue != nil {
		o.queue.close()
	}
	reply.Completions = o.completions.forget(o, &o.completed)
	reply.Async = o.async.forget(o, &o.delivered)
	if k == schema.KindQP {
		reply.Waiting = o.waiting()
	}
	if o.item != nil {
		o.item.Remove() // the service may remove it, too
	} else {
		c.remove(o)
	}
	return &Result{Body: &reply}, err
}

// wasRemoved is isRemoved without mu.
func (c *Session) wasRemoved(o *object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.isRemoved()
}

// waiting returns the number of completions in the CQs of a QP, and the largest number if it is not known.
func (o *object) waiting() (total uint64) {
	for _, u := range o.uses {
		if u.kind != schema.KindCQ {
			continue
		}
		n, err := u.al.(*accesslayer.CQ).Peek()
		if err != nil || n < 0 {
			return math.MaxUint64
		}
		total += uint64(n)
	}
	return total
}

var destroyVerb = [schema.NumKinds]string{"Object.Destroy", "Object.Destroy", "CA.Destroy", "PD.Destroy", "AV.Destroy",
	"CQ.Destroy", "SRQ.Destroy", "QP.Destroy", "Mcast.Destroy", "MR.Destroy", "MW.Destroy", "Services.Close",
	"Agent.Close", "Binding.Release", "Listener.Close", "Conn.Close", "Lookup.Close", "LookupRequest.Close"}
