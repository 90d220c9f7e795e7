package model

import (
	"cmp"
	"fmt"
	"slices"

	"ciddk/ci"
)

// MW is a memory window.
type MW struct {
	Object
	Type ci.MWType
	Key  ci.Key // that the last bind that was executed gave it

	drawn []ci.Key // type 1: keys of binds that are posted and not executed
	// isUsed is set when the first bind is posted. A driver learns of binds from completions, which one without a
	// completion does not have, and no source says what Query shows of one that was flushed: libibverbs changes the key
	// at the post.
	isUsed bool
	bound  *Region // what it grants, or nil
	// Vague is true for a window of type 2 once the QP that bound it is in another state: whether it is still bound is
	// open (IBTA volume 1, 10.6.7.2.4).
	Vague bool
}

// bind is a bind of a window.
type bind struct {
	w    *MW
	mr   *Region
	key  ci.Key // of type 1, drawn at the post; of type 2, whose low 8 bits the consumer chooses
	addr uint64
	n    uint64
	a    ci.Access
}

// CreateMW observes PD.CreateMW.
func (pd *PD) CreateMW(typ ci.MWType, key ci.Key, err error) (*MW, *Violation) {
	const verb = "PD.CreateMW"
	cap, ok := map[ci.MWType]ci.Caps{ci.MWType1: ci.CapMW1, ci.MWType2: ci.CapMW2}[typ]
	switch {
	case pd.Dead:
	case !ok:
		return nil, wantStatus(verb, err, "CI-CreateMW-02", ci.InvalidParameter, ci.Unsupported)
	case !pd.CA.Attr.Caps.Has(cap):
		return nil, wantStatus(verb, err, "CI-Claims-01", ci.Unsupported, ci.InvalidParameter)
	}
	if v := pd.created(KindMW, verb, err); v != nil || err != nil {
		return nil, v
	}
	if r := pd.CA.rkeys[key]; r != nil && r.Valid {
		return nil, violation("CI-RegisterMR-09", verb, "an R_Key that nothing has", "%#x", uint32(key))
	}
	w := &MW{Type: typ, Key: key}
	w.init(KindMW, pd.CA, pd)
	return w, nil
}

// Bound returns what the window grants, or nil.
func (w *MW) Bound() *Region { return w.bound }

// Through returns the QP of which only the peer has access, or nil.
func (r *Region) Through() *QP { return r.only }

// Current returns the key that a bind of type 1 must name.
func (w *MW) Current() ci.Key {
	if n := len(w.drawn); n > 0 {
		return w.drawn[n-1]
	}
	return w.Key
}

// Pending reports whether binds of the window wait.
func (w *MW) Pending() bool { return len(w.drawn) > 0 }

// Query observes MW.Query, and MW.Key, of a window at rest.
func (w *MW) Query(pdIsRight bool, got ci.MWAttr, key ci.Key, err error) *Violation {
	const verb, rule = "MW.Query", Rule("CI-QueryMW-01")
	if v, ok := w.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, rule, ci.Success); v != nil {
		return v
	}
	if !pdIsRight || got.Type != w.Type {
		return violation(rule, verb, fmt.Sprintf("its PD and type %d", w.Type), "PD right: %t, type %d", pdIsRight,
			got.Type)
	}
	if w.Pending() {
		return nil
	}
	if got.Key != key || !w.isUsed && key != w.Key {
		return violation(rule, verb, fmt.Sprintf("key %#x", uint32(w.Key)), "%#x, and %#x of MW.Key", uint32(got.Key),
			uint32(key))
	}
	if w.Type == ci.MWType1 {
		w.Key = key // which the next bind must name
	}
	return nil
}

// Destroy observes MW.Destroy.
func (w *MW) Destroy(err error) *Violation {
	ended, v := w.destroy(err)
	if ended {
		w.unbind()
	}
	return v
}

func (w *MW) unbind() {
	if r := w.bound; r != nil {
		w.bound = nil
		w.CA.dropKeys(r)
		r.base.users--
	}
	w.Vague = false
}

