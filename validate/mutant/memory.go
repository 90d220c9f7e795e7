package mutant

import (
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Memory returns mutants with faults in regions of every kind.
func Memory() []Mutant {
	create := func(name, breaks, does string, f func(ci.MRCreate) ci.MRCreate) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{MRCreate: f}))
	}
	region := func(name, breaks, does string, needs ci.Caps, f func(in ci.MR, o ciwrap.MROrigin) ci.MR) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{MR: f})).Needing(needs)
	}
	domain := func(name, breaks, does string, needs ci.Caps, f func(in ciwrap.PD) ci.PD) Mutant {
		return Of(name, breaks, does,
			tap.PDs(f)).Needing(needs)
	}
	return []Mutant{
		create("mr.permits-all", "CI-RegisterMR-02", "remote write implies local write",
			func(c ci.MRCreate) ci.MRCreate {
				if c.Access&ci.RemoteWrite != 0 {
					c.Access |= ci.LocalWrite
				}
				return c
			}),
		create("mr.read-is-write", "CI-RegisterMR-03", "remote read implies remote write",
			func(c ci.MRCreate) ci.MRCreate {
				if c.Access&ci.RemoteRead != 0 {
					c.Access |= ci.LocalWrite | ci.RemoteWrite
				}
				return c
			}),
		create("mr.always-writable", "CI-RegisterMR-08", "every region has local write",
			func(c ci.MRCreate) ci.MRCreate {
				if c.Access&(ci.RemoteWrite|ci.RemoteAtomic) == 0 {
					c.Access |= ci.LocalWrite
				}
				return c
			}),
		create("mr.ignores-fault", "CI-RegisterMR-11", "errors of memory are ignored", func(c ci.MRCreate) ci.MRCreate {
			if c.Memory != nil && c.Memory.Len() > 0 && c.Memory.Slice(0, 1) == nil {
				c.Memory = deafMemory{c.Memory}
			}
			return c
		}),
		create("mr.own-address", "CI-RegisterMR-04", "a requested address is ignored",
			func(c ci.MRCreate) ci.MRCreate { c.IOVA = 0; return c }),
		create("mr.straight-address", "CI-RegisterMR-04",
			"a requested address with a different offset in the page is corrected", func(c ci.MRCreate) ci.MRCreate {
				if c.IOVA != 0 && c.Memory != nil {
					c.IOVA = c.IOVA&^4095 | (c.Memory.Addr()+c.Offset)&4095
				}
				return c
			}),
		create("mr.not-zero-based", "CI-RegisterMR-05", "ZeroBased is ignored",
			func(c ci.MRCreate) ci.MRCreate { c.Access &^= ci.ZeroBased; return c }),
		create("mr.masks-rights", "CI-RegisterMR-06", "unknown rights are ignored", func(c ci.MRCreate) ci.MRCreate {
			c.Access &= ci.ZeroBased<<1 - 1
			return c
		}),
		region("mr.whole-pages", "CI-RegisterMR-01", "a region is extended to whole pages", ci.CapModifyMR, wholePages),
		region("mr.query-rights", "CI-QueryMR-01", "Query always returns local write", 0,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return mrQuery{ciwrap.MR{MR: in}, func(a *ci.MRAttr) { a.Access |= ci.LocalWrite }}
			}),
		region("mr.query-bounds", "CI-QueryMR-01", "the upper bound that Query returns is one byte too low", 0,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return mrQuery{ciwrap.MR{MR: in}, func(a *ci.MRAttr) { a.LocalHi-- }}
			}),
		region("mr.same-key", "CI-RegisterMR-09", "every region reports the key 0x500", 0,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return keyed{ciwrap.MR{MR: in}, 0x500}
			}),
		Of("mr.counted-keys", "CI-RegisterMR-10", "keys are consecutive numbers", func(h ci.HCA) ci.HCA {
			var n atomic.Uint32
			return ciwrap.Wrap(h, ciwrap.Layer{MR: func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return keyed{ciwrap.MR{MR: in}, ci.Key(n.Add(0x100))}
			}})
		}),
		Of("mr.lazy-destroy", "CI-DeregisterMR-02", "a region is deregistered only with its PD", lazyRegions),
		Of("mr.touches-on", "CI-DeregisterMR-03", "Destroy returns while the region is still in use", lazyRegions),
		Of("mr.local-lives-on", "CI-DeregisterMR-01", "the L_Key stays valid after Destroy", lazyRegions),
		region("mr.undead", "CI-DeregisterMR-04", "Query of a destroyed region returns zeros", 0,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return queryableMR{ciwrap.MR{MR: in}}
			}),
		Of("mr.used-up", "SAS-2.3-28", "entries of the table are never reused", func(h ci.HCA) ci.HCA {
			var n atomic.Int32
			return ciwrap.Wrap(h, ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
				return pdRegister{ciwrap.PD{PD: p}, func(c ci.MRCreate) (ci.MR, error) {
					if n.Add(1) > 8192 {
						return nil, &ci.Error{Verb: "PD.RegisterMR", Status: ci.InsufficientResources}
					}
					return p.RegisterMR(c)
				}}
			}})
		}),
		region("mr.modify.keeps-rights", "CI-ModifyMR-01", "Modify does not change rights", ci.CapModifyMR,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return mrModify{ciwrap.MR{MR: in}, func(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
					if set == ci.MRFieldAccess {
						a, err := in.Query()
						if err != nil {
							return err
						}
						c.Access = a.Access
					}
					return in.Modify(set, pd, c)
				}}
			}),
		region("mr.modify.half-done", "CI-ModifyMR-03", "a rejected Modify removes the rights", ci.CapModifyMR,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return mrModify{ciwrap.MR{MR: in}, func(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
					err := in.Modify(set, pd, c)
					if ci.StatusOf(err) == ci.InvalidPDHandle {
						_ = in.Modify(ci.MRFieldAccess, nil, ci.MRCreate{})
					}
					return err
				}}
			}),
		region("mr.modify.nothing", "CI-ModifyMR-02", "Modify of the memory succeeds and does nothing", ci.CapModifyMR,
			func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return mrModify{ciwrap.MR{MR: in}, func(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
					if set&ci.MRFieldMemory != 0 && c.Memory != nil {
						return nil
					}
					return in.Modify(set, pd, c)
				}}
			}),
		region("mr.shared.not-busy", "CI-RegisterSMR-02", "Destroy of a region with a shared one succeeds",
			ci.CapSharedMR, neverBusy),
		domain("mr.shared.inherits", "CI-RegisterSMR-01", "a shared region has all rights", ci.CapSharedMR,
			func(in ciwrap.PD) ci.PD { return inheriting{in} }),
		domain("mr.physical.any-page", "CI-RegisterPMR-01", "a wrong page size is taken as 4096", ci.CapPhysicalMR,
			func(in ciwrap.PD) ci.PD {
				return pdPhysical{in, func(c ci.PMRCreate) ci.PMRCreate {
					if c.PageSize < 4096 || c.PageSize&(c.PageSize-1) != 0 {
						c.PageSize = 4096
					}
					return c
				}}
			}),
		domain("mr.physical.backwards", "CI-RegisterPMR-02", "the ranges are used in reverse order", ci.CapPhysicalMR,
			func(in ciwrap.PD) ci.PD {
				return pdPhysical{in, func(c ci.PMRCreate) ci.PMRCreate {
					c.Ranges = slices.Clone(c.Ranges)
					slices.Reverse(c.Ranges)
					return c
				}}
			}),
		Of("mr.dma.not-busy", "CI-MapDMA-01", "DMA.Destroy of memory with a region succeeds",
			tap.DMAs(func(in ciwrap.DMA) ci.DMA { return calmDMA{in} })).Needing(ci.CapPhysicalMR),
		domain("mr.fmr.endless", "CI-MapFMR-02", "an FMR can be mapped without limit", ci.CapFMR,
			func(in ciwrap.PD) ci.PD { return endlessFMRs{in} }),
		Of("mr.fmr.maps-once", "CI-MapFMR-01", "a second map of an FMR leaves the pages of the first one",
			tap.FMRs(func(f ciwrap.FMR) ci.FMR { return &mapsOnce{FMR: f} })).Needing(ci.CapFMR),
		domain("mr.fmr.unmaps-first", "CI-UnmapFMR-01", "UnmapFMRs unmaps only the first of a batch", ci.CapFMR,
			func(in ciwrap.PD) ci.PD {
				return pdUnmap{in, func(l []ci.FMR) error { return in.UnmapFMRs(l[:min(1, len(l))]) }}
			}),
		domain("mr.fmr.half-batch", "CI-UnmapFMR-02", "UnmapFMRs stops at the first destroyed one", ci.CapFMR,
			func(in ciwrap.PD) ci.PD {
				return pdUnmap{in, func(l []ci.FMR) error {
					for _, f := range l {
						if err := in.UnmapFMRs([]ci.FMR{f}); err != nil {
							return err
						}
					}
					return nil
				}}
			}),
		domain("mr.fmr.not-busy", "CI-DeallocFMR-01", "Destroy of a mapped FMR unmaps it", ci.CapFMR,
			func(in ciwrap.PD) ci.PD { return tidyFMRs{in} }),
		fastPost("mr.fast.any-key", "CI-FastReg-02", "the index of a fast registration's key is ignored", ci.CapFastReg,
			func(w *ci.SendWR) {
				if w.Op == ci.OpFastReg && w.Ext != nil {
					w.Ext.FastReg.Key = w.Ext.FastReg.MR.Region().LKey&^0xff | w.Ext.FastReg.Key&0xff
				}
			}),
		fastPost("mr.fast.all-rights", "CI-FastReg-01", "a fast registration grants all rights", ci.CapFastReg,
			func(w *ci.SendWR) {
				if w.Op == ci.OpFastReg && w.Ext != nil {
					w.Ext.FastReg.Access |= ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite
				}
			}),
		fastPost("mr.fast.no-invalidate", "CI-LocalInv-01", "a local invalidate does nothing", ci.CapFastReg,
			func(w *ci.SendWR) {
				if w.Op == ci.OpLocalInv {
					w.Op = ci.OpNop
				}
			}),
		fastPost("mr.fast.plain-send", "CI-SendInv-01", "a SEND with invalidate is sent as a SEND",
			ci.CapFastReg|ci.CapSendInvalidate, func(w *ci.SendWR) {
				w.Flags &^= ci.SendInvalidate
			}),
	}
}

