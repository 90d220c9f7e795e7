package rchca

import (
	"errors"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/templates/rchca/userabi" // user.go
)

// DeviceMW is the part of Device for memory windows. A send queue executes binds and invalidations in its order:
// ci.OpBindMW is written by WriteBind, ci.OpLocalInv by WriteSend. One that fails completes with ci.WCBindErr and
// changes nothing.
//
// A window keeps the upper 24 bits of its key. A method that names a window by a key ignores the other bits.
type DeviceMW interface {
	// CreateMW creates a window that is not bound. Its key differs from those of regions in the upper 24 bits.
	CreateMW(c MWConfig) (ci.Key, error)
	DestroyMW(k ci.Key) error
	// WindowKey returns the key in effect. isFinal is false if a bind was written that has not completed: it can be
	// flushed, too.
	WindowKey(k ci.Key) (key ci.Key, isFinal bool)
	// WriteBind is WriteSend for a bind. The hardware checks the bind when it executes it: PDs, bounds and rights, and
	// for type 2 that the window is not bound. A window of type 2 grants access only to the peer of this QP. Unmap of a
	// region to which a window is bound returns ErrBound.
	WriteBind(n ci.QPN, slot int, wr *ci.SendWR, b *Bind)
}

// An MWConfig describes a window to the hardware.
type MWConfig struct {
	PD   uint32
	Type ci.MWType
}

// A Bind is a range of a region that a window is to grant. Length 0 unbinds a window of type 1.
type Bind struct {
	Window, Region ci.Key
	Key            ci.Key // of the window after the bind
	Addr, Length   uint64
	Access         ci.Access
}

// ErrBound is the error of Unmap for a region to which a window is bound.
var ErrBound = errors.New("a window is bound to the region")

// An mw is a memory window.
type mw struct {
	refs driver.Refs
	pd   *pd
	typ  ci.MWType

	set sync.Mutex
	key ci.Key // that the last bind of type 1 sets
}

var _ ci.MW = (*mw)(nil)

// CreateMW creates a window. Status: InvalidParameter (type, private data), InvalidPDHandle, InsufficientResources,
// Timeout.
func (p *pd) CreateMW(c ci.MWCreate) (ci.MW, error) {
	const verb = "PD.CreateMW"
	h := p.hca
	if c.Type != ci.MWType1 && c.Type != ci.MWType2 {
		return nil, fail(verb, ci.InvalidParameter, "the type of the window is out of range")
	}
	data, err := openPrivate(verb, c.User) // user.go
	if err != nil {                        // user.go
		return nil, err
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	if err := h.mws.Take(verb); err != nil {
		p.refs.Put()
		return nil, err
	}
	key, err := h.dev.CreateMW(MWConfig{PD: p.num, Type: c.Type})
	if err != nil {
		h.mws.Give()
		p.refs.Put()
		return nil, commandError(verb, err)
	}
	data.answer(userabi.Answer{Number: uint32(key)}) // user.go
	return &mw{pd: p, typ: c.Type, key: key}, nil
}

// Key returns the key that the window has, or will have after the binds of type 1 that were posted.
func (w *mw) Key() ci.Key {
	w.set.Lock()
	defer w.set.Unlock()
	return w.current()
}

// current is Key with w.set held.
func (w *mw) current() ci.Key {
	key, isFinal := w.pd.hca.dev.WindowKey(w.key)
	if isFinal || w.typ == ci.MWType2 {
		return key
	}
	return w.key
}

// Query returns the attributes of the window. Status: InvalidMWHandle.
func (w *mw) Query() (ci.MWAttr, error) {
	if !w.refs.Alive() {
		return ci.MWAttr{}, fail("MW.Query", ci.InvalidMWHandle, "")
	}
	return ci.MWAttr{PD: w.pd, Type: w.typ, Key: w.Key()}, nil
}

// Destroy unbinds and destroys the window. Status: InvalidMWHandle, Timeout.
func (w *mw) Destroy() error {
	const verb = "MW.Destroy"
	if err := w.refs.BeginDestroy(verb, ci.InvalidMWHandle); err != nil {
		return err
	}
	if err := w.pd.hca.dev.DestroyMW(w.key); err != nil {
		return commandError(verb, err)
	}
	w.pd.hca.mws.Give()
	w.pd.refs.Put()
	return nil
}

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	bindErrors  = wrrules.NewErrors("QP.BindMW", ci.InvalidQPHandle)
	errBindType = fail("QP.BindMW", ci.InvalidServiceType, "only connected QPs have windows")
	errBindMW   = fail("QP.BindMW", ci.InvalidMWHandle, "")
	errBindMR   = fail("QP.BindMW", ci.InvalidMRHandle, "")
	errBindPD   = fail("QP.BindMW", ci.InvalidPermission, "the PD of the window, or the PD or the rights of the region")
	errBindKey  = fail("QP.BindMW", ci.InvalidRKey, "not the current key, or a window of type 2")
)