// refuse returns the statuses with which a bind may be rejected when it is posted. must is true if it may not be
// accepted; otherwise it may also be accepted and complete with WCBindErr.
func (q *QP) refuse(b *bind, two bool) (rule Rule, want []ci.Status, must bool) {
	add := func(wrong bool, r Rule, certain bool, s ...ci.Status) {
		if wrong {
			rule, want, must = r, append(want, s...), must || certain
		}
	}
	w := b.w
	if two {
		// what names a destroyed object may be found out when it is executed (package wrrules)
		add(w.Dead || w.Type != ci.MWType2, "CI-BindMW-10", !w.Dead, ci.InvalidParameter, ci.InvalidMWHandle,
			ci.InvalidWRType, ci.Unsupported)
		add(b.mr.Dead, "CI-BindMWTwo-04", false, ci.InvalidParameter, ci.InvalidMRHandle, ci.InvalidPermission,
			ci.InvalidRKey)
	} else {
		add(w.Dead, "CI-BindMW-09", true, ci.InvalidMWHandle)
		add(w.Type != ci.MWType1, "CI-BindMW-10", true, ci.InvalidParameter, ci.InvalidMWHandle, ci.InvalidRKey)
		add(b.n > 0 && b.mr.Dead, "CI-BindMW-09", true, ci.InvalidMRHandle)
		add(b.key != w.Current(), "CI-BindMW-04", true, ci.InvalidRKey)
	}
	if r, bad := q.cannotBind(b); bad {
		if r == "CI-BindMW-05" && two {
			r = "CI-BindMWTwo-04"
		}
		add(rule == "", r, false, ci.InvalidPermission, ci.InvalidParameter, ci.InvalidRKey, ci.InvalidMRHandle)
		add(rule != "", rule, false, ci.InvalidPermission, ci.InvalidParameter)
	}
	return rule, want, must
}

// cannotBind reports whether a bind fails (IBTA volume 1, 10.6.7.2), and the rule.
func (q *QP) cannotBind(b *bind) (Rule, bool) {
	w, mr := b.w, b.mr
	two, writes := w.Type == ci.MWType2, b.a&(ci.RemoteWrite|ci.RemoteAtomic) != 0
	legal := remoteRights
	if two && q.CA.Attr.Caps.Has(ci.CapZeroBased) {
		legal |= ci.ZeroBased
	}
	switch {
	case w.Dead || w.PD != q.PD:
		return "CI-BindMW-07", true
	case two && (w.bound != nil || b.n == 0): // D-103
		return "CI-BindMWTwo-04", true
	case b.a&^legal != 0:
		return "CI-BindMW-05", true
	case b.n == 0:
		return "", false
	case mr.PD != q.PD:
		return "CI-BindMW-07", true
	case mr.Dead || !mr.covers(b.addr, b.n) || mr.Access&ci.BindWindow == 0 || writes && mr.Access&ci.LocalWrite == 0:
		return "CI-BindMW-05", true
	}
	return "", false
}

// BindMW observes QP.BindMW. mr may be nil only for an unbind. key is what it returned.
func (q *QP) BindMW(wr *ci.SendWR, w *MW, mr *Region, b ci.MWBind, key ci.Key, err error) *Violation {
	const verb = "QP.BindMW"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if q.Type == ci.UD {
		return wantStatus(verb, err, "CI-BindMW-06", ci.InvalidServiceType)
	}
	x := &bind{w: w, mr: mr, key: b.Key, addr: b.Addr, n: b.Length, a: b.Access}
	rule, want, must := q.refuse(x, false)
	switch q.State {
	case ci.QPReset, ci.QPInit, ci.QPRTR:
		rule, want, must = "CI-PostState-01", append(want, ci.InvalidQPState), true
	}
	if q.hasFailedEarly {
		want = append(want, ci.InvalidQPState)
	}
	mustFit, mayFit := room(q.posted[0], q.retired[0], len(q.sq), q.SendDepth)
	if !mustFit {
		if want = append(want, ci.InsufficientResources); rule == "" {
			rule = "CI-BindMW-08"
		}
	}
	if !must && mayFit {
		want = append(want, ci.Success)
	}
	if v := wantStatus(verb, err, cmp.Or(rule, "CI-BindMW-01"), want...); v != nil || err != nil {
		return v
	}
	if key == w.Current() || key == w.Key {
		return violation("CI-BindMW-02", verb, "a new key", "%#x, the one before", uint32(key))
	}
	x.key, w.isUsed = key, true
	w.drawn = append(w.drawn, key)
	q.takeSend(*wr, Ref{})
	q.sq[len(q.sq)-1].bind = x
	q.CA.w.settle()
	return nil
}

