package rvt

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
)

// MW is a memory window. A bind is validated and takes effect when it is executed. The key of a type 1 window is drawn
// when the bind is posted, so that several binds may be queued.
type MW struct {
	ci.UnimplementedMW
	refs driver.Refs
	pd   *PD
	typ  ci.MWType
	slot *slot
	key  atomic.Uint32 // current: what the next bind of type 1 must name

	mu sync.Mutex // before that of refs; Destroy holds it, too
	// With mu.
	applied ci.Key // of the last bind executed
	over    *MR    // bound to; nil: unbound
}

// CreateMW creates a window that is not bound.
func (d *PD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	const verb = "PD.CreateMW"
	dev := d.dev
	caps, typ := dev.attr.Caps, c.Type
	switch {
	case !d.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle)
	case caps&(ci.CapMW1|ci.CapMW2) == 0,
		typ == ci.MWType1 && !caps.Has(ci.CapMW1),
		typ == ci.MWType2 && !caps.Has(ci.CapMW2):
		return d.UnimplementedPD.CreateMW(c)
	case typ != ci.MWType1 && typ != ci.MWType2:
		return nil, failf(verb, ci.InvalidParameter, "window type")
	}
	m, err := d.newMW(verb, typ, dev.keys.reserve)
	if err != nil {
		return nil, err
	}
	nothingForUser(c.User)
	return m, nil
}

// newMW creates a window with a key that reserve takes.
func (d *PD) newMW(verb string, typ ci.MWType, reserve func(keyOwner) (*slot, ci.Key, bool)) (ci.MW, error) {
	dev := d.dev
	if err := d.child(verb, kindMW, dev.attr.MaxMWs); err != nil {
		return nil, err
	}
	m := &MW{pd: d, typ: typ}
	if _, _, ok := reserve(m); !ok {
		d.unchild(kindMW)
		return nil, failf(verb, ci.InsufficientResources, "no key is free")
	}
	return m, nil
}

// Key returns the current remote key: for type 1, that of the last bind posted.
func (m *MW) Key() ci.Key { return ci.Key(m.key.Load()) }

// Query returns the attributes of the window.
func (m *MW) Query() (ci.MWAttr, error) {
	if !m.refs.Alive() {
		return ci.MWAttr{}, fail("MW.Query", ci.InvalidMWHandle)
	}
	return ci.MWAttr{PD: m.pd, Type: m.typ, Key: m.Key()}, nil
}

