package almutants

import (
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// All returns the mutants of all areas.
func All() []mutant.Mutant { return slices.Concat(faults(), loads()) }

// faults are the mutants of all areas but loads.
func faults() []mutant.Mutant {
	return []mutant.Mutant{
		fault("al.open-fails-once", "SAS-2.3-01",
			"the adapter is not ready when it is registered: the second query of its CA fails",
			func(h ci.HCA) ci.HCA {
				n := &atomic.Int32{} // the certifier makes the first query, for the claims
				return ciwrap.Wrap(h,
					ciwrap.Layer{CA: func(c ci.CA) ci.CA { return queryFailsOnce{ciwrap.CA{CA: c}, n} }})
			}),
		fault("al.close-stays-open", "SAS-2.2-09", "a used CA stays open after Destroy",
			tap.CAs(func(c ciwrap.CA) ci.CA { return &staysOpen{CA: c} })),
		fault("al.keeps-qps", "SAS-2.2-06", "a QP with a posted receive rejects Destroy twelve times",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &busyQP{QP: ciwrap.QP{QP: q}} })),
		fault("al.grows", "SAS-0-02", "an adapter has one more port after its first query", func(h ci.HCA) ci.HCA {
			n := &atomic.Int32{} // the certifier makes the first query, for the claims
			return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return growing{ciwrap.CA{CA: c}, n} }})
		}),
		mutant.Of("al.lid-stays", "SAS-2.1-17", "a Set of PortInfo does nothing",
			tap.CAs(func(c ciwrap.CA) ci.CA { return unsettable{c} })).Needing(ci.CapLocalMAD).On("direct"),
		fault("al.keeps-cqs", "SAS-2.1-29", "a CQ that has made a callback cannot be destroyed",
			tap.PDs(func(p ciwrap.PD) ci.PD { return keepsCQs{p} })),
		fault("al.keeps-drained-qps", "SAS-2.1-31", "a QP in SQD cannot be destroyed",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return undying{ciwrap.QP{QP: q}} })),
		fault("al.opens-thrice", "SAS-2.2-05", "an adapter can be opened only three times", opens(3)),
		fault("al.keeps-regions", "SAS-2.2-07", "a region rejects Destroy twelve times",
			tap.Layer(ciwrap.Layer{MR: func(m ci.MR,
				_ ciwrap.MROrigin) ci.MR {
				return &busyMR{MR: ciwrap.MR{MR: m}}
			}})),
		fault("al.new-guid", "SAS-2.3-02", "an open adapter reports another GUID", func(h ci.HCA) ci.HCA {
			open := &atomic.Bool{}
			return ciwrap.Wrap(h, ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return renamed{ciwrap.HCA{HCA: h}, open} },
				CA: func(c ci.CA) ci.CA { open.Store(true); return closing{ciwrap.CA{CA: c}, open} }})
		}),
		fault("al.two-opens", "SAS-2.2-08", "an adapter can be opened twice at the same time", func(h ci.HCA) ci.HCA {
			open := &atomic.Pointer[ci.CA]{}
			return ciwrap.Wrap(h,
				ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return opensTwice{ciwrap.HCA{HCA: h}, open} }})
		}),
	}
}

// fault returns a mutant that breaks r.
func fault(name, breaks, does string, wrap func(ci.HCA) ci.HCA) mutant.Mutant {
	return mutant.Of(name, breaks, does, wrap)
}

// queryFailsOnce is a CA whose second query fails.
type queryFailsOnce struct {
	ciwrap.CA
	n *atomic.Int32
}

func (c queryFailsOnce) Query() (*ci.CAAttr, error) {
	if c.n.Add(1) == 2 {
		return nil, &ci.Error{Verb: "CA.Query", Status: ci.InvalidState}
	}
	return c.CA.Query()
}

// staysOpen is a CA whose Destroy has no effect once a PD was allocated.
type staysOpen struct {
	ciwrap.CA
	used atomic.Int32
}

func (c *staysOpen) AllocatePD(typ ci.PDType) (ci.PD, error) {
	c.used.Add(1)
	return c.CA.AllocatePD(typ)
}

func (c *staysOpen) Destroy() error {
	if c.used.Load() > 0 {
		return nil
	}
	return c.CA.Destroy()
}

