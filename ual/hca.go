package ual

import (
	"errors"
	"fmt"
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/schema"
)

var errNoDescriptor = errors.New("ual: no descriptor")

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
func (h *hca) OpenCA(guid ci.GUID, onEvent func(ci.Event), ctx any) (ci.CA, error) {
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
	ca, err := h.openCA(guid, onEvent, ctx)
	if err != nil {
		return nil, err
	}
	h.open = true
	return ca, nil
}

func (h *hca) openCA(guid ci.GUID, onEvent func(ci.Event), ctx any) (ci.CA, error) {
	c := &CA{c: h.c, hca: h}
	c.events = receiver{context: ctx, drained: c.drained, onEvent: func(e ci.Event) { onEvent(e); c.forward(e) }}
	h.c.tokens.add(&c.events)
	var err error
	if c.completions, err = h.c.newEventQueue(c.lostCompletions, func() {}); err == nil {
		c.async, err = h.c.newEventQueue(c.lostEvents, c.disconnect)
	}
	var r schema.Created
	if err == nil {
		err = h.c.do(schema.CmdOpenCA, &schema.OpenCA{GUID: guid, Token: c.events.token, Async: c.async.handle}, nil,
			&r)
	}
	if err != nil {
		c.closeQueues()
		return nil, err
	}
	c.handle = r.Handle
	return c, nil
}
