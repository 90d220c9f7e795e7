package cm

import (
	"context"
	"slices"
)

// A request is a connection or a SIDR request that a listener may hold.
type request interface {
	comparable
	// detach removes the request's reference to the listener. The caller holds Manager.mu.
	detach()
}

// A backlog holds the requests of a listener that no acceptor has taken, or the acceptors that have no request yet.
// Manager.mu guards it.
type backlog[R request] struct {
	requests  []R
	acceptors []*acceptor[R]
}

// An acceptor is a call that waits for a request.
type acceptor[R any] struct {
	verb  string         // for error messages
	stop  func() bool    // cancels the reaction to the end of the context
	ended func(R, error) // called once with Manager.mu held; must not block
}

// add passes a request to the acceptor that has waited longest. Without an acceptor it keeps the request. The caller
// holds m.mu.
func (b *backlog[R]) add(r R) {
	if len(b.acceptors) == 0 {
		b.requests = append(b.requests, r)
		return
	}
	a := b.acceptors[0]
	b.acceptors = slices.Delete(b.acceptors, 0, 1)
	a.stop()
	r.detach()
	a.ended(r, nil)
}

// remove removes a request if it is in the backlog. The caller holds m.mu.
func (b *backlog[R]) remove(r R) {
	if i := slices.Index(b.requests, r); i >= 0 {
		b.requests = slices.Delete(b.requests, i, i+1)
	}
}

// take removes the oldest request and returns it. The caller holds m.mu.
func (b *backlog[R]) take() (r R, ok bool) {
	if len(b.requests) == 0 {
		return r, false
	}
	r = b.requests[0]
	b.requests = slices.Delete(b.requests, 0, 1)
	r.detach()
	return r, true
}

// close ends the acceptors with an error and returns the requests. The caller holds m.mu.
func (b *backlog[R]) close() (requests []R) {
	for _, a := range b.acceptors {
		var none R
		a.stop()
		a.ended(none, listenerClosed(a.verb))
	}
	requests = b.requests
	b.requests, b.acceptors = nil, nil
	return requests
}

func listenerClosed(verb string) error { return closed(verb, "the listener is closed") }

// startAccepting passes the oldest request to ended, or the next request that arrives at l. If ctx ends first, ended
// gets the context's error. If startAccepting returns nil, ended is called once, with m.mu held.
func startAccepting[R request](ctx context.Context, l *listener, verb string, b *backlog[R],
	ended func(R, error)) error {
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
	a := &acceptor[R]{verb: verb, ended: ended}
	b.acceptors = append(b.acceptors, a)
	a.stop = afterDone(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if i := slices.Index(b.acceptors, a); i >= 0 {
			b.acceptors = slices.Delete(b.acceptors, i, i+1)
			var none R
			ended(none, ctx.Err())
		}
	})
	return nil
}

// acceptAndWait calls startAccepting and waits for the result.
func acceptAndWait[R request](ctx context.Context, l *listener, verb string, b *backlog[R]) (r R, err error) {
	ended := make(chan struct{})
	errStart := startAccepting(ctx, l, verb, b, func(accepted R, reason error) {
		r, err = accepted, reason
		close(ended)
	})
	if errStart != nil {
		return r, errStart
	}
	<-ended
	return r, err
}