// wholePages registers all pages that a region touches, up to the end of the memory, and reports the requested region.
func wholePages(in ci.MR, o ciwrap.MROrigin) ci.MR {
	c := o.Virtual
	if o.Kind != ciwrap.MRVirtual || c.IOVA != 0 || c.Access&ci.ZeroBased != 0 {
		return in
	}
	r := in.Region()
	first := (c.Memory.Addr()+c.Offset)&^4095 - c.Memory.Addr()
	if first > c.Offset {
		first = 0 // the memory begins inside the page
	}
	last := min((c.Memory.Addr()+c.Offset+r.Length+4095)&^4095-c.Memory.Addr(), c.Memory.Len())
	c.Offset, c.Length, c.IOVA = first, last-first, 0
	if in.Modify(ci.MRFieldMemory, nil, c) != nil {
		return in
	}
	n := in.Region()
	r.LKey, r.RKey = n.LKey, n.RKey
	return faced{ciwrap.MR{MR: in}, r}
}

// faced is a region that reports the address and length of another one.
type faced struct {
	ciwrap.MR
	r ci.Region
}

func (f faced) Region() ci.Region { return f.r }

type mrQuery struct {
	ciwrap.MR
	f func(*ci.MRAttr)
}

func (m mrQuery) Query() (ci.MRAttr, error) {
	a, err := m.MR.Query()
	m.f(&a)
	return a, err
}

