package mlx4

import (
	"slices"
	"sync"

	"ciddk/ci"
)

// handlers are the handlers of a CA's events: that of the open first, then those of OnEvent.
type handlers struct {
	mu   sync.Mutex
	list []*notifier
}

func (x *handlers) add(n *notifier) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, n)
}

// remove removes a handler, and waits until it does not run.
func (x *handlers) remove(n *notifier) {
	x.mu.Lock()
	x.list = slices.DeleteFunc(x.list, func(o *notifier) bool { return o == n })
	x.mu.Unlock()
	n.close()
}

func (x *handlers) deliver(e ci.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.list {
		n.deliver(e)
	}
}

// flush waits until all handlers have received the events so far.
func (x *handlers) flush() {
	x.mu.Lock()
	list := slices.Clone(x.list)
	x.mu.Unlock()
	for _, n := range list {
		n.flush()
	}
}

// handler is a handler of OnEvent.
type handler struct {
	refs
	ca     *ca
	notify *notifier
}

// OnEvent adds a handler for the events of the CA and its ports. Status: InvalidParameter, InvalidCAHandle.
func (c *ca) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	const verb = "CA.OnEvent"
	switch {
	case fn == nil:
		return nil, fail(verb, ci.InvalidParameter, "the callback is nil")
	case !c.get():
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	h := &handler{ca: c, notify: newNotifier(nil, fn, arg)}
	c.hca.numHandlers.Add(1)
	c.handlers.add(h.notify)
	return h, nil
}

// Destroy removes the handler. Status: InvalidHandle. Context: drain.
func (h *handler) Destroy() error {
	if err := h.beginDestroy("CA.OnEvent", ci.InvalidHandle); err != nil {
		return err
	}
	h.ca.handlers.remove(h.notify)
	h.ca.hca.numHandlers.Add(-1)
	h.ca.put()
	return nil
}
