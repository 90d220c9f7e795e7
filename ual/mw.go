package ual

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// MW is a memory window of the daemon.
type MW struct {
	ci.UnimplementedMW
	pd     *PD
	handle schema.Handle
	key    atomic.Uint32 // of the last bind of type 1
}

var _ ci.MW = (*MW)(nil)

// CreateMW creates a memory window.
func (p *PD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	var r schema.WindowReply
	if err := p.ca.c.do(schema.CmdCreateMW, &schema.CreateMW{PD: p.handle, Type: uint32(c.Type)}, nil, &r); err != nil {
		return nil, err
	}
	w := &MW{pd: p, handle: r.Handle}
	w.key.Store(uint32(r.Key))
	return w, nil
}

// Destroy destroys the window.
func (w *MW) Destroy() error { return w.pd.ca.c.destroy(w.handle) }

// Key returns the current remote key. It asks the daemon, because the key of a window of type 2 changes when its bind
// is executed.
func (w *MW) Key() ci.Key {
	a, err := w.Query()
	if err != nil {
		return ci.Key(w.key.Load())
	}
	return a.Key
}

// Query returns the attributes.
func (w *MW) Query() (ci.MWAttr, error) {
	var r schema.WindowReply
	if err := w.pd.ca.c.do(schema.CmdQueryMW, &schema.MW{MW: w.handle}, nil, &r); err != nil {
		return ci.MWAttr{}, err
	}
	w.key.Store(uint32(r.Key))
	return ci.MWAttr{PD: w.pd, Type: ci.MWType(r.Type), Key: r.Key}, nil
}

// BindMW posts the bind of a window of type 1.
func (q *QP) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	q.send.Lock()
	defer q.send.Unlock()
	var r schema.WindowReply
	req := &schema.BindMW{QP: q.handle, ID: id, Flags: flags, Bind: schema.Bind{MW: handleAs[*MW](q.ca, b.MW),
		MR: handleAs[*MR](q.ca, b.MR), Addr: b.Addr, Length: b.Length, Key: b.Key, Access: b.Access}}
	if err := q.ca.c.do(schema.CmdBindMW, req, nil, &r); err != nil {
		return 0, err
	}
	return r.Key, nil
}
