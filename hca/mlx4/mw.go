package mlx4

import (
	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
)

// mw is a memory window. The adapter takes any of the 256 keys of a window in a bind, and reports the key in effect
// nowhere. Therefore the driver keeps the keys of the binds that have been posted, until they complete.
type mw struct {
	ci.UnimplementedMW
	refs  driver.Refs
	pd    *pd
	hca   *HCA
	typ   ci.MWType
	index uint32 // of the MPT, with its upper bits
	keys  queue.Window
}

// CreateMW creates a window that is not bound. Status: Unsupported and InvalidParameter (type), InvalidPDHandle,
// InsufficientResources.
func (p *pd) CreateMW(c ci.MWCreate) (_ ci.MW, err error) {
	const verb = "PD.CreateMW"
	h := p.hca
	hasOne, hasTwo := h.claims.Has(ci.CapMW1), h.claims.Has(ci.CapMW2)
	switch {
	case !p.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle, "")
	case !hasOne && !hasTwo, c.Type == ci.MWType1 && !hasOne, c.Type == ci.MWType2 && !hasTwo:
		return p.UnimplementedPD.CreateMW(c)
	case c.Type != ci.MWType1 && c.Type != ci.MWType2:
		return nil, fail(verb, ci.InvalidParameter, "the type of the window is out of range")
	}
	var u undo
	defer u.run(&err)
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	u.add(p.refs.Put)
	if err := h.mws.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.mws.Give)
	index, e := h.mpts.take()
	if e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(func() { h.mpts.release(index) })
	w := &mw{pd: p, hca: h, typ: c.Type}
	if w.index, e = h.nextKeyIndex(index); e != nil {
		return nil, firmwareError(verb, e)
	}
	var b [64]byte
	w.encode(b[:])
	if e := h.cmd(prm.CmdSW2HWMPT, fw.Args{In: b[:], Modifier: index}); e != nil {
		return nil, firmwareError(verb, e)
	}
	w.keys.Init(c.Type, ci.Key(prm.KeyOf(w.index)))
	nothing(c.User)
	return w, nil
}

// encode writes the MPT entry (linux mr.c, mlx4_mw_enable).
func (w *mw) encode(b []byte) {
	prm.MPTIndex.Put(b, uint64(w.index))
	prm.MPTPD.Put(b, uint64(w.pd.num))
	if w.typ == ci.MWType2 {
		prm.MPTOwner.Put(b, prm.MPTOwnerFree)
		prm.MPTBoundToQP.Put(b, 1)
		prm.MPTInvalidate.Put(b, 3)
	}
}

// Key returns the current key: that of the last bind that was posted (type 1) or that has completed (type 2).
func (w *mw) Key() ci.Key { return w.keys.Key() }

// Query returns the attributes. Status: InvalidMWHandle.
func (w *mw) Query() (ci.MWAttr, error) {
	if !w.refs.Alive() {
		return ci.MWAttr{}, fail("MW.Query", ci.InvalidMWHandle, "")
	}
	return ci.MWAttr{PD: w.pd, Type: w.typ, Key: w.Key()}, nil
}

// Destroy unbinds and releases the window. Status: InvalidMWHandle.
func (w *mw) Destroy() error {
	const verb = "MW.Destroy"
	if err := w.refs.BeginDestroy(verb, ci.InvalidMWHandle); err != nil {
		return err
	}
	index := w.hca.mptModifier(w.index)
	if err := w.hca.release(prm.CmdHW2SWMPT, fw.Args{Modifier: index, OpModifier: 1}); err != nil {
		w.refs.Revive()
		return firmwareError(verb, err)
	}
	w.hca.mpts.release(index)
	w.hca.mws.Give()
	w.pd.refs.Put()
	return nil
}

// bindPost is the request that BindMW posts. It belongs to the QP, so that a bind does not allocate.
type bindPost struct {
	wr  ci.SendWR
	ext ci.SendExt
}

// hasBind reports whether the objects of an OpBindMW are valid: a window of type 2, and the region unless the length is
// 0. The adapter validates the rest.
func (q *qp) hasBind(wr *ci.SendWR) bool {
	if wr.Ext == nil {
		return false
	}
	b := &wr.Ext.Bind
	w, ok := ci.As[*mw](b.MW)
	if !ok || w.hca != q.hca || !w.refs.Alive() || w.typ != ci.MWType2 {
		return false
	}
	if !wrrules.IsWindowAccess(b.Access) {
		return false
	}
	var region *mr
	if b.Length > 0 {
		if region, ok = ci.As[*mr](b.MR); !ok || region.hca != q.hca || !region.refs.Alive() {
			return false
		}
	}
	q.setBind(w, region, w.keys.Variant(b.Key))
	return true
}

