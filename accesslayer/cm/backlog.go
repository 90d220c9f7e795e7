package cm

import (
	"context"
	"slices"
)

// A backlog holds the requests of a listener that no acceptor has taken, or the acceptors that have no request yet. Manager.mu guards it.
type backlog[T interface{ taken() }] struct {
	requests  []T
	acceptors []*acceptor[T]
}

// An acceptor is a call that waits for a request.
type acceptor[T any] struct {
	verb  string         // of errors
	stop  func() bool    // ends the wait for the context
	ended func(T, error) // called once with Manager.mu held; it does not block
}

// add passes a request to the acceptor that has waited longest. Without an acceptor it keeps the request. m.mu is held.
func (b *backlog[T]) add(r T) {
	if len(b.acceptors) == 0 {
		b.requests = append(b.requests, r)
		return
	}
	a := b.acceptors[0]
	b.acceptors = slices.Delete(b.acceptors, 0, 1)
	a.stop()
	r.taken()
	a.ended(r, nil)
}

// take removes the oldest request. m.mu is held.
func (b *backlog[T]) take() (r T, ok bool) {
	if len(b.requests) == 0 {
		return r, false
	}
	r = b.requests[0]
	b.requests = slices.Delete(b.requests, 0, 1)
	r.taken()
	return r, true
}

// close ends the acceptors, and returns the requests. m.mu is held.
func (b *backlog[T]) close() (requests []T) {
	for _, a := range b.acceptors {
		var none T
		a.stop()
		a.ended(none, listenerClosed(a.verb))
	}
	requests = b.requests
	b.requests, b.acceptors = nil, nil
	return requests
}

func listenerClosed(verb string) error { return closed(verb, "the listener is closed") }

// accept passes the oldest request to ended, or the next one that comes to l. When ctx ends first, ended gets the context's error. ended is called once,
// with m.mu held, if accept returns nil.
func accept[T interface {
	comparable
	taken()
}](ctx context.Context, l *listener, verb string, b *backlog[T], ended func(T, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := b.take(); ok {
		ended(r, nil)
		return nil
	}
	if l.closed {
		return listenerClosed(verb)
	}
	a := &acceptor[T]{verb: verb, ended: ended}
	b.acceptors = append(b.acceptors, a)
	a.stop = afterDone(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if i := slices.Index(b.acceptors, a); i >= 0 {
			b.acceptors = slices.Delete(b.acceptors, i, i+1)
			var none T
			ended(none, ctx.Err())
		}
	})
	return nil
}

// acceptNow waits for the end of accept.
func acceptNow[T interface {
	comparable
	taken()
}](ctx context.Context, l *listener, verb string, b *backlog[T]) (r T, err error) {
	ended := make(chan struct{})
	start := accept(ctx, l, verb, b, func(request T, reason error) {
		r, err = request, reason
		close(ended)
	})
	if start != nil {
		return r, start
	}
	<-ended
	return r, err
}
