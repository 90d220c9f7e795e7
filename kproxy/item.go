package kproxy

import (
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// Service executes the commands that are not verbs, such as those for connections. Its objects are Items of sessions.
type Service interface {
	// Do executes a command of a client. It may be called concurrently.
	Do(c *Session, call *Call) (*Result, error)
}

// Servant is the service's part of an Item. Its methods may be called concurrently, and before Item.Commit has
// returned. They do not wait for the client or for the network.
type Servant interface {
	// Destroy ends the object at the client's request. Status: that of the service; the object is gone in any case.
	Destroy() error
	// Abandon ends the object because the client is gone.
	Abandon()
	// Status returns a short text for status reports. An empty one is not reported.
	Status() string
}

// Item is an object of a Service in the handle table of a client. Its methods may be called concurrently.
type Item struct {
	c      *Session
	o      *object
	gone   bool        // out of the table; Session.mu guards it
	signal atomic.Bool // an event is due or was sent, and the client has not taken the notices
}

// ItemConfig describes an Item.
type ItemConfig struct {
	Kind   schema.Kind
	Token  uint64        // of its events
	Parent *Item         // nil: none
	Queue  schema.Handle // of its events, if it has no parent
	Bytes  int64         // that it holds in the daemon; Quota.ServiceBytes limits their sum
}

// Reserve puts an object into the client's table. Its handle is valid after Commit; until then, Remove takes it out
// again. Status: InsufficientResources (quota), InvalidState (the client is being closed), InvalidHandle (Queue).
func (c *Session) Reserve(verb string, cfg ItemConfig) (*Item, error) {
	i := &Item{c: c, o: &object{kind: cfg.Kind, token: cfg.Token, charge: charge{service: cfg.Bytes}}}
	i.o.item = i
	var parent *object
	var uses []*object
	if cfg.Parent != nil {
		parent = cfg.Parent.o
		i.o.async = parent.async
	} else {
		queue, err := c.lookup(verb, schema.KindEventQueue, cfg.Queue)
		if err != nil {
			return nil, err
		}
		i.o.async, uses = queue.queue, []*object{queue}
	}
	if err := c.reserve(verb, i.o, parent, uses...); err != nil {
		return nil, err
	}
	return i, nil
}

// Commit makes the handle valid. If the client has been closed meanwhile, Commit calls s.Abandon. Status: InvalidState.
func (i *Item) Commit(verb string, s Servant) error {
	c := i.c
	c.mu.Lock()
	closed := c.closed
	if !closed {
		i.o.al, i.o.servant, i.o.state = s, s, live
	}
	c.mu.Unlock()
	if closed {
		s.Abandon()
		i.Remove()
		return failf(verb, ci.InvalidState, "the client is being closed")
	}
	return nil
}

// Remove takes an object that is not committed, or that has ended, out of the table. The caller has ended the servant.
func (i *Item) Remove() {
	c := i.c
	c.mu.Lock()
	gone := i.gone
	i.gone = true
	c.mu.Unlock()
	if !gone {
		i.o.async.forget(i.o, &i.o.delivered)
		c.remove(i.o)
	}
}

// Session returns the client.
func (i *Item) Session() *Session { return i.c }

// Handle returns the handle.
func (i *Item) Handle() schema.Handle { return i.o.handle }

// Signal queues an event for the client, unless one was queued since the last call of Rearm.
func (i *Item) Signal() {
	if !i.signal.Swap(true) {
		i.o.async.notice(i.o)
	}
}

// Rearm makes the next call of Signal queue an event. The service calls it before it finds that nothing waits.
func (i *Item) Rearm() { i.signal.Store(false) }

// Servant returns the servant of a handle, and its Item. Status: InvalidHandle.
func (c *Session) Servant(verb string, k schema.Kind, h schema.Handle) (Servant, *Item, error) {
	o, err := c.lookup(verb, k, h)
	if err != nil {
		return nil, nil, err
	}
	if o.servant == nil {
		return nil, nil, failf(verb, k.Invalid(), "handle %x is not an object of a service", uint64(h))
	}
	return o.servant, o.item, nil
}

// Charge adds bytes to those that the client's items hold. Status: InsufficientResources.
func (c *Session) Charge(verb string, bytes int64) error {
	return c.chargeMore(verb, charge{service: bytes})
}

// Discharge takes back what Charge added.
func (c *Session) Discharge(bytes int64) { c.chargeLess(charge{service: bytes}) }

// Privileged returns an error unless the client may change ports; see Config.Privileged. Status: InvalidPermission.
func (c *Session) Privileged(verb string) error { return c.privileged(verb) }

// ID returns the number of the client in logs and status reports.
func (c *Session) ID() uint64 { return c.id }

// findQP returns the client's QP with a number, or nil.
func (c *Session) findQP(guid ci.GUID, num ci.QPN) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.slots {
		o := c.slots[i].o
		if o == nil || o.kind != schema.KindQP || o.al == nil || o.ca.attr.GUID != guid {
			continue
		}
		if qp, ok := o.al.(*accesslayer.QP); ok && qp.Num() == num {
			return o
		}
	}
	return nil
}

// CheckQP returns an error unless the client has a QP with the number. Status: InvalidQPHandle.
func (c *Session) CheckQP(verb string, guid ci.GUID, num ci.QPN) error {
	if c.findQP(guid, num) == nil {
		return failf(verb, ci.InvalidQPHandle, "QP %#x of HCA %016x is not one of this client",
			uint32(num), uint64(guid))
	}
	return nil
}

// Owner returns a client of a user that has the QP with a number, nil if there is none.
func (s *Server) Owner(uid int, guid ci.GUID, num ci.QPN) *Session {
	for _, c := range s.Sessions() {
		if c.peer.UID == uid && c.findQP(guid, num) != nil {
			return c
		}
	}
	return nil
}

// ReadMemory copies from the memory of the client's process. Status: InvalidPermission, InvalidState.
func (c *Session) ReadMemory(b []byte, addr uint64) error {
	m, err := c.proc.Memory(addr, uint64(len(b)), 0)
	if err != nil {
		return err
	}
	_, err = m.ReadAt(b, 0)
	return err
}

// Quarantine keeps the number of a QP of the client from being used again for d after the QP's destruction.
func (c *Session) Quarantine(guid ci.GUID, num ci.QPN, d time.Duration) {
	if o := c.findQP(guid, num); o != nil {
		o.al.(*accesslayer.QP).Linger(d)
	}
}

// abandonOrder are the kinds of items in the order in which they are ended: first those that create others.
var abandonOrder = []schema.Kind{schema.KindListener, schema.KindAgent, schema.KindLookup, schema.KindLookupRequest,
	schema.KindConn, schema.KindPort, schema.KindServices}

// abandon ends the items of a session that is being closed.
func (c *Session) abandon() {
	c.mu.Lock()
	by := map[schema.Kind][]Servant{}
	for _, o := range c.objects() {
		if o.servant != nil {
			by[o.kind] = append(by[o.kind], o.servant)
		}
	}
	c.mu.Unlock()
	for _, k := range abandonOrder {
		for _, s := range by[k] {
			s.Abandon()
		}
	}
}
