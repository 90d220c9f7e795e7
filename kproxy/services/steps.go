package services

import (
	"context"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/kproxy"
)

// notices are the notices of an object and its pending steps.
type notices struct {
	item *kproxy.Item

	mu    sync.Mutex
	ended bool
	list  []*schema.Notice
	steps map[uint64]context.CancelFunc // by operation number
}

// maxSteps is the number of steps of an object that may be pending, outcomes that wait included.
const maxSteps = 64

// begin adds a step. Its context ends when the client cancels it, and when the object ends.
func (n *notices) begin(verb string, op uint64) (context.Context, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ended:
		return nil, errorf(verb, ci.InvalidHandle, "the object has ended")
	case n.steps[op] != nil:
		return nil, errorf(verb, ci.InvalidParameter, "operation %d is pending", op)
	case len(n.steps)+len(n.list) >= maxSteps:
		return nil, errorf(verb, ci.InsufficientResources,
			"%d operations of the object are pending, which is the limit",
			maxSteps)
	}
	if n.steps == nil {
		n.steps = map[uint64]context.CancelFunc{}
	}
	ctx, stop := context.WithCancel(context.Background())
	n.steps[op] = stop
	return ctx, nil
}

// forget removes a step that did not start, or that has ended.
func (n *notices) forget(op uint64) {
	n.mu.Lock()
	stop := n.steps[op]
	delete(n.steps, op)
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// cancel ends the context of a step.
func (n *notices) cancel(op uint64) {
	n.mu.Lock()
	stop := n.steps[op]
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// start begins a step and calls f, which starts it.
func (n *notices) start(verb string, op uint64, f func(context.Context) error) (any, error) {
	ctx, err := n.begin(verb, op)
	if err == nil {
		if err = f(ctx); err != nil {
			n.forget(op)
		}
	}
	if err != nil {
		return nil, err
	}
	return &schema.None{}, nil
}

// end adds the notice of a step that has ended.
func (n *notices) end(x *schema.Notice, err error) {
	n.forget(x.Op)
	x.Kind, x.Error = schema.NoticeOutcome, convert.ToError(err)
	n.push(x)
}

// push adds a notice. It reports false if the object has ended.
func (n *notices) push(x *schema.Notice) bool {
	n.mu.Lock()
	ended := n.ended
	if !ended {
		n.add(x)
	}
	n.mu.Unlock()
	if !ended {
		n.item.Signal()
	}
	return !ended
}

// add adds a notice. An event that can be repeated replaces one of the same type that the client has not taken, so that
// no peer can make the list grow, also by events of different types in turn. mu is held.
func (n *notices) add(x *schema.Notice) {
	if isRepeatable(x) {
		n.list = slices.DeleteFunc(n.list, func(o *schema.Notice) bool {
			return isRepeatable(o) && o.Event == x.Event
		})
	}
	n.list = append(n.list, x)
}

// close ends the object: it has no more notices, and its steps are canceled. It returns the notices that the client has
// not taken, and false if the object has ended before.
func (n *notices) close() (list []*schema.Notice, ok bool) {
	n.mu.Lock()
	ended, steps, list := n.ended, n.steps, n.list
	n.ended, n.list, n.steps = true, nil, nil
	n.mu.Unlock()
	for _, stop := range steps {
		stop()
	}
	return list, !ended
}

// take returns the oldest notice.
func (n *notices) take() *schema.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) == 0 {
		n.item.Rearm()
		return &schema.Notice{}
	}
	x := n.list[0]
	n.list = n.list[1:]
	if len(n.list) == 0 {
		n.list = nil
		n.item.Rearm()
	}
	x.Waiting = waiting(len(n.list))
	return x
}

// waiting returns a number of notices for a reply.
func waiting(n int) uint32 { return uint32(min(n, 1000)) }

// noticed is an object with notices.
type noticed interface {
	kproxy.Servant
	queue() *notices
}

func findNoticed(c *kproxy.Session, verb string, h schema.Handle) (*notices, error) {
	x, err := find[noticed](c, verb, h.Kind(), h)
	if err != nil {
		return nil, err
	}
	return x.queue(), nil
}

func takeNotice(c *kproxy.Session, verb string, r *schema.TakeNotice) (any, error) {
	n, err := findNoticed(c, verb, r.Object)
	if err != nil {
		return nil, err
	}
	return n.take(), nil
}

func cancel(c *kproxy.Session, verb string, r *schema.Cancel) (any, error) {
	if r.Object.Kind() == schema.KindAgent {
		a, err := find[*agent](c, verb, schema.KindAgent, r.Object)
		if err != nil {
			return nil, err
		}
		a.cancel(r.Op)
		return &schema.None{}, nil
	}
	n, err := findNoticed(c, verb, r.Object)
	if err != nil {
		return nil, err
	}
	n.cancel(r.Op)
	return &schema.None{}, nil
}