type keyed struct {
	ciwrap.MR
	key ci.Key
}

func (k keyed) Region() ci.Region {
	r := k.MR.Region()
	r.LKey, r.RKey = k.key, k.key
	return r
}

type queryableMR struct{ ciwrap.MR }

func (q queryableMR) Query() (ci.MRAttr, error) {
	a, err := q.MR.Query()
	if ci.StatusOf(err) == ci.InvalidMRHandle {
		return ci.MRAttr{}, nil
	}
	return a, err
}

type mrModify struct {
	ciwrap.MR
	f func(set ci.MRField, pd ci.PD, c ci.MRCreate) error
}

func (m mrModify) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error { return m.f(set, pd, c) }

// neverBusy returns success instead of ResourceBusy.
func neverBusy(in ci.MR, _ ciwrap.MROrigin) ci.MR { return calmMR{ciwrap.MR{MR: in}} }

type calmMR struct{ ciwrap.MR }

func (c calmMR) Destroy() error { return calm(c.MR.Destroy()) }

type calmDMA struct{ ciwrap.DMA }

func (c calmDMA) Destroy() error { return calm(c.DMA.Destroy()) }

func calm(err error) error {
	if ci.StatusOf(err) == ci.ResourceBusy {
		return nil
	}
	return err
}

// lazyRegions returns a layer whose regions are deregistered with their PD.
func lazyRegions(h ci.HCA) ci.HCA {
	w := &lazy{}
	return ciwrap.Wrap(h, ciwrap.Layer{
		MR: func(in ci.MR, _ ciwrap.MROrigin) ci.MR { return &lazyMR{MR: ciwrap.MR{MR: in}, of: w} },
		PD: func(in ci.PD, _ ci.PDType) ci.PD { return lazyPD{ciwrap.PD{PD: in}, w} },
		CA: func(in ci.CA) ci.CA { return lazyCA{ciwrap.CA{CA: in}, w} }})
}

