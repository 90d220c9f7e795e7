package ual

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// CA is an open adapter of the daemon.
type CA struct {
	ci.UnimplementedCA
	c      *Client
	hca    *hca
	lib    *ci.UserLibrary // nil: none
	state  any             // the library's
	handle schema.Handle
	events receiver

	completions, async *eventQueue
	closing            atomic.Bool // the queues are being closed by Destroy

	opened  chan struct{}            // closed when handle is set, or is not going to be: events can come before
	failure atomic.Pointer[ci.Error] // of all verbs, since the adapter was removed

	mu       sync.Mutex
	handlers []*handler
}

var _ ci.CA = (*CA)(nil)

// closeQueues closes the event queues that exist.
func (c *CA) closeQueues() {
	c.closing.Store(true)
	for _, q := range []*eventQueue{c.completions, c.async} {
		if q != nil {
			q.close()
		}
	}
	c.c.tokens.remove(&c.events)
}

// fatal handles EventLocalFatal, before the consumer does. If the verbs of the adapter fail from now on, those that a
// library executes fail, too, and goroutines that wait for completions are woken to learn it.
func (c *CA) fatal() {
	<-c.opened
	if c.c.isLost.Load() {
		return
	}
	err := c.c.do(schema.CmdQueryCA, &schema.CA{CA: c.handle}, nil, new(schema.CAAttr))
	e, ok := errors.AsType[*ci.Error](err)
	if !ok || e.Status != ci.InvalidState || errors.Is(err, ErrDisconnected) {
		return // the daemon stops, or the driver reports a failure; verbs continue to work, or the connection is lost
	}
	c.failure.Store(e)
	c.c.wake(c)
}

// bypassError returns the error of a verb that the library executes in shared memory, if nothing changes there any
// more: the connection is lost, or the adapter was removed.
func (c *CA) bypassError(cmd schema.Command) error {
	if c.c.isLost.Load() {
		return c.c.disconnected(cmd)
	}
	if e := c.failure.Load(); e != nil {
		return &ci.Error{Verb: cmd.Verb(), Status: e.Status, Detail: e.Detail}
	}
	return nil
}

// drained returns when no event of the CA will be handled any more, because the connection is lost.
func (c *CA) drained() {
	<-c.completions.done
	<-c.async.done
}

// disconnect runs when the asynchronous events end. Unless Destroy ended them, the daemon has exited.
func (c *CA) disconnect() {
	if c.closing.Load() || c.c.closing.Load() {
		return
	}
	c.c.isLost.Store(true)
	for _, r := range c.c.tokens.all() {
		r.end()
	}
	c.c.wake(c)
	if !c.events.isFatal() { // otherwise the daemon has announced its end, or removed the adapter
		c.events.post(schema.Event{Kind: eventEnd}, &c.c.wait)
	}
}

// Destroy closes the adapter.
func (c *CA) Destroy() error {
	c.mu.Lock()
	n := len(c.handlers)
	c.mu.Unlock()
	if n > 0 {
		return &ci.Error{Verb: "CA.Destroy", Status: ci.ResourceBusy, Detail: "an event handler is registered"}
	}
	a := &ci.UserDestroyCA{CA: c.state}
	hooks := c.hooks().DestroyCA
	closed := false
	_, err := aroundFallible(c, c.state, hooks, a, verbKind{verb: "CA.Destroy"}, func(private) error {
		_, err := c.c.destroyEvents(c.handle, &c.events)
		closed = err == nil
		return err
	}, func() {})
	if !closed {
		return err
	}
	c.closeQueues()
	c.hca.mu.Lock()
	c.hca.open = false
	c.hca.mu.Unlock()
	return err
}

// destroy destroys an object without events. Without a connection, it succeeds: the daemon has destroyed everything.
func (c *Client) destroy(h schema.Handle) error {
	_, err := c.destroyEvents(h, nil)
	return err
}

// destroyEvents is destroy, and waits for the callbacks of r, if not nil.
func (c *Client) destroyEvents(h schema.Handle, r *receiver) (reply schema.DestroyReply, err error) {
	if err := c.do(schema.CmdDestroy, &schema.Object{Handle: h}, nil, &reply); err != nil {
		if !errors.Is(err, ErrDisconnected) {
			return reply, err
		}
		if r != nil {
			r.drained()
			r.awaitIdle()
		}
		return reply, nil
	}
	if r != nil {
		late := c.clock.AfterFunc(c.limit, r.end) // the events that the daemon has reported may not exist
		defer late.Stop()
		r.await(&reply)
	}
	return reply, nil
}

