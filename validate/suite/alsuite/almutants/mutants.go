package almutants

import (
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/req"
	"ciddk/validate/suite/alsuite"
)

// All returns the mutants of all areas.
func All() []mutant.Mutant {
	return []mutant.Mutant{
		fault("al.open-fails-once", req.SAS2_3_01,
			"the adapter is not ready when it is registered: the second query of its CA fails",
			func(h ci.HCA) ci.HCA {
				n := &atomic.Int32{} // the certifier makes the first query, for the claims
				return ciwrap.Wrap(h,
					ciwrap.Layer{CA: func(c ci.CA) ci.CA { return queryFailsOnce{ciwrap.CA{CA: c}, n} }})
			}),
		fault("al.close-stays-open", req.SAS2_2_09, "a used CA stays open after Destroy",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &staysOpen{CA: ciwrap.CA{CA: c}} }})),
		fault("al.keeps-qps", req.SAS2_2_06, "a QP with a posted receive rejects Destroy twelve times",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &busyQP{QP: ciwrap.QP{QP: q}} })),
		fault("al.loses-wakeups", alsuite.CIPump01, "every tenth completion callback is lost",
			lostCallbacks(func(n int32) bool { return n%10 == 0 })),
		fault("al.loses-the-last-wakeup", alsuite.CIPump02, "a CQ makes twenty completion callbacks and no more",
			lostCallbacks(func(n int32) bool { return n > 20 })),
		fault("al.keeps-keys", alsuite.CIPool01, "an invalidated key stays valid",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return keepsKeys{ciwrap.QP{QP: q}} })),
		fault("al.two-opens", req.SAS2_2_08, "an adapter can be opened twice at the same time", func(h ci.HCA) ci.HCA {
			open := &atomic.Pointer[ci.CA]{}
			return ciwrap.Wrap(h,
				ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return opensTwice{ciwrap.HCA{HCA: h}, open} }})
		}),
	}
}

// fault returns a mutant that breaks r.
func fault(name string, r *req.Requirement, does string, wrap func(ci.HCA) ci.HCA) mutant.Mutant {
	return mutant.Mutant{Name: name, Area: "al", Breaks: r.ID, Does: does, Wrap: wrap}
}

// lostCallbacks drops the nth completion callback of an adapter if isLost(n) is true.
func lostCallbacks(isLost func(n int32) bool) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		n := &atomic.Int32{}
		return ciwrap.Wrap(h, ciwrap.Layer{Completion: func(ctx any, deliver func(any)) {
			if !isLost(n.Add(1)) {
				deliver(ctx)
			}
		}})
	}
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

func (h opensTwice) OpenCA(guid ci.GUID, fn func(ci.Event), ctx any) (ci.CA, error) {
	ca, err := h.HCA.OpenCA(guid, fn, ctx)
	if ci.StatusOf(err) == ci.ResourceBusy && h.open.Load() != nil {
		return *h.open.Load(), nil
	}
	if err == nil {
		h.open.Store(&ca)
	}
	return ca, err
}

// keepsKeys is a QP that executes a local invalidation as an empty RDMA WRITE.
type keepsKeys struct{ ciwrap.QP }

func (q keepsKeys) PostSend(wrs []ci.SendWR) (int, error) {
	changed := slices.Clone(wrs)
	for i := range changed {
		if changed[i].Op == ci.OpLocalInv {
			changed[i] = ci.SendWR{ID: wrs[i].ID, Flags: wrs[i].Flags, Op: ci.OpWrite}
		}
	}
	return q.QP.PostSend(changed)
}