// BindMW posts the bind of a window of type 1, and returns the key that it will have. Status: InvalidServiceType,
// InvalidMWHandle, InvalidMRHandle, InvalidParameter (rights), InvalidPermission, InvalidRKey, InvalidQPState,
// InsufficientResources, InvalidQPHandle. Context: data.
func (q *qp) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	w, ok := ci.As[*mw](b.MW)
	region, hasRegion := ci.As[*mr](b.MR)
	switch {
	case q.create.Type != ci.RC:
		return 0, errBindType
	case !ok || w.pd.hca != q.hca || !w.refs.Alive():
		return 0, errBindMW
	case b.Length > 0 && (!hasRegion || region.pd.hca != q.hca || !region.refs.Alive()):
		return 0, errBindMR
	case !wrrules.IsWindowAccess(b.Access):
		return 0, bindErrors.Of(wrrules.Parameter)
	case w.pd != q.pd || b.Length > 0 && (region.pd != q.pd || !wrrules.CanBind(region.c.Access, b.Access)):
		return 0, errBindPD
	}
	q.sq.post.Lock()
	defer q.sq.post.Unlock()
	w.set.Lock()
	defer w.set.Unlock()
	switch {
	case !q.refs.Alive():
		return 0, bindErrors.Destroyed
	case q.sq.isBefore(ci.QPRTS):
		return 0, bindErrors.State
	case w.typ != ci.MWType1 || b.Key != w.current():
		return 0, errBindKey
	case q.sq.free() == 0:
		return 0, bindErrors.Full
	}
	w.key = b.Key&^0xff | (b.Key+1)&0xff
	q.bind = Bind{Window: w.key, Key: w.key, Addr: b.Addr, Length: b.Length, Access: b.Access}
	if b.Length > 0 {
		q.bind.Region = region.r.LKey
	}
	q.bindWR = ci.SendWR{ID: id, Op: ci.OpBindMW, Flags: flags}
	q.write(q.sq.take(id), &q.bindWR)
	q.hca.dev.RingSend(q.num, 1)
	return w.key, nil
}

// canBind sets q.bind for a request that binds a window of type 2. It reports whether the objects of the request are
// valid. The hardware checks the rest. The caller holds sq.post.
func (q *qp) canBind(b *ci.MWBind) bool {
	w, ok := ci.As[*mw](b.MW)
	if !ok || w.pd.hca != q.hca || w.typ != ci.MWType2 || !w.refs.Alive() {
		return false
	}
	q.bind = Bind{Window: w.key, Key: w.key&^0xff | b.Key&0xff, Addr: b.Addr, Length: b.Length, Access: b.Access}
	if b.Length > 0 {
		region, ok := ci.As[*mr](b.MR)
		if !ok || region.pd.hca != q.hca || !region.refs.Alive() {
			return false
		}
		q.bind.Region = region.r.LKey
	}
	return true
}
