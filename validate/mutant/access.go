package mutant

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Access are faults that an access layer above the driver stumbles over.
func Access() []Mutant {
	return []Mutant{
		{Name: "al.open-fails-once", Area: "al", Breaks: "SAS-2.3-01", Does: "the adapter is not ready when it is registered: its second query fails",
			Wrap: func(h ci.HCA) ci.HCA {
				n := &atomic.Int32{} // the first is the certifier's own look at the claims
				return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return drowsy{ciwrap.CA{CA: c}, n} }})
			}},
		{Name: "al.close-stays-open", Area: "al", Breaks: "SAS-2.2-09", Does: "a CA that was closed while in use stays open",
			Wrap: tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &openDoor{CA: ciwrap.CA{CA: c}} }})},
		{Name: "al.keeps-qps", Area: "al", Breaks: "SAS-2.2-06", Does: "a QP that has received cannot be destroyed the first dozen times",
			Wrap: tap.Layer(ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return &stubborn{QP: ciwrap.QP{QP: q}} }})},
		{Name: "al.loses-wakeups", Area: "al", Breaks: "CI-Pump-01", Does: "every tenth completion callback is lost",
			Wrap: func(h ci.HCA) ci.HCA {
				n := &atomic.Int32{}
				return ciwrap.Wrap(h, ciwrap.Layer{Completion: func(ctx any, deliver func(any)) {
					if n.Add(1)%10 != 0 {
						deliver(ctx)
					}
				}})
			}},
		{Name: "al.loses-the-last-wakeup", Area: "al", Breaks: "CI-Pump-02", Does: "a CQ calls back twenty times, and never again",
			Wrap: func(h ci.HCA) ci.HCA {
				n := &atomic.Int32{}
				return ciwrap.Wrap(h, ciwrap.Layer{Completion: func(ctx any, deliver func(any)) {
					if n.Add(1) <= 20 {
						deliver(ctx)
					}
				}})
			}},
		{Name: "al.two-opens", Area: "al", Breaks: "SAS-2.2-08", Does: "an adapter can be opened twice at the same time",
			Wrap: func(h ci.HCA) ci.HCA {
				open := &atomic.Pointer[ci.CA]{}
				return ciwrap.Wrap(h, ciwrap.Layer{
					HCA: func(h ci.HCA) ci.HCA { return twoDoors{ciwrap.HCA{HCA: h}, open} },
				})
			}},
	}
}

type drowsy struct {
	ciwrap.CA
	n *atomic.Int32
}

func (c drowsy) Query() (*ci.CAAttr, error) {
	if c.n.Add(1) == 2 {
		return nil, &ci.Error{Verb: "CA.Query", Status: ci.InvalidState}
	}
	return c.CA.Query()
}

type openDoor struct {
	ciwrap.CA
	used atomic.Int32
}

func (c *openDoor) AllocatePD(typ ci.PDType) (ci.PD, error) {
	c.used.Add(1)
	return c.CA.AllocatePD(typ)
}

func (c *openDoor) Close() error {
	if c.used.Load() > 0 {
		return nil
	}
	return c.CA.Close()
}

type stubborn struct {
	ciwrap.QP
	received atomic.Bool
	asked    atomic.Int32
}

func (q *stubborn) PostRecv(wrs []ci.RecvWR) (int, error) {
	q.received.Store(true)
	return q.QP.PostRecv(wrs)
}

func (q *stubborn) Destroy() error {
	if q.received.Load() && q.asked.Add(1) <= 12 {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.ResourceBusy}
	}
	return q.QP.Destroy()
}

// twoDoors gives the CA that is open to whoever opens again.
type twoDoors struct {
	ciwrap.HCA
	open *atomic.Pointer[ci.CA]
}

func (h twoDoors) OpenCA(guid ci.GUID, fn func(ci.Event), ctx any) (ci.CA, error) {
	ca, err := h.HCA.OpenCA(guid, fn, ctx)
	if ci.StatusOf(err) == ci.ResourceBusy && h.open.Load() != nil {
		return *h.open.Load(), nil
	}
	if err == nil {
		h.open.Store(&ca)
	}
	return ca, err
}
