package ual

import (
	"fmt"
	"sync"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// hca is an adapter of the daemon.
type hca struct {
	ci.UnimplementedHCA
	c    *Client
	info ci.HCAInfo

	mu   sync.Mutex
	open bool
}

var _ ci.HCA = (*hca)(nil)

// Info returns what the driver in the daemon states.
func (h *hca) Info() ci.HCAInfo { return h.info }

// OpenCA opens the adapter for this process. Other processes may have it open, too.
func (h *hca) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "zero GUID or nil onEvent"}
	case guid != h.info.GUID:
		return nil, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: fmt.Sprintf("this HCA is %016x",
			uint64(h.info.GUID))}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open {
		return nil, &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: "this HCA is open"}
	}
	ca, err := h.openCA(guid, onEvent, arg)
	if err != nil {
		return nil, err
	}
	h.open = true
	return ca, nil
}

func (h *hca) openCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	c := &CA{c: h.c, hca: h, lib: findLibrary(h.c.libs, h.info.Library), opened: make(chan struct{})}
	c.events = receiver{context: arg, drained: c.drained, onEvent: func(e ci.Event) {
		if e.Type == ci.EventLocalFatal {
			c.fatal()
		}
		onEvent(e)
		c.forward(e)
	}}
	h.c.tokens.add(&c.events)
	var err error
	if c.completions, err = h.c.newEventQueue(func() {}); err == nil {
		c.async, err = h.c.newEventQueue(c.disconnect)
	}
	opened := sync.OnceFunc(func() { close(c.opened) })
	if err == nil {
		err = c.open(guid, opened)
	}
	opened()
	if err != nil {
		c.closeQueues()
		return nil, err
	}
	return c, nil
}

// open opens the adapter in the daemon. It calls opened when the daemon has replied.
func (c *CA) open(guid ci.GUID, opened func()) error {
	a := &ci.UserOpenCA{GUID: guid}
	hooks := c.hooks().OpenCA
	// The first hooks of an adapter run whenever there is a library.
	_, err := aroundFallible(c, c.lib, hooks, a, verbKind{verb: "HCA.OpenCA", data: true}, func(p private) error {
		var r schema.Created
		q := &schema.OpenCA{GUID: guid, Token: c.events.token, Async: c.async.handle}
		err := c.c.doUser(schema.CmdOpenCA, q, &r, &q.User, &r.User, p)
		c.handle = r.Handle
		opened()
		return err
	}, func() { _, _ = c.c.destroyEvents(c.handle, &c.events) }) // the application receives the error of Post
	c.state = a.CA
	return err
}
