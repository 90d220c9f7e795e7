package rvt

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
)

// bindPost is the request that BindMW posts. It belongs to the QP, so that a bind allocates nothing.
type bindPost struct {
	wr  [1]ci.SendWR
	ext ci.SendExt
}

var bindErrors = wrrules.NewErrors("QP.BindMW", ci.InvalidQPHandle)

// BindMW posts the bind of a type 1 window, and returns the key that the window will have.
func (q *QP) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	const verb = "QP.BindMW"
	switch {
	case !q.dev.attr.Caps.Has(ci.CapMW1):
		return q.UnimplementedQP.BindMW(id, flags, b)
	case q.typ != ci.RC && q.typ != ci.UC:
		return 0, fail(verb, ci.InvalidServiceType)
	}
	mw := q.MW(b.MW)
	if mw == nil {
		return 0, handle(verb, ci.InvalidMWHandle, "MW", b.MW)
	}
	var mr *MR
	if b.Length > 0 {
		if mr = q.MR(b.MR); mr == nil {
			return 0, handle(verb, ci.InvalidMRHandle, "MR", b.MR)
		}
	}
	if st := mw.checkBind(&q.endpoint, mr, &b); st != ci.Success {
		return 0, fail(verb, st)
	}
	key, err := q.postBind(id, flags, b, mw)
	if err != nil {
		return 0, err
	}
	q.kick()
	return key, nil
}

func (q *QP) postBind(id uint64, flags ci.SendFlags, b ci.MWBind, mw *MW) (ci.Key, error) {
	q.sqMu.Lock()
	defer q.sqMu.Unlock()
	switch {
	case q.destroyed.Load():
		return 0, bindErrors.Destroyed
	case q.current() < ci.QPRTS:
		return 0, bindErrors.State
	}
	key, ok := mw.nextKey(b.Key)
	if !ok {
		return 0, fail("QP.BindMW", ci.InvalidRKey)
	}
	if q.bind == nil {
		q.bind = new(bindPost)
	}
	b.Key = key
	q.bind.ext.Bind = b
	q.bind.wr[0] = ci.SendWR{ID: id, Op: ci.OpBindMW, Flags: flags, Ext: &q.bind.ext}
	n := q.sq.Post(q.bind.wr[:], q)
	q.bind.ext.Bind = ci.MWBind{}
	if n == 0 {
		mw.dropKey(key)
		return 0, bindErrors.Full
	}
	return key, nil
}