// busyQP is a QP that rejects Destroy twelve times after a receive was posted.
type busyQP struct {
	ciwrap.QP
	received atomic.Bool
	refusals atomic.Int32
}

func (q *busyQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	q.received.Store(true)
	return q.QP.PostRecv(wrs)
}

func (q *busyQP) Destroy() error {
	if q.received.Load() && q.refusals.Add(1) <= 12 {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.ResourceBusy}
	}
	return q.QP.Destroy()
}

// opensTwice returns the open CA for a second OpenCA.
type opensTwice struct {
	ciwrap.HCA
	open *atomic.Pointer[ci.CA]
}

func (h opensTwice) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	ca, err := h.HCA.OpenCA(guid, fn, arg)
	if ci.StatusOf(err) == ci.ResourceBusy && h.open.Load() != nil {
		return *h.open.Load(), nil
	}
	if err == nil {
		h.open.Store(&ca)
	}
	return ca, err
}

// growing has one more port from its second query on.
type growing struct {
	ciwrap.CA
	n *atomic.Int32
}

func (c growing) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil && c.n.Add(1) > 1 {
		more := a.Ports[len(a.Ports)-1]
		more.Num++
		a.Ports = append(a.Ports, more)
	}
	return a, err
}

// unsettable answers a Set of a local MAD with its own data.
type unsettable struct{ ciwrap.CA }

func (c unsettable) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	const method, set, response = 3, 2, 0x81
	if in == nil || out == nil || in[method] != set {
		return c.CA.LocalMAD(port, src, in, out)
	}
	*out = *in
	out[method] = response
	return nil
}

// keepsCQs is a PD whose CQs cannot be destroyed after a callback.
type keepsCQs struct{ ciwrap.PD }

func (p keepsCQs) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	used := &atomic.Bool{}
	if fn := c.OnCompletion; fn != nil {
		c.OnCompletion = func(arg any) { used.Store(true); fn(arg) }
	}
	q, err := p.PD.CreateCQ(c)
	if err != nil {
		return q, err
	}
	return keptCQ{ciwrap.CQ{CQ: q}, used}, nil
}

type keptCQ struct {
	ciwrap.CQ
	used *atomic.Bool
}

func (q keptCQ) Destroy() error {
	if q.used.Load() {
		return &ci.Error{Verb: "CQ.Destroy", Status: ci.InvalidState}
	}
	return q.CQ.Destroy()
}

// undying is a QP that cannot be destroyed in SQD.
type undying struct{ ciwrap.QP }

func (q undying) Destroy() error {
	if a, err := q.Query(); err == nil && (a.State == ci.QPSQD || a.State == ci.QPSQDraining) {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.InvalidState}
	}
	return q.QP.Destroy()
}

// fewOpens fails when it was opened as often as allowed.
type fewOpens struct {
	ciwrap.HCA
	n    *atomic.Int32
	most int32
}

func (h fewOpens) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	if h.n.Add(1) > h.most {
		return nil, &ci.Error{Verb: "HCA.OpenCA", Status: ci.InsufficientResources}
	}
	return h.HCA.OpenCA(guid, fn, arg)
}

// busyMR rejects Destroy twelve times.
type busyMR struct {
	ciwrap.MR
	refusals atomic.Int32
}

func (m *busyMR) Destroy() error {
	if m.refusals.Add(1) <= 12 {
		return &ci.Error{Verb: "MR.Destroy", Status: ci.ResourceBusy}
	}
	return m.MR.Destroy()
}

// renamed reports another GUID while it is open.
type renamed struct {
	ciwrap.HCA
	open *atomic.Bool
}

func (h renamed) Info() ci.HCAInfo {
	i := h.HCA.Info()
	if h.open.Load() {
		i.GUID ^= 1
	}
	return i
}

type closing struct {
	ciwrap.CA
	open *atomic.Bool
}

func (c closing) Destroy() error {
	err := c.CA.Destroy()
	if err == nil {
		c.open.Store(false)
	}
	return err
}

// opens is an adapter that can be opened so many times, of which the certifier needs one for the claims.
func opens(most int32) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		n := &atomic.Int32{}
		return ciwrap.Wrap(h,
			ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return fewOpens{ciwrap.HCA{HCA: h}, n, most} }})
	}
}
