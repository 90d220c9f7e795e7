package ual

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// MW is a memory window of the daemon.
type MW struct {
	ci.UnimplementedMW
	pd     *PD
	handle schema.Handle
	state  any           // the library's
	key    atomic.Uint32 // the last one that the daemon reported
}

var _ ci.MW = (*MW)(nil)

// CreateMW creates a memory window.
func (p *PD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	w := &MW{pd: p}
	a, v := &ci.UserCreateMW{PD: p.state, Create: c}, verbKind{verb: "PD.CreateMW", data: true}
	_, err := aroundFallible(p.ca, p.state, p.ca.hooks().CreateMW, a, v, func(x private) error {
		var r schema.WindowReply
		req := &schema.CreateMW{PD: p.handle, Type: uint32(a.Create.Type)}
		err := p.ca.c.doUser(schema.CmdCreateMW, req, &r, &req.User, &r.User, x)
		w.handle, a.Key = r.Handle, r.Key
		return err
	}, func() { _ = p.ca.c.destroy(w.handle) }) // the application receives the error of Post
	if err != nil {
		return nil, err
	}
	w.state = a.MW
	w.key.Store(uint32(a.Key))
	return w, nil
}

// Destroy destroys the window.
func (w *MW) Destroy() error {
	c, a, v := w.pd.ca, &ci.UserDestroyMW{MW: w.state}, verbKind{verb: "MW.Destroy"}
	return around(c, w.state, c.hooks().DestroyMW, a, v, func(private) error { return c.c.destroy(w.handle) })
}

// Key returns the current remote key. Each call is a message to the daemon, because the key of a window of type 2
// changes when its bind is executed.
func (w *MW) Key() ci.Key {
	a, err := w.Query()
	if err != nil {
		return ci.Key(w.key.Load())
	}
	return a.Key
}

// Query returns the attributes.
func (w *MW) Query() (ci.MWAttr, error) {
	c, a, v := w.pd.ca, &ci.UserQueryMW{MW: w.state}, verbKind{verb: "MW.Query"}
	err := around(c, w.state, c.hooks().QueryMW, a, v, func(private) error {
		var r schema.WindowReply
		if err := c.c.do(schema.CmdQueryMW, &schema.MW{MW: w.handle}, nil, &r); err != nil {
			return err
		}
		w.key.Store(uint32(r.Key))
		a.Attr = ci.MWAttr{PD: w.pd, Type: ci.MWType(r.Type), Key: r.Key}
		return nil
	})
	if err != nil {
		return ci.MWAttr{}, err
	}
	return a.Attr, nil
}

// BindMW posts the bind of a window of type 1.
func (q *QP) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	if q.user.BindMW != nil {
		if err := q.ca.bypassError(schema.CmdBindMW); err != nil {
			return 0, err
		}
		return q.user.BindMW(id, flags, b)
	}
	note(&q.sent)
	q.send.Lock()
	defer q.send.Unlock()
	x := q.ca.c.begin()
	defer x.end()
	x.small.bind = schema.BindMW{QP: q.handle, ID: id, Flags: flags, Bind: schema.Bind{MW: handleAs[*MW](q.ca, b.MW),
		MR: handleAs[*MR](q.ca, b.MR), Addr: b.Addr, Length: b.Length, Key: b.Key, Access: b.Access}}
	if err := x.do(schema.CmdBindMW, &x.small.bind, nil, &x.small.window); err != nil {
		return 0, err
	}
	return x.small.window.Key, nil
}
