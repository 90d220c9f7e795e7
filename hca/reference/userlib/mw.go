package userlib

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/wrrules"
)

// mw is a memory window.
type mw struct {
	pd        *pd
	typ       ci.MWType
	destroyed atomic.Bool

	// The process draws the keys of a window of type 1. The adapter has the key of the last bind that was executed.
	mu   sync.Mutex
	key  atomic.Uint32 // that the next bind must name; written with mu
	was  ci.Key        // before the last bind that was posted
	last posted        // the last bind that was posted
	// settled are the queries in progress that began when the last bind, the element, was complete.
	settled map[*ci.UserQueryMW]posted
}

// posted is a place in a send queue.
type posted struct {
	qp     *qp // nil: none
	resets uint32
	at     uint32
}

// isDone reports whether the request is complete, or was discarded.
func (p *posted) isDone() bool {
	if p.qp == nil {
		return true
	}
	p.qp.sendMu.Lock()
	defer p.qp.sendMu.Unlock()
	return p.qp.life.IsOver() || p.qp.resets != p.resets || p.qp.send.IsRetired(p.at)
}

// mayHaveFailed reports whether a request that was posted is complete and may have had no effect. A failure takes the
// QP to a state of error.
func (p *posted) mayHaveFailed() bool {
	p.qp.sendMu.Lock()
	defer p.qp.sendMu.Unlock()
	if p.qp.life.IsOver() || p.qp.resets != p.resets {
		return true
	}
	return p.qp.send.State() >= ci.QPSQError && p.qp.send.IsRetired(p.at)
}

func postCreateMW(a *ci.UserCreateMW, _ *ci.UserBuffer, err error) error {
	if d, ok := a.PD.(*pd); ok && err == nil {
		w := &mw{pd: d, typ: a.Create.Type, was: a.Key, settled: map[*ci.UserQueryMW]posted{}}
		w.key.Store(uint32(a.Key))
		a.MW = w
	}
	return nil
}

// preQueryMW finds whether a bind is on its way to the adapter.
func preQueryMW(a *ci.UserQueryMW, _ *ci.UserBuffer) error {
	w, ok := a.MW.(*mw)
	if !ok {
		return nil
	}
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if last.isDone() {
		w.mu.Lock()
		w.settled[a] = last
		w.mu.Unlock()
	}
	return nil
}

// postQueryMW replaces the key of a window of type 1 if a bind was on its way to the adapter when the query began, or
// was posted since. Otherwise the adapter has the key, since a bind that failed has not changed it.
func postQueryMW(a *ci.UserQueryMW, _ *ci.UserBuffer, err error) {
	w, ok := a.MW.(*mw)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, isSettled := w.settled[a]
	delete(w.settled, a)
	switch {
	case err != nil:
	case w.typ == ci.MWType2 || isSettled && w.last == last:
		w.was, w.last = a.Attr.Key, posted{}
		w.key.Store(uint32(a.Attr.Key))
	default:
		a.Attr.Key = w.current()
	}
}

func postDestroyMW(a *ci.UserDestroyMW, _ *ci.UserBuffer, err error) {
	if w, ok := a.MW.(*mw); ok && err == nil {
		w.destroyed.Store(true)
	}
}

// current returns a key of the window, with which a request names it.
func (w *mw) current() ci.Key { return ci.Key(w.key.Load()) }

// canBindByPost reports whether the objects of an OpBindMW are valid: the key of a window of type 1 is drawn by bindMW.
func (q *qp) canBindByPost(b *ci.MWBind) bool {
	w, ok := ci.UserHandle[*mw](b.MW)
	if !ok || w.pd.ca != q.pd.ca || w.typ != ci.MWType2 {
		return false
	}
	if b.Length == 0 {
		return true
	}
	r, ok := ci.As[ci.UserRegion](b.MR)
	if !ok {
		return false
	}
	state, _, _ := r.UserRegion()
	d, own := state.(*pd)
	return own && d.ca == q.pd.ca
}