// Destroy unbinds and frees the window. It waits for accesses in progress.
func (m *MW) Destroy() error {
	m.pd.process.settle()
	m.mu.Lock()
	err := m.refs.BeginDestroy("MW.Destroy", ci.InvalidMWHandle)
	if err == nil {
		m.rebind(nil, nil)
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	m.pd.dev.keys.release(m.slot)
	m.slot.wait()
	m.pd.unchild(kindMW)
	return nil
}

// rebind replaces what the window grants by g, a part of mr, or by nothing. The caller holds mu, and a reference on mr
// for the window.
func (m *MW) rebind(g *grant, mr *MR) {
	m.slot.swap(g)
	if m.over != nil {
		m.over.unbind()
	}
	m.over = mr
}

// bind takes a reference for a window and returns what the region grants, or nil if it grants nothing.
func (m *MR) bind() *grant {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.slot.now.Load()
	if g == nil || !m.refs.Get() {
		return nil
	}
	m.bound++
	return g
}

func (m *MR) unbind() {
	m.mu.Lock()
	m.refs.Put()
	m.bound--
	m.mu.Unlock()
}

// nextKey draws the key that the window will have once the bind that is about to be posted is executed, and makes it
// current. It reports false if the window is not of type 1, is destroyed, or has another current key (ci.InvalidRKey).
// It does not allocate.
func (m *MW) nextKey(current ci.Key) (ci.Key, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.refs.Alive() || m.typ != ci.MWType1 || ci.Key(m.key.Load()) != current {
		return 0, false
	}
	k := m.slot.fresh()
	if k == m.applied {
		k = m.slot.fresh()
	}
	m.key.Store(uint32(k))
	return k, true
}

// dropKey takes back a key of nextKey whose bind will not be executed. The key in effect becomes current again, unless
// later binds have been posted.
func (m *MW) dropKey(key ci.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takeBack(key)
}

func (m *MW) takeBack(key ci.Key) {
	if ci.Key(m.key.Load()) == key {
		m.key.Store(uint32(m.applied))
	}
}

// checkBind validates a bind when it is posted, as far as that is possible then. It returns Success or the status for
// QP.BindMW. mr is nil only for an unbind.
func (m *MW) checkBind(e *endpoint, mr *MR, b *ci.MWBind) ci.Status {
	switch {
	case !m.refs.Alive():
		return ci.InvalidMWHandle
	case !wrrules.IsWindowAccess(b.Access):
		return ci.InvalidParameter
	case m.pd != e.pd:
		return ci.InvalidPermission
	case b.Length == 0:
		return ci.Success
	}
	mr.mu.Lock()
	defer mr.mu.Unlock()
	switch {
	case !mr.refs.Alive():
		return ci.InvalidMRHandle
	case mr.pd != e.pd, mr.maxPages == 0 && !wrrules.CanBind(mr.access, b.Access):
		return ci.InvalidPermission
	}
	return ci.Success
}

// bindMW executes a bind (IBTA volume 1, 10.6.7.2 and 11.4.1.1): for type 1 after nextKey, for type 2 with the variant
// of the consumer. The window gets the low 8 bits of Bind.Key; the others are its own. Length 0 unbinds a window of
// type 1. Status: WCBindErr, with the window unchanged.
func (d *device) bindMW(e *endpoint, w *WorkExt) ci.WCStatus {
	if w == nil {
		return ci.WCBindErr
	}
	m, mr, b := w.MW, w.MR, &w.Bind
	if w.ByKey {
		m, mr = d.keys.window(w.windowKey()), d.keys.region(w.MRKey)
	}
	if m == nil {
		return ci.WCBindErr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.slot.variant(b.Key)
	if !m.refs.Alive() || w.isStale(m, key) || !m.bind(e, mr, b, key) {
		if m.typ == ci.MWType1 {
			m.takeBack(key)
		}
		return ci.WCBindErr
	}
	m.applied = key
	if m.typ == ci.MWType2 || w.ByKey {
		m.key.Store(uint32(key))
	}
	return ci.WCSuccess
}

// windowKey returns the key by which a bind with ByKey names the window.
func (w *WorkExt) windowKey() ci.Key {
	if w.NewKeyOnly {
		return w.Bind.Key
	}
	return w.MWKey
}

// isStale reports whether a bind with ByKey does not name the current key of a window of type 1, or does not change it.
// The window would get key. The caller holds the lock of the window.
func (w *WorkExt) isStale(m *MW, key ci.Key) bool {
	if !w.ByKey || m.typ != ci.MWType1 {
		return false
	}
	return key == m.applied || !w.NewKeyOnly && w.MWKey != m.applied
}

// window returns the window that a key belongs to, or nil.
func (k *keyTable) window(key ci.Key) *MW {
	if s := k.slots.get(uint32(key) >> 8); s != nil {
		m, _ := s.owner.(*MW)
		return m
	}
	return nil
}

// region returns the region whose present key is key, or nil.
func (k *keyTable) region(key ci.Key) *MR {
	g := k.find(key)
	if g == nil || g.under != nil {
		return nil
	}
	if s := k.slots.get(uint32(key) >> 8); s != nil {
		m, _ := s.owner.(*MR)
		return m
	}
	return nil
}

func (m *MW) bind(e *endpoint, mr *MR, b *ci.MWBind, key ci.Key) bool {
	isTwo, isZeroBased := m.typ == ci.MWType2, b.Access&ci.ZeroBased != 0
	switch {
	case m.pd != e.pd, isZeroBased && !(isTwo && m.pd.dev.attr.Caps.Has(ci.CapZeroBased)):
		return false
	case isTwo && (m.over != nil || b.Length == 0): // only an invalidation ends a bind (o10-37.2.30, o10-37.2.40)
		return false
	case b.Length == 0:
		m.rebind(nil, nil)
		return true
	case mr == nil || mr.dev != m.pd.dev:
		return false
	}
	under := mr.bind()
	if under == nil {
		return false
	}
	off, ok := under.span(b.Addr, b.Length)
	if !ok || under.pd != e.pd || !wrrules.CanBind(under.access, b.Access) {
		mr.unbind()
		return false
	}
	g := &grant{key: key, access: b.Access, pd: m.pd, base: b.Addr, length: b.Length,
		bytes: under.bytes, off: off, under: under}
	if isZeroBased {
		g.base = 0
	}
	if isTwo {
		g.qp = e
	}
	m.rebind(g, mr)
	return true
}

// invalidate implements keyOwner: it unbinds a type 2 window that was bound through e.
func (m *MW) invalidate(e *endpoint, key ci.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.slot.now.Load()
	if !m.refs.Alive() || m.typ != ci.MWType2 || g == nil || g.key != key || g.qp != e || m.pd != e.pd {
		return false
	}
	m.rebind(nil, nil)
	return true
}

// setSlot implements keyOwner.
func (m *MW) setSlot(s *slot, first ci.Key) {
	m.slot, m.applied = s, first
	m.key.Store(uint32(first))
}
