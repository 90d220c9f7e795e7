package userlib

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/mlx4/queue"
)

// mw is a memory window. The adapter takes any of the 256 keys of a window in a bind, and reports the key in effect
// nowhere. Therefore the library keeps the keys of the binds that have been posted, until they complete.
type mw struct {
	pd        *pd
	typ       ci.MWType
	destroyed atomic.Bool
	key       atomic.Uint32 // current; it changes with mu

	mu      sync.Mutex
	applied ci.Key // of the last bind that has completed
	drawn   ci.Key // type 1: for the last bind that was posted
}

func postCreateMW(a *ci.UserCreateMW, _ *ci.UserBuffer, err error) error {
	if d, ok := a.PD.(*pd); ok && err == nil {
		w := &mw{pd: d, typ: a.Create.Type, applied: a.Key, drawn: a.Key}
		w.key.Store(uint32(a.Key))
		a.MW = w
	}
	return nil
}

// postQueryMW sets the current key, which the driver does not know.
func postQueryMW(a *ci.UserQueryMW, _ *ci.UserBuffer, err error) {
	if w, ok := a.MW.(*mw); ok && err == nil {
		a.Attr.Key = w.current()
	}
}

func postDestroyMW(a *ci.UserDestroyMW, _ *ci.UserBuffer, err error) {
	if w, ok := a.MW.(*mw); ok && err == nil {
		w.destroyed.Store(true)
	}
}

// current returns the current key: that of the last bind that was posted (type 1) or that has completed (type 2).
func (w *mw) current() ci.Key { return ci.Key(w.key.Load()) }

// owns reports whether a key is one of the 256 of the window.
func (w *mw) owns(k ci.Key) bool { return uint32(k)>>8 == w.key.Load()>>8 }

// nextKey draws the key that a window of type 1 will have once the bind that is about to be posted is executed, and
// makes it current. It reports false for another type, and if current is not the current key.
func (w *mw) nextKey(current ci.Key) (ci.Key, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.typ != ci.MWType1 || w.current() != current {
		return 0, false
	}
	k := nextVariant(w.drawn)
	if k == w.applied {
		k = nextVariant(k)
	}
	w.drawn = k
	w.key.Store(uint32(k))
	return k, true
}

// nextVariant returns the key with the next value in its low byte.
func nextVariant(k ci.Key) ci.Key { return k&^0xff | (k+1)&0xff }

// settle records the end of a bind. If it has failed or was discarded, the key in effect becomes current again, unless
// a later bind has been posted.
func (w *mw) settle(k ci.Key, isBound bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case isBound:
		w.applied = k
		if w.typ == ci.MWType2 {
			w.key.Store(uint32(k))
		}
	case w.current() == k:
		w.key.Store(uint32(w.applied))
	}
}

// A pendingBind is the window of a slot of a send queue that has a bind, with the key of the bind.
type pendingBind struct {
	w   *mw
	key ci.Key
}

// bindPost is the request that bindMW posts. It belongs to the QP, so that a bind allocates nothing.
type bindPost struct {
	wr  ci.SendWR
	ext ci.SendExt
}

// hasBind reports whether the objects of an OpBindMW are valid: a window of type 2 with one of its keys, and the region
// unless the bind ends another one. The adapter validates the rest. sendMu is held.
func (q *qp) hasBind(wr *ci.SendWR) bool {
	if wr.Ext == nil {
		return false
	}
	b := &wr.Ext.Bind
	w, ok := ci.UserHandle[*mw](b.MW)
	if !ok || w.pd.ca != q.pd.ca || w.destroyed.Load() || w.typ != ci.MWType2 || !w.owns(b.Key) ||
		!wrrules.IsWindowAccess(b.Access) {
		return false
	}
	if b.Length == 0 {
		q.setBind(w, 0, b.Key)
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
	q.setBind(w, b.MR.Region().LKey, b.Key)
	return true
}

// setBind sets what the encoder needs for a bind. region is 0 for the end of one. sendMu is held.
func (q *qp) setBind(w *mw, region, key ci.Key) {
	q.extra.Window, q.extra.Type2, q.extra.Region = key, w.typ == ci.MWType2, region
	q.binding = pendingBind{w, key}
}

// keepBind keeps the bind that is written to the next slot. sendMu is held.
func (q *qp) keepBind() {
	list := q.binds.Load()
	if list == nil {
		slots := make([]pendingBind, q.sq.Slots())
		list = &slots
		q.binds.Store(list)
	}
	(*list)[q.sq.Slot()] = q.binding
	q.binding = pendingBind{}
}

// settleBinds records the end of the binds up to the request of a completion. The lock of the send CQ is held, and the
// slots are not free yet.
func (q *qp) settleBinds(index uint16, isOK bool) {
	list := q.binds.Load()
	if list == nil {
		return
	}
	first, n := q.sq.Until(index)
	for i := range n {
		b := &(*list)[int(first+i)&(len(*list)-1)]
		if b.w != nil {
			b.w.settle(b.key, isOK || i < n-1)
			*b = pendingBind{}
		}
	}
}

// discardBinds records that the outstanding binds are not executed any more. The lock of the send CQ is held.
func (q *qp) discardBinds() {
	list := q.binds.Load()
	if list == nil {
		return
	}
	for i := range *list {
		if b := &(*list)[i]; b.w != nil {
			b.w.settle(b.key, false)
			*b = pendingBind{}
		}
	}
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
	case q.destroyed:
		return 0, bindErrors.Destroyed
	case q.pd.ca.head.HasFailed():
		return 0, errBindFailed
	case q.state() < ci.QPRTS:
		return 0, bindErrors.State
	case q.sq.Room() < 1:
		return 0, bindErrors.Full
	}
	key, ok := w.nextKey(b.Key)
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