// Query returns the attributes that the daemon grants to this process.
func (c *CA) Query() (*ci.CAAttr, error) {
	a := &ci.UserQueryCA{CA: c.state}
	hooks := c.hooks().QueryCA
	err := around(c, c.state, hooks, a, verbKind{verb: "CA.Query"}, func(private) error {
		var r schema.CAAttr
		if err := c.c.do(schema.CmdQueryCA, &schema.CA{CA: c.handle}, nil, &r); err != nil {
			return err
		}
		a.Attr = caAttr(&r)
		a.Attr.Caps |= ci.CapEventHandlers
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a.Attr, nil
}

// Modify sets attributes of a port. The daemon permits it to privileged processes only.
func (c *CA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	x := &ci.UserModifyCA{CA: c.state, Port: port, Set: set, Attr: a}
	hooks := c.hooks().ModifyCA
	return around(c, c.state, hooks, x, verbKind{verb: "CA.Modify"}, func(private) error {
		a := x.Attr
		return c.c.do(schema.CmdModifyCA, &schema.ModifyCA{CA: c.handle, Port: x.Port, Set: x.Set, CapMask: a.CapMask,
			Capability: a.Capability, PKeyErrors: a.PKeyErrors, QKeyErrors: a.QKeyErrors, InitType: a.InitType,
			SystemGUID: a.SystemGUID}, nil, &schema.None{})
	})
}

// AllocatePD allocates a protection domain.
func (c *CA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	a := &ci.UserAllocatePD{CA: c.state, Type: typ}
	hooks := c.hooks().AllocatePD
	pd := &PD{ca: c}
	_, err := aroundFallible(c, c.state, hooks, a, verbKind{verb: "CA.AllocatePD", data: true}, func(p private) error {
		var r schema.Created
		q := &schema.AllocatePD{CA: c.handle, Type: uint32(a.Type)}
		err := c.c.doUser(schema.CmdAllocatePD, q, &r, &q.User, &r.User, p)
		pd.handle = r.Handle
		return err
	}, func() { _ = c.c.destroy(pd.handle) }) // the application receives the error of Post
	if err != nil {
		return nil, err
	}
	pd.state = a.PD
	return pd, nil
}

// LocalMAD executes a MAD on a port.
func (c *CA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	if in == nil || out == nil {
		return &ci.Error{Verb: "CA.LocalMAD", Status: ci.InvalidParameter, Detail: "nil MAD"}
	}
	q := &schema.LocalMAD{CA: c.handle, MAD: *in, Port: port}
	if src != nil {
		q.Source, q.HasSrc = schema.NewAVAttr(src), true
	}
	var r schema.LocalMADReply
	if err := c.c.do(schema.CmdLocalMAD, q, nil, &r); err != nil {
		return err
	}
	*out = r.MAD
	return nil
}

// SLForIP returns the service level of an IP port.
func (c *CA) SLForIP(port uint8, ipPort uint16) (ci.SL, error) {
	var r schema.SLForIPReply
	err := c.c.do(schema.CmdSLForIP, &schema.SLForIP{CA: c.handle, Port: port, IPPort: ipPort}, nil, &r)
	return r.SL, err
}

// VendorCall executes a private command of the vendor in the daemon.
func (c *CA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	const verb = "CA.VendorCall"
	if op == nil {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "nil operation"}
	}
	if len(op.Data) > schema.MaxVendor || len(objects) > schema.MaxObjects {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "more data or objects than a message carries"}
	}
	q := &schema.VendorCall{CA: c.handle, Command: op.Command, Status: op.Status, Data: op.Data}
	for _, o := range objects {
		h, ok := handleOf(c, o)
		if !ok {
			return &ci.Error{Verb: verb, Status: ci.InvalidHandle, Detail: "an object is not of this CA"}
		}
		q.Objects = append(q.Objects, h)
	}
	a := &ci.UserVendorCall{CA: c.state, Op: op, Objects: objects}
	hooks := c.hooks().VendorCall
	return around(c, c.state, hooks, a, verbKind{verb: verb, data: true},
		func(p private) error { return c.vendorCall(op, q, p) })
}

func (c *CA) vendorCall(op *ci.VendorOp, q *schema.VendorCall, p private) error {
	var r schema.VendorCallReply
	err := c.c.doUser(schema.CmdVendorCall, q, &r, &q.User, &r.User, p)
	if v, ok := errors.AsType[*vendorError](err); ok {
		op.Status = v.status
		return v.err
	}
	if err == nil {
		op.N, op.Status = copy(op.Data, r.Data), r.Status
	}
	return err
}

// vendorError is an error with VendorOp.Status.
type vendorError struct {
	err    error
	status int32
}

func (v *vendorError) Error() string { return v.err.Error() }

func (v *vendorError) Unwrap() error { return v.err }

// OnEvent registers one more handler of the CA's events.
func (c *CA) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	if fn == nil {
		return nil, &ci.Error{Verb: "CA.OnEvent", Status: ci.InvalidParameter, Detail: "the callback is nil"}
	}
	if _, err := c.Query(); err != nil { // a CA that was destroyed has no handlers
		return nil, err
	}
	h := &handler{ca: c, fn: fn, ctx: arg}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers = append(slices.Clip(c.handlers), h)
	return h, nil
}

// forward calls the additional handlers of an event.
func (c *CA) forward(e ci.Event) {
	c.mu.Lock()
	handlers := c.handlers // a new slice with every change
	c.mu.Unlock()
	for _, h := range handlers {
		h.call(e)
	}
}

// handler is the result of CA.OnEvent.
type handler struct {
	ca  *CA
	fn  func(ci.Event)
	ctx any

	mu    sync.Mutex // held during the callback
	ended bool
}

func (h *handler) call(e ci.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		e.Context = h.ctx
		h.fn(e)
	}
}

// Destroy unregisters the handler. It waits for a callback that runs.
func (h *handler) Destroy() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return &ci.Error{Verb: "EventHandler.Destroy", Status: ci.InvalidHandle, Detail: "destroyed"}
	}
	h.ended = true
	h.ca.mu.Lock()
	defer h.ca.mu.Unlock()
	var rest []*handler
	for _, x := range h.ca.handlers {
		if x != h {
			rest = append(rest, x)
		}
	}
	h.ca.handlers = rest
	return nil
}