type lazy struct {
	mu   sync.Mutex
	late []ci.MR
}

func (l *lazy) work() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = slices.DeleteFunc(l.late, func(m ci.MR) bool { return m.Destroy() == nil })
}

type lazyMR struct {
	ciwrap.MR
	of        *lazy
	destroyed atomic.Bool
}

func (l *lazyMR) Destroy() error {
	if l.destroyed.Swap(true) {
		return &ci.Error{Verb: "MR.Destroy", Status: ci.InvalidMRHandle}
	}
	l.of.mu.Lock()
	l.of.late = append(l.of.late, l.MR.MR)
	l.of.mu.Unlock()
	return nil
}

type lazyPD struct {
	ciwrap.PD
	of *lazy
}

func (l lazyPD) Destroy() error { l.of.work(); return l.PD.Destroy() }

type lazyCA struct {
	ciwrap.CA
	of *lazy
}

func (l lazyCA) Destroy() error { l.of.work(); return l.CA.Destroy() }

type pdRegister struct {
	ciwrap.PD
	f func(ci.MRCreate) (ci.MR, error)
}

func (p pdRegister) RegisterMR(c ci.MRCreate) (ci.MR, error) { return p.f(c) }

type inheriting struct{ ciwrap.PD }

func (i inheriting) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	if access&(ci.RemoteWrite|ci.LocalWrite) != ci.RemoteWrite {
		access |= ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite
	}
	return i.PD.RegisterSMR(src, iova, access)
}

type pdPhysical struct {
	ciwrap.PD
	f func(ci.PMRCreate) ci.PMRCreate
}

func (p pdPhysical) RegisterPMR(c ci.PMRCreate) (ci.MR, error) { return p.PD.RegisterPMR(p.f(c)) }

type pdUnmap struct {
	ciwrap.PD
	f func([]ci.FMR) error
}

func (p pdUnmap) UnmapFMRs(l []ci.FMR) error { return p.f(l) }

// mapsOnce is an FMR whose Map does nothing if it is mapped.
type mapsOnce struct {
	ciwrap.FMR
	region ci.Region
}

func (f *mapsOnce) Map(pages []uint64, iova uint64) (ci.Region, error) {
	if f.region.Length > 0 {
		return f.region, nil
	}
	r, err := f.FMR.Map(pages, iova)
	f.region = r
	return r, err
}

type endlessFMRs struct{ ciwrap.PD }

func (e endlessFMRs) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	f, err := e.PD.AllocFMR(c)
	if err != nil {
		return f, err
	}
	return endlessFMR{ciwrap.FMR{FMR: f}, e.PD}, nil
}

type endlessFMR struct {
	ciwrap.FMR
	pd ciwrap.PD
}

func (e endlessFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	r, err := e.FMR.Map(pages, iova)
	if ci.StatusOf(err) == ci.InsufficientResources && e.pd.UnmapFMRs([]ci.FMR{e.FMR.FMR}) == nil {
		return e.FMR.Map(pages, iova)
	}
	return r, err
}

type tidyFMRs struct{ ciwrap.PD }

func (t tidyFMRs) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	f, err := t.PD.AllocFMR(c)
	if err != nil {
		return f, err
	}
	return tidyFMR{ciwrap.FMR{FMR: f}, t.PD}, nil
}

type tidyFMR struct {
	ciwrap.FMR
	pd ciwrap.PD
}

func (t tidyFMR) Destroy() error {
	_ = t.pd.UnmapFMRs([]ci.FMR{t.FMR.FMR})
	return t.FMR.Destroy()
}

// fastPost returns a mutant that changes requests before they reach the send queue.
func fastPost(name, breaks, does string, needs ci.Caps, f func(*ci.SendWR)) Mutant {
	return Of(name, breaks, does, tap.QPs(func(q ciwrap.QP) ci.QP { return poster{q, f} })).Needing(needs)
}

type poster struct {
	ciwrap.QP
	f func(*ci.SendWR)
}

func (p poster) PostSend(wrs []ci.SendWR) (int, error) {
	out := slices.Clone(wrs)
	for i := range out {
		if out[i].Ext != nil {
			ext := *out[i].Ext
			out[i].Ext = &ext
		}
		p.f(&out[i])
	}
	return p.QP.PostSend(out)
}

// deafMemory is memory that reports no errors.
type deafMemory struct{ ci.Memory }

func (d deafMemory) ReadAt(p []byte, off int64) (int, error) {
	_, _ = d.Memory.ReadAt(p, off)
	return len(p), nil
}

func (d deafMemory) WriteAt(p []byte, off int64) (int, error) {
	_, _ = d.Memory.WriteAt(p, off)
	return len(p), nil
}
