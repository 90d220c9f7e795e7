package services

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/internal/kproxy/schema"
)

// listener implements cm.Listener.
type listener struct{ remote }

var _ cm.Listener = (*listener)(nil)

func (l *listener) disconnect() { l.end(lostError("Listener.Accept")) }

// Close implements cm.Listener.
func (l *listener) Close() error { return l.close("Listener.Close") }

// accepted is called with the notice of a request.
func (l *listener) accepted(n *schema.Notice) {
	st := l.removeStep(n.Op)
	if st == nil { // closed meanwhile
		_ = l.s.destroy(n.Object) // a connection that is lost has destroyed it
		return
	}
	st.done(n, nil)
}

// Accept implements cm.Listener.
func (l *listener) Accept(ctx context.Context) (cm.Conn, error) {
	return wait(func(done func(cm.Conn, error)) error { return l.accept(ctx, "Listener.Accept", done) })
}

// StartAccept implements cm.Listener.
func (l *listener) StartAccept(ctx context.Context, done func(cm.Conn, error)) error {
	const verb = "Listener.StartAccept"
	if done == nil {
		return invalid(verb, "done is nil")
	}
	return l.accept(ctx, verb, func(c cm.Conn, err error) { go done(c, err) })
}

func (l *listener) accept(ctx context.Context, verb string, done func(cm.Conn, error)) error {
	c, err := l.s.newConn(verb, nil)
	if err != nil {
		return err
	}
	err = l.start(ctx, func(n *schema.Notice, err error) {
		if err != nil {
			l.s.remove(c.token)
			done(nil, err)
			return
		}
		c.setHandle(n.Object)
		done(c, nil)
	}, schema.CmdCMAccept, func(op uint64, h schema.Handle) any {
		return &schema.CMAccept{Listener: h, Op: op, Token: c.token}
	})
	if err != nil {
		l.s.remove(c.token)
	}
	return asClosed(err)
}

// AcceptLookup implements cm.Listener.
func (l *listener) AcceptLookup(ctx context.Context) (cm.LookupRequest, error) {
	return wait(func(done func(cm.LookupRequest, error)) error { return l.acceptLookup(ctx, done) })
}

// StartAcceptLookup implements cm.Listener.
func (l *listener) StartAcceptLookup(ctx context.Context, done func(cm.LookupRequest, error)) error {
	if done == nil {
		return invalid("Listener.StartAcceptLookup", "done is nil")
	}
	return l.acceptLookup(ctx, func(r cm.LookupRequest, err error) { go done(r, err) })
}

func (l *listener) acceptLookup(ctx context.Context, done func(cm.LookupRequest, error)) error {
	err := l.start(ctx, func(n *schema.Notice, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(l.s.newLookupRequest(n), nil)
	}, schema.CmdCMAccept, func(op uint64, h schema.Handle) any {
		return &schema.CMAccept{Listener: h, Op: op, Lookup: true}
	})
	return asClosed(err)
}
