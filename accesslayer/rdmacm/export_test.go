package rdmacm

import (
	"context"

	"ciddk/accesslayer/cm"
)

// ResolveAddr returns the result of a Resolver that calls done before it returns.
func ResolveAddr(ctx context.Context, r Resolver, q Query) (s Source, err error) {
	r.ResolveAddr(ctx, q, func(got Source, gotErr error) { s, err = got, gotErr })
	return s, err
}

// ResolveRoute returns the result of a Resolver that calls done before it returns.
func ResolveRoute(ctx context.Context, r Resolver, q Query, from Source) (p cm.Path, err error) {
	r.ResolveRoute(ctx, q, from, func(got cm.Path, gotErr error) { p, err = got, gotErr })
	return p, err
}

// HoldPolling keeps the calls of a Conn from polling its CQ until the returned function is called.
func HoldPolling(c *Conn) (release func()) {
	c.e.baton <- struct{}{}
	return func() { <-c.e.baton }
}

// HoldSends takes all send buffers of a Conn, until the returned function is called.
func HoldSends(c *Conn) (release func()) {
	e := &c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	var held []int
	for len(e.free) > 0 {
		held = append(held, e.take(true))
	}
	return func() {
		for _, i := range held {
			e.mu.Lock()
			e.inFlight--
			e.mu.Unlock()
			e.release(i)
		}
	}
}