// setBind sets what the encoder needs for a bind. region is nil for the end of one. sqMu is held.
func (q *qp) setBind(w *mw, region *mr, key ci.Key) {
	q.extra.Window, q.extra.Type2 = key, w.typ == ci.MWType2
	if region != nil {
		q.extra.Region = region.now.Load().region.LKey
	}
	q.binding = queue.Bind{Window: &w.keys, Key: key}
}

// discardBinds records that the outstanding binds of a QP that enters Reset are not executed any more. Posts are
// stopped.
func (q *qp) discardBinds() {
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	q.binds.Discard()
}

var bindErrors = wrrules.NewErrors("QP.BindMW", ci.InvalidQPHandle)

// BindMW posts the bind of a window of type 1, and returns the key that the window will have. Status: Unsupported,
// InvalidServiceType, InvalidMWHandle, InvalidMRHandle, InvalidParameter (rights), InvalidPermission, InvalidRKey,
// InvalidQPState, InsufficientResources, InvalidQPHandle. Context: data.
func (q *qp) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	const verb = "QP.BindMW"
	switch {
	case !q.hca.claims.Has(ci.CapMW1):
		return q.UnimplementedQP.BindMW(id, flags, b)
	case !q.refs.Alive():
		return 0, bindErrors.Destroyed
	case q.create.Type != ci.RC && q.create.Type != ci.UC:
		return 0, fail(verb, ci.InvalidServiceType, "")
	}
	w, ok := ci.As[*mw](b.MW)
	if !ok || w.hca != q.hca || !w.refs.Alive() {
		return 0, fail(verb, ci.InvalidMWHandle, "MW is not a window of this adapter")
	}
	var region *mr
	if b.Length > 0 {
		if region, ok = ci.As[*mr](b.MR); !ok || region.hca != q.hca || !region.refs.Alive() {
			return 0, fail(verb, ci.InvalidMRHandle, "MR is not a region of this adapter")
		}
	}
	switch {
	case !wrrules.IsWindowAccess(b.Access):
		return 0, fail(verb, ci.InvalidParameter, "Access has rights that a window cannot have")
	case w.pd != q.pd:
		return 0, fail(verb, ci.InvalidPermission, "the window is of another PD")
	case region != nil && !region.canBind(q.pd, b.Access):
		return 0, fail(verb, ci.InvalidPermission, "the region is of another PD, or lacks BindWindow or LocalWrite")
	}
	return q.postBind(id, flags, b, w, region)
}

// canBind reports whether a window of a PD can have the rights for the region. Those of a fast registration are the
// adapter's to check.
func (m *mr) canBind(p *pd, window ci.Access) bool {
	g := m.now.Load()
	return g.pd == p && (m.maxPages > 0 || wrrules.CanBind(g.access, window))
}

func (q *qp) postBind(id uint64, flags ci.SendFlags, b ci.MWBind, w *mw, region *mr) (ci.Key, error) {
	q.sqMu.Lock()
	defer q.sqMu.Unlock()
	switch {
	case q.sq == nil || !q.refs.Alive():
		return 0, q.postError(bindErrors.Destroyed, errUserBind)
	case q.hasFailed:
		return 0, errBindFailed
	case ci.QPState(q.state.Load()) < ci.QPRTS:
		return 0, bindErrors.State
	case q.sq.Room() < 1:
		return 0, bindErrors.Full
	}
	key, ok := w.keys.NextKey(b.Key)
	if !ok {
		return 0, fail("QP.BindMW", ci.InvalidRKey, "Key is not the current key of the window")
	}
	if q.bind == nil {
		q.bind = new(bindPost)
	}
	q.bind.ext.Bind = ci.MWBind{Addr: b.Addr, Length: b.Length, Access: b.Access}
	q.bind.wr = ci.SendWR{ID: id, Op: ci.OpBindMW, Flags: flags, Ext: &q.bind.ext}
	q.extra = queue.Extra{Signal: q.create.Flags&ci.QPSignalAll != 0}
	q.setBind(w, region, key)
	q.ring(1, q.encodeNext(&q.bind.wr, false), &q.bind.wr)
	return key, nil
}