// bindRequest is the request that bindMW posts. It belongs to the QP, so that a bind allocates nothing.
type bindRequest struct {
	wr  [1]ci.SendWR
	ext ci.SendExt
}

var (
	bindErrors     = wrrules.NewErrors("QP.BindMW", ci.InvalidQPHandle)
	errBindService = bindError(ci.InvalidServiceType, "only connected QPs have windows")
	errBindMW      = bindError(ci.InvalidMWHandle, "MW is nil, destroyed, or not of this process")
	errBindMR      = bindError(ci.InvalidMRHandle, "MR is nil, destroyed, or not of this process")
	errBindAccess  = bindError(ci.InvalidParameter, "Access has rights that a window cannot have")
	errBindPD      = bindError(ci.InvalidPermission, "the window or the region is of another PD than the QP, or the "+
		"region lacks BindWindow or LocalWrite")
	errBindKey = bindError(ci.InvalidRKey, "Key is not the current key of the window")
)

func bindError(s ci.Status, detail string) error {
	return &ci.Error{Verb: "QP.BindMW", Status: s, Detail: detail}
}

// bindMW implements ci.UserQP.BindMW. The engine applies the rules again when it executes the bind.
func (q *qp) bindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	if q.rules.Type != ci.RC && q.rules.Type != ci.UC {
		return 0, errBindService
	}
	w, ok := ci.UserHandle[*mw](b.MW)
	switch {
	case !ok || w.pd.ca != q.pd.ca || w.destroyed.Load():
		return 0, errBindMW
	case b.Length > 0 && ci.IsNil(b.MR):
		return 0, errBindMR
	case !wrrules.IsWindowAccess(b.Access):
		return 0, errBindAccess
	case w.pd != q.pd:
		return 0, errBindPD
	}
	if b.Length > 0 {
		if err := q.checkRegion(b.MR, b.Access); err != nil {
			return 0, err
		}
	}
	return q.postBind(id, flags, &b, w)
}

// checkRegion validates the region of a bind.
func (q *qp) checkRegion(mr ci.MR, window ci.Access) error {
	r, ok := ci.As[ci.UserRegion](mr)
	if !ok {
		return errBindMR
	}
	state, access, ok := r.UserRegion()
	d, own := state.(*pd)
	if !ok || own && d.ca != q.pd.ca {
		return errBindMR
	}
	if d != q.pd || !wrrules.CanBind(access, window) {
		return errBindPD
	}
	return nil
}

func (q *qp) postBind(id uint64, flags ci.SendFlags, b *ci.MWBind, w *mw) (ci.Key, error) {
	w.mu.Lock()
	stale, last := b.Key != w.current() && b.Key == w.was, w.last
	w.mu.Unlock()
	// If the last bind failed, the key before it may still be current. The two differ only after a bind.
	failed := stale && last.mayHaveFailed()
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case q.life.IsOver():
		return 0, bindErrors.Destroyed
	case q.send.State() < ci.QPRTS:
		return 0, bindErrors.State
	case w.typ != ci.MWType1, b.Key != w.current() && !(failed && w.last == last):
		return 0, errBindKey
	}
	old := w.current()
	key := nextKey(old)
	if key == b.Key {
		key = nextKey(key)
	}
	x := &q.bind
	x.ext.Bind = *b
	x.ext.Bind.Key = key
	x.wr[0] = ci.SendWR{ID: id, Op: ci.OpBindMW, Flags: flags, Ext: &x.ext}
	at := q.send.Posted()
	w.key.Store(uint32(b.Key)) // by which the request names the window
	n := q.send.Post(x.wr[:])
	x.ext.Bind = ci.MWBind{}
	if n == 0 {
		w.key.Store(uint32(old))
		return 0, bindErrors.Full
	}
	w.key.Store(uint32(key))
	w.was, w.last = b.Key, posted{q, q.resets, at}
	q.pd.ca.notify(q.index)
	return key, nil
}

// nextKey returns a key with another variant, which is its low byte.
func nextKey(k ci.Key) ci.Key { return k&^0xff | (k+1)&0xff }
