package userlib

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/internal/mlx4/queue"
)

// mw is a memory window.
type mw struct {
	pd        *pd
	typ       ci.MWType
	destroyed atomic.Bool
	keys      queue.Window
}

func postCreateMW(a *ci.UserCreateMW, _ *ci.UserBuffer, err error) error {
	if d, ok := a.PD.(*pd); ok && err == nil {
		w := &mw{pd: d, typ: a.Create.Type}
		w.keys.Init(a.Create.Type, a.Key)
		a.MW = w
	}
	return nil
}

// postQueryMW sets the current key, which the driver does not know.
func postQueryMW(a *ci.UserQueryMW, _ *ci.UserBuffer, err error) {
	if w, ok := a.MW.(*mw); ok && err == nil {
		a.Attr.Key = w.keys.Key()
	}
}

func postDestroyMW(a *ci.UserDestroyMW, _ *ci.UserBuffer, err error) {
	if w, ok := a.MW.(*mw); ok && err == nil {
		w.destroyed.Store(true)
	}
}

// bindPost is the request that bindMW posts. It belongs to the QP, so that a bind allocates nothing.
type bindPost struct {
	wr  ci.SendWR
	ext ci.SendExt
}

// hasBind reports whether the objects of an OpBindMW are valid: a window of type 2, and the region unless the length is
// 0. The adapter validates the rest. sendMu is held.
func (q *qp) hasBind(wr *ci.SendWR) bool {
	if wr.Ext == nil {
		return false
	}
	b := &wr.Ext.Bind
	w, ok := ci.UserHandle[*mw](b.MW)
	if !ok || w.pd.ca != q.pd.ca || w.destroyed.Load() || w.typ != ci.MWType2 ||
		!wrrules.IsWindowAccess(b.Access) {
		return false
	}
	if b.Length == 0 {
		q.setBind(w, 0, w.keys.Variant(b.Key))
		return true
	}
	r, ok := ci.As[ci.UserRegion](b.MR)
	if !ok {
		return false
	}
	state, _, alive := r.UserRegion()
	d, own := state.(*pd)
	if !alive || !own || d.ca != q.pd.ca {
		return false
	}
	q.setBind(w, b.MR.Region().LKey, w.keys.Variant(b.Key))
	return true
}

// setBind sets what the encoder needs for a bind. region is 0 for the end of one. sendMu is held.
func (q *qp) setBind(w *mw, region, key ci.Key) {
	q.extra.Window, q.extra.Type2, q.extra.Region = key, w.typ == ci.MWType2, region
	q.binding = queue.Bind{Window: &w.keys, Key: key}
}

var (
	bindErrors     = wrrules.NewErrors("QP.BindMW", ci.InvalidQPHandle)
	errBindService = bindError(ci.InvalidServiceType, "only connected QPs have windows")
	errBindMW      = bindError(ci.InvalidMWHandle, "MW is nil, destroyed, or not of this process")
	errBindMR      = bindError(ci.InvalidMRHandle, "MR is nil, destroyed, or not of this process")
	errBindAccess  = bindError(ci.InvalidParameter, "Access has rights that a window cannot have")
	errBindPD      = bindError(ci.InvalidPermission, "the window or the region is of another PD than the QP, or the "+
		"region lacks BindWindow or LocalWrite")
	errBindKey    = bindError(ci.InvalidRKey, "Key is not the current key of the window")
	errBindFailed = bindError(ci.InvalidState, "the adapter has failed")
	errBindClaim  = bindError(ci.Unsupported, "the adapter has no windows of type 1")
)

func bindError(s ci.Status, detail string) error {
	return &ci.Error{Verb: "QP.BindMW", Status: s, Detail: detail}
}

// bindMW implements ci.UserQP.BindMW. The adapter validates the bind when it executes it.
func (q *qp) bindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	switch {
	case !q.rules.Caps.Has(ci.CapMW1):
		return 0, errBindClaim
	case q.rules.Type != ci.RC && q.rules.Type != ci.UC:
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
	var region ci.Key
	if b.Length > 0 {
		if err := q.checkRegion(b.MR, b.Access); err != nil {
			return 0, err
		}
		region = b.MR.Region().LKey
	}
	return q.postBind(id, flags, &b, w, region)
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

func (q *qp) postBind(id uint64, flags ci.SendFlags, b *ci.MWBind, w *mw, region ci.Key) (ci.Key, error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	switch {
	case q.life.IsOver():
		return 0, bindErrors.Destroyed
	case q.pd.ca.head.HasFailed():
		return 0, errBindFailed
	case q.state() < ci.QPRTS:
		return 0, bindErrors.State
	case q.sq.Room() < 1:
		return 0, bindErrors.Full
	}
	key, ok := w.keys.NextKey(b.Key)
	if !ok {
		return 0, errBindKey
	}
	q.bind.ext.Bind = ci.MWBind{Addr: b.Addr, Length: b.Length, Access: b.Access}
	q.bind.wr = ci.SendWR{ID: id, Op: ci.OpBindMW, Flags: flags, Ext: &q.bind.ext}
	q.extra = queue.Extra{Signal: q.signalAll}
	q.setBind(w, region, key)
	q.write(&q.bind.wr)
	q.pd.ca.ring(q.doorbell)
	return key, nil
}
