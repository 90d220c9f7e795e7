//go:build linux && (amd64 || arm64)

package verbs

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/hca/verbs/internal/ibv"
)

type mw struct {
	refs driver.Refs
	pd   *pd
	kind ci.MWType

	mu       sync.Mutex // of the fields below
	mw       ibv.MW     // whose key is that of the last bind that was posted
	executed ci.Key     // of the last bind that is known to be executed
	pending  []ci.Key   // of binds that were posted after it
	region   ibv.MR     // of the last bind
}

// CreateMW creates a window. Status: Unsupported, InvalidParameter, InsufficientResources, InvalidPDHandle.
func (p *pd) CreateMW(c ci.MWCreate) (ci.MW, error) {
	const verb = "PD.CreateMW"
	h := p.hca
	cap, isKnown := map[ci.MWType]ci.Caps{ci.MWType1: ci.CapMW1, ci.MWType2: ci.CapMW2}[c.Type]
	switch {
	case !isKnown || c.User != nil:
		return nil, fail(verb, ci.InvalidParameter, "want type 1 or 2, and no private data")
	case !h.claims().Has(cap):
		return nil, fail(verb, ci.Unsupported, "the type of the window is not claimed")
	}
	if err := p.hold(verb, &h.mws); err != nil {
		return nil, err
	}
	w := &mw{pd: p, kind: c.Type}
	var err error
	if w.mw, err = h.dev.AllocMW(p.pd, int(c.Type)); err != nil {
		p.release(&h.mws)
		return nil, reject(verb, err, ci.Success)
	}
	w.executed = ci.Key(w.mw.Key())
	return w, nil
}

// Key returns the current key.
func (w *mw) Key() ci.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.refs.Alive() {
		return 0
	}
	return w.last()
}

// Query returns the attributes. Status: InvalidMWHandle.
func (w *mw) Query() (ci.MWAttr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.refs.Alive() {
		return ci.MWAttr{}, fail("MW.Query", ci.InvalidMWHandle, "")
	}
	return ci.MWAttr{PD: w.pd, Type: w.kind, Key: w.last()}, nil
}

// Destroy deallocates the window. Status: InvalidMWHandle.
func (w *mw) Destroy() error {
	const verb = "MW.Destroy"
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.refs.DestroyIf(verb, ci.InvalidMWHandle, func() error {
		if err := w.pd.hca.dev.DeallocMW(w.mw); err != nil {
			return reject(verb, err, ci.Success)
		}
		return nil
	})
	if err == nil {
		w.pd.release(&w.pd.hca.mws)
	}
	return err
}

// BindMW posts the bind of a window of type 1. Status: as ci.QP has them.
func (q *qp) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	const verb = "QP.BindMW"
	if !q.hca.claims().Has(ci.CapMW1) {
		return q.UnimplementedQP.BindMW(id, flags, b)
	}
	w, ok := ci.As[*mw](b.MW)
	if !ok || w.pd.hca != q.hca || w.kind != ci.MWType1 {
		return 0, fail(verb, ci.InvalidMWHandle, "")
	}
	m, err := q.bindRegion(verb, &b)
	if err != nil {
		return 0, err
	}
	var send uint32
	if flags&ci.SendSignaled != 0 || q.create.Flags&ci.QPSignalAll != 0 {
		send |= ibv.SendSignaled
	}
	if flags&ci.SendFence != 0 {
		send |= ibv.SendFence
	}
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.sq.log.mu.Lock()
	defer q.sq.log.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case q.sq.dead:
		return 0, fail(verb, ci.InvalidQPHandle, "")
	case !w.refs.Alive():
		return 0, fail(verb, ci.InvalidMWHandle, "")
	case q.create.Type != ci.RC && q.create.Type != ci.UC:
		return 0, fail(verb, ci.InvalidServiceType, "")
	case b.Key != w.last():
		return 0, fail(verb, ci.InvalidRKey, "Key is not the current key of the window")
	case !q.sq.state.sends():
		return 0, fail(verb, ci.InvalidQPState, "")
	}
	if b.Length == 0 && m == (ibv.MR{}) {
		m = w.region // providers read the region of a bind that unbinds
	}
	if m == (ibv.MR{}) {
		return 0, fail(verb, ci.InvalidMRHandle, "the window was never bound, so the provider needs a region")
	}
	if err := q.hca.dev.BindMW(q.qp, w.mw, id, send, m, b.Addr, b.Length, accessOf(b.Access)); err != nil {
		return 0, postError(verb, bindErrors, err)
	}
	key := ci.Key(w.mw.Key())
	w.region = m
	w.posted(key)
	q.sq.log.add(id, send&ibv.SendSignaled != 0, w, key)
	return key, nil
}

var bindErrors = wrrules.NewErrors("QP.BindMW", ci.InvalidQPHandle)

// bindRegion returns the region of a bind. One that unbinds, of length 0, may have none.
func (q *qp) bindRegion(verb string, b *ci.MWBind) (ibv.MR, error) {
	m, ok := ci.As[*mr](b.MR)
	switch {
	case b.Length == 0 && ci.IsNil(b.MR):
		return ibv.MR{}, nil
	case !ok || m.pd.hca != q.hca || !m.refs.Alive():
		return ibv.MR{}, fail(verb, ci.InvalidMRHandle, "")
	case b.Length == 0:
		return m.mr, nil
	case b.Access&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && m.access&ci.LocalWrite == 0, m.access&ci.BindWindow == 0:
		return ibv.MR{}, fail(verb, ci.InvalidPermission, "the region does not permit this")
	}
	return m.mr, nil
}
