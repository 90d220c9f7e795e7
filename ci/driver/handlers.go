package driver

import (
	"slices"
	"sync"

	"ciddk/ci"
)

// Handlers are the handlers for events of a CA and its ports: that of HCA.OpenCA and those of CA.OnEvent. The zero
// value has none.
type Handlers struct {
	mu   sync.Mutex
	list []*Notifier
}

// Open adds the handler of HCA.OpenCA. Close removes it.
func (h *Handlers) Open(fn func(ci.Event), arg any) { h.add(&Notifier{OnEvent: fn, Context: arg}) }

// OnEvent adds a handler, as CA.OnEvent does. It depends on the CA, whose Refs are ca. Status: InvalidParameter,
// InvalidCAHandle.
func (h *Handlers) OnEvent(ca *Refs, fn func(ci.Event), arg any) (*Handler, error) {
	if fn == nil {
		return nil, &ci.Error{Verb: onEvent, Status: ci.InvalidParameter, Detail: "the callback is nil"}
	}
	if !ca.Get() {
		return nil, &ci.Error{Verb: onEvent, Status: ci.InvalidCAHandle}
	}
	x := &Handler{of: h, ca: ca, n: &Notifier{OnEvent: fn, Context: arg}}
	h.add(x.n)
	return x, nil
}

func (h *Handlers) add(n *Notifier) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, n)
}

// Event delivers an event to all handlers.
func (h *Handlers) Event(e ci.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.list {
		n.Event(e)
	}
}

// Flush waits until all handlers have received the events so far.
func (h *Handlers) Flush() {
	for _, n := range h.snapshot() {
		n.Flush()
	}
}

// Close removes all handlers, and waits until none runs. CA.Destroy calls it when nothing depends on the CA.
func (h *Handlers) Close() {
	for _, n := range h.snapshot() {
		h.remove(n)
	}
}

func (h *Handlers) snapshot() []*Notifier {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

// remove removes a handler, and waits until it does not run.
func (h *Handlers) remove(n *Notifier) {
	h.mu.Lock()
	h.list = slices.DeleteFunc(h.list, func(o *Notifier) bool { return o == n })
	h.mu.Unlock()
	n.Close()
}

const onEvent = "CA.OnEvent"

// A Handler is the object that CA.OnEvent returns.
type Handler struct {
	refs Refs
	of   *Handlers
	ca   *Refs
	n    *Notifier
}

// Alive reports whether the handler has not been destroyed.
func (x *Handler) Alive() bool { return x.refs.Alive() }

// Destroy removes the handler. Status: InvalidHandle. Context: drain.
func (x *Handler) Destroy() error {
	if err := x.refs.BeginDestroy(onEvent, ci.InvalidHandle); err != nil {
		return err
	}
	x.of.remove(x.n)
	x.ca.Put()
	return nil
}
