package soft

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/templates/rchca"
)

// A window is a memory window.
type window struct {
	c       rchca.MWConfig
	key     ci.Key
	is      rchca.Bind // what it is bound to; Length is 0 if it is not bound
	qp      *qp        // through which it was bound
	pending int        // binds that have not completed
}

// CreateMW implements rchca.Device.
func (d *Device) CreateMW(c rchca.MWConfig) (ci.Key, error) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if d.windows == nil {
		d.windows = make(map[ci.Key]*window)
	}
	k, err := d.newKey()
	if err == nil {
		d.windows[k>>8] = &window{c: c, key: k}
	}
	return k, err
}

// DestroyMW implements rchca.Device.
func (d *Device) DestroyMW(k ci.Key) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	delete(d.windows, k>>8)
	return nil
}

// WindowKey implements rchca.Device.
func (d *Device) WindowKey(k ci.Key) (key ci.Key, isFinal bool) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if w := d.windows[k>>8]; w != nil {
		return w.key, w.pending == 0
	}
	return k, true
}

// WriteBind implements rchca.Device.
func (d *Device) WriteBind(n ci.QPN, slot int, wr *ci.SendWR, b *rchca.Bind) {
	d.WriteSend(n, slot, wr)
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil {
		q.sq[slot].bind = *b
		if w := d.windows[b.Window>>8]; w != nil {
			w.pending++
		}
	}
}

// completeBind counts a bind that has completed, was flushed or was discarded.
func (d *Device) completeBind(s *sendSlot) {
	if w := d.windows[s.bind.Window>>8]; s.Op == ci.OpBindMW && w != nil {
		w.pending--
	}
}

// discardBinds counts the binds of a QP that are discarded, because it is destroyed or reset.
func (q *qp) discardBinds() {
	for i := q.sqt; i < q.sqh; i++ {
		q.d.completeBind(&q.sq[i%len(q.sq)])
	}
}

// isBound reports whether a window is bound to a region.
func (d *Device) isBound(region ci.Key) bool {
	for _, w := range d.windows {
		if w.is.Length > 0 && w.is.Region == region {
			return true
		}
	}
	return false
}

// changeWindow executes a bind or an invalidation.
func (q *qp) changeWindow(s *sendSlot) ci.WCStatus {
	if s.Op == ci.OpLocalInv {
		return q.invalidate(s.Inv)
	}
	b := &s.bind
	w := q.d.windows[b.Window>>8]
	if w == nil || w.c.PD != q.c.PD || w.c.Type == ci.MWType2 && (w.is.Length > 0 || b.Length == 0) {
		return ci.WCBindErr
	}
	if b.Length > 0 {
		r := q.d.mrs[b.Region]
		if r == nil || r.PD != q.c.PD || !wrrules.CanBind(r.Access, b.Access) || !wrrules.IsWindowAccess(b.Access) ||
			b.Addr < r.Addr || b.Addr-r.Addr > r.Length || b.Length > r.Length-(b.Addr-r.Addr) {
			return ci.WCBindErr
		}
	}
	w.key, w.is, w.qp = b.Key, *b, q
	return ci.WCSuccess
}

// invalidate unbinds a window of type 2 that was bound through the QP.
func (q *qp) invalidate(k ci.Key) ci.WCStatus {
	w := q.d.windows[k>>8]
	if w == nil || w.c.Type != ci.MWType2 || w.key != k || w.is.Length == 0 || w.qp != q {
		return ci.WCBindErr
	}
	w.is = rchca.Bind{}
	return ci.WCSuccess
}

// through returns n bytes that a window grants the peer of the QP.
func (q *qp) through(w *window, k ci.Key, addr, n uint64, right ci.Access) (list []span, ok bool) {
	off := addr - w.is.Addr
	if w.key != k || w.c.PD != q.c.PD || w.is.Access&right != right || w.c.Type == ci.MWType2 && w.qp != q ||
		addr < w.is.Addr || off > w.is.Length || n > w.is.Length-off {
		return nil, false
	}
	r := q.d.mrs[w.is.Region]
	if r == nil {
		return nil, false
	}
	return pieces(r, addr-r.Addr, n)
}