// Ref has the model's objects that a request names.
type Ref struct {
	AV *AV // of a datagram
	MW *MW // of OpBindMW, with the region
	MR *Region
	// Fast is what an OpFastReg does.
	Fast *FastReg
}

// bindOf returns the bind of a request of type 2, or nil.
func (r Ref) bindOf(wr *ci.SendWR) *bind {
	if wr.Op != ci.OpBindMW || wr.Ext == nil {
		return nil
	}
	b := &wr.Ext.Bind
	return &bind{w: r.MW, mr: r.MR, key: b.Key, addr: b.Addr, n: b.Length, a: b.Access}
}

// drop empties the send queue without completions.
func (q *QP) drop() {
	for _, r := range q.sq {
		r.flushed()
		q.CA.w.Dropped = q.CA.w.Dropped || r.begun // it may be on its way
	}
	q.sq, q.rq = nil, nil
	q.doubtWindows()
}

// executeLocal executes a request that has no message.
func (q *QP) executeLocal(r *request) (ci.WCStatus, Rule) {
	if r.Op == ci.OpLocalInv {
		if q.invalidate(r.Inv) {
			return ci.WCSuccess, "CI-BindMWTwo-03"
		}
		return ci.WCBindErr, "CI-LocalInv-03"
	}
	if r.fast != nil {
		return r.fast.execute(q)
	}
	b := r.bind
	w := b.w
	drawn := w.Type == ci.MWType1 && len(w.drawn) > 0
	if rule, bad := q.cannotBind(b); bad {
		r.flushed()
		return ci.WCBindErr, rule
	}
	w.unbind()
	if drawn {
		w.drawn = w.drawn[1:]
		w.Key = b.key
	} else {
		w.Key = w.Key&^0xff | b.key&0xff
	}
	if b.n == 0 {
		return ci.WCSuccess, "CI-BindMW-03"
	}
	g := &Region{Region: ci.Region{Addr: b.addr, Length: b.n, RKey: w.Key}, Access: b.a &^ ci.ZeroBased, Valid: true,
		base: b.mr, start: b.addr}
	g.Kind, g.CA = KindMW, q.CA
	g.PD, g.window = w.PD, w
	if b.a&ci.ZeroBased != 0 {
		g.Addr = 0
	}
	if w.Type == ci.MWType2 {
		g.only = q
	}
	w.bound = g
	b.mr.users++
	q.CA.rkeys[w.Key] = g
	return ci.WCSuccess, "CI-BindMW-01"
}

// flushed takes back the key of a bind that is not executed.
func (r *request) flushed() {
	if b := r.bind; b != nil {
		b.w.drawn = slices.DeleteFunc(b.w.drawn, func(k ci.Key) bool { return k == b.key })
	}
}

// invalidate invalidates the key of a window of type 2. It returns false if the key cannot be invalidated.
func (q *QP) invalidate(key ci.Key) bool {
	if r := q.fastRegion(key); r != nil {
		r.unmap()
		return true
	}
	ok := q.canInvalidate(key)
	if ok {
		q.CA.rkeys[key].window.unbind()
	}
	return ok
}

func (q *QP) canInvalidate(key ci.Key) bool {
	if q.fastRegion(key) != nil {
		return true
	}
	r := q.CA.rkeys[key]
	return r != nil && r.only == q && r.PD == q.PD // D-102
}

// doubtWindows forgets whether windows of type 2 that were bound through the QP are still bound.
func (q *QP) doubtWindows() {
	for _, r := range q.CA.rkeys {
		if r.only == q {
			r.window.Vague = true
		}
	}
}

// HasWindows reports whether windows of type 2 are bound through the QP.
func (q *QP) HasWindows() bool {
	for _, r := range q.CA.rkeys {
		if r.only == q {
			return true
		}
	}
	return false
}

// HasVague reports whether a window may be bound to the region.
func (r *Region) HasVague() bool {
	for _, x := range r.CA.rkeys {
		if x.base == r && x.window.Vague {
			return true
		}
	}
	return false
}
