package mutant

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Windows returns mutants with faults in memory windows.
func Windows() []Mutant {
	type bindFunc = func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error)
	bind := func(name, breaks, does string, f bindFunc) Mutant {
		return Of(name, breaks, does, tap.QPs(func(q ciwrap.QP) ci.QP { return binder{q, f} })).Needing(ci.CapMW1)
	}
	window := func(name, breaks, does string, f func(in ciwrap.MW) ci.MW) Mutant {
		return Of(name, breaks, does, tap.MWs(f))
	}
	return []Mutant{
		bind("mw.any-key", "CI-BindMW-04", "a bind does not check the current key",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.MW != nil {
					b.Key = b.MW.Key()
				}
				return q.BindMW(id, flags, b)
			}),
		bind("mw.whole-region", "CI-BindMW-01", "a window covers all of its region",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.Length > 0 && b.MR != nil {
					r := b.MR.Region()
					b.Addr, b.Length = r.Addr, r.Length
				}
				return q.BindMW(id, flags, b)
			}),
		bind("mw.reads-too", "CI-BindMW-01", "every window grants remote reads",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.Length > 0 {
					b.Access |= ci.RemoteRead
				}
				return q.BindMW(id, flags, b)
			}),
		bind("mw.atomics-of-region", "CI-BindMW-01", "a window grants atomics if its region does",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.Length > 0 && b.MR != nil {
					if a, err := b.MR.Query(); err == nil {
						b.Access |= a.Access & ci.RemoteAtomic
					}
				}
				return q.BindMW(id, flags, b)
			}).By("mw.rights"),
		bind("mw.old-key", "CI-BindMW-02", "BindMW returns the previous key",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				_, err := q.BindMW(id, flags, b)
				return b.Key, err
			}),
		bind("mw.never-unbinds", "CI-BindMW-03", "a bind of length 0 does nothing",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.Length > 0 || b.MW == nil {
					return q.BindMW(id, flags, b)
				}
				_, err := q.PostSend([]ci.SendWR{{ID: id, Op: ci.OpNop, Flags: flags}})
				return b.Key, err
			}),
		bind("mw.clipped", "CI-BindMW-05", "a bind beyond the region is limited to the region",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.Length > 0 && b.MR != nil {
					r := b.MR.Region()
					if b.Addr == r.Addr {
						b.Length = min(b.Length, r.Length)
					}
				}
				return q.BindMW(id, flags, b)
			}),
		bind("mw.any-service", "CI-BindMW-06", "a bind on a datagram QP returns InvalidParameter",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				k, err := q.BindMW(id, flags, b)
				if ci.StatusOf(err) == ci.InvalidServiceType {
					err = &ci.Error{Verb: "QP.BindMW", Status: ci.InvalidParameter}
				}
				return k, err
			}),
		bind("mw.always-signaled", "CI-BindMW-08", "every bind causes a completion",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				return q.BindMW(id, flags|ci.SendSignaled, b)
			}),
		bind("mw.no-region", "CI-BindMW-09", "a bind without region unbinds",
			func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
				if b.MR == nil {
					b.Length = 0
				}
				return q.BindMW(id, flags, b)
			}),
		window("mw.outlives", "CI-DestroyMW-01", "a bound window stays accessible after Destroy",
			func(in ciwrap.MW) ci.MW { return &lazyMW{MW: in} }),
		window("mw.query-key", "CI-QueryMW-01", "Query returns the first key of the window",
			func(in ciwrap.MW) ci.MW { return firstKey{in, in.Key()} }),
		Of("mw.region-not-busy", "CI-DestroyMW-02", "Destroy of a region with a bound window succeeds",
			tap.Layer(ciwrap.Layer{MR: neverBusy})).Needing(ci.CapMW1),
		Of("mw.by-post", "CI-BindMW-10", "OpBindMW also binds windows of type 1",
			tap.QPs(func(q ciwrap.QP) ci.QP { return postBinder{q} })).Needing(ci.CapMW1 | ci.CapMW2),
		fastPost("mw2.any-key", "CI-BindMWTwo-05",
			"a bind with a key that has another index leaves the key of the window as it is", ci.CapMW2,
			func(w *ci.SendWR) {
				if b := bindOf(w); b != nil && b.MW != nil && b.MW.Key()>>8 != b.Key>>8 {
					b.Key = b.MW.Key()
				}
			}),
		fastPost("mw2.long-empty", "CI-BindMWTwo-04", "a bind of length 0 binds one byte", ci.CapMW2,
			func(w *ci.SendWR) {
				if b := bindOf(w); b != nil {
					b.Length = max(b.Length, 1)
				}
			}),
		fastPost("mw2.not-zero-based", "CI-BindMWTwo-06", "ZeroBased of a window is ignored", ci.CapMW2|ci.CapZeroBased,
			func(w *ci.SendWR) {
				if b := bindOf(w); b != nil {
					b.Access &^= ci.ZeroBased
				}
			}),
		fastPost("mw2.own-key", "CI-BindMWTwo-01", "the HCA chooses the low bits of a type 2 window's key", ci.CapMW2,
			func(w *ci.SendWR) {
				if b := bindOf(w); b != nil {
					b.Key ^= 0x55
				}
			}),
		fastPost("mw2.no-invalidate", "CI-BindMWTwo-03", "a local invalidate does nothing", ci.CapMW2,
			func(w *ci.SendWR) {
				if w.Op == ci.OpLocalInv {
					w.Op = ci.OpNop
				}
			}),
	}
}

// bindOf returns the bind of a request, or nil.
func bindOf(w *ci.SendWR) *ci.MWBind {
	if w.Op != ci.OpBindMW || w.Ext == nil {
		return nil
	}
	return &w.Ext.Bind
}

type binder struct {
	ciwrap.QP
	f func(q ciwrap.QP, id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error)
}

func (b binder) BindMW(id uint64, flags ci.SendFlags, bind ci.MWBind) (ci.Key, error) {
	return b.f(b.QP, id, flags, bind)
}

// lazyMW is a window that only the second Destroy destroys.
type lazyMW struct {
	ciwrap.MW
	destroyed atomic.Bool
}

func (l *lazyMW) Destroy() error {
	if !l.destroyed.Swap(true) {
		return nil
	}
	_ = l.MW.Destroy()
	return &ci.Error{Verb: "MW.Destroy", Status: ci.InvalidMWHandle}
}

type firstKey struct {
	ciwrap.MW
	key ci.Key
}

func (f firstKey) Query() (ci.MWAttr, error) {
	a, err := f.MW.Query()
	a.Key = f.key
	return a, err
}

type postBinder struct{ ciwrap.QP }

func (p postBinder) PostSend(wrs []ci.SendWR) (int, error) {
	for i := range wrs {
		w := &wrs[i]
		if w.Op != ci.OpBindMW || w.Ext == nil || w.Ext.Bind.MW == nil {
			continue
		}
		if a, err := w.Ext.Bind.MW.Query(); err != nil || a.Type != ci.MWType1 {
			continue
		}
		b := w.Ext.Bind
		b.Key = b.MW.Key()
		_, err := p.BindMW(w.ID, w.Flags, b)
		return i + 1, err
	}
	return p.QP.PostSend(wrs)
}
