package mutant

import (
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Queues returns mutants with faults in shared receive queues.
func Queues() []Mutant {
	srq := func(name, breaks, does string, l ciwrap.Layer) Mutant {
		return Of(name, breaks, does, tap.Layer(l)).Needing(ci.CapSRQ)
	}
	post := func(name, breaks, does string, f func(s ciwrap.SRQ, wrs []ci.RecvWR) (int, error)) Mutant {
		return srq(name, breaks, does,
			ciwrap.Layer{SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ { return srqPoster{ciwrap.SRQ{SRQ: s}, f} }})
	}
	modify := func(name, breaks, does string, f func(s ciwrap.SRQ, set ci.SRQField, a ci.SRQAttr) error) Mutant {
		return srq(name, breaks, does,
			ciwrap.Layer{SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ { return srqModifier{ciwrap.SRQ{SRQ: s}, f} }})
	}
	return []Mutant{
		srq("srq.zero-size", "CI-CreateSRQ-02", "a queue of 0 entries is created with one",
			ciwrap.Layer{SRQCreate: func(c ci.SRQCreate) ci.SRQCreate {
				c.MaxWR = max(c.MaxWR, 1)
				return c
			}}),
		srq("srq.smaller", "CI-CreateSRQ-01", "a queue has fewer entries than requested",
			ciwrap.Layer{SRQCreate: func(c ci.SRQCreate) ci.SRQCreate {
				c.MaxWR = (c.MaxWR + 1) / 2
				return c
			}}),
		srq("srq.recv-depth", "CI-CreateSRQ-03", "the depth of a receive queue beside the shared one is ignored",
			ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate {
				if c.SRQ != nil {
					c.RecvDepth = 0
				}
				return c
			}}),
		srq("srq.first-context", "CI-SRQ-01", "all receives have the context of the first completion of the CQ",
			ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return &firstComer{CQ: ciwrap.CQ{CQ: c}}
			}}),
		post("srq.backwards", "CI-SRQ-02", "a list is posted in reverse order",
			func(s ciwrap.SRQ, wrs []ci.RecvWR) (int, error) {
				wrs = slices.Clone(wrs)
				slices.Reverse(wrs)
				return s.PostRecv(wrs)
			}),
		post("srq.none-taken", "CI-PostSRQRecv-01", "a post that fails part way reports that no request was taken",
			func(s ciwrap.SRQ, wrs []ci.RecvWR) (int, error) {
				n, err := s.PostRecv(wrs)
				if err != nil {
					n = 0
				}
				return n, err
			}),
		post("srq.swallows", "CI-DestroySRQ-02", "a post to a destroyed queue succeeds",
			func(s ciwrap.SRQ, wrs []ci.RecvWR) (int, error) {
				n, err := s.PostRecv(wrs)
				if ci.StatusOf(err) == ci.InvalidSRQHandle {
					return len(wrs), nil
				}
				return n, err
			}),
		srq("srq.limit-twice", "CI-ModifySRQ-01", "the limit event is raised twice",
			ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
				deliver(e)
				if e.Type == ci.EventSRQLimit {
					deliver(e)
				}
			}}),
		modify("srq.limit-early", "CI-ModifySRQ-01", "the limit event is raised two entries early",
			func(s ciwrap.SRQ, set ci.SRQField, a ci.SRQAttr) error {
				if set == ci.SRQFieldLimit && a.Limit > 0 {
					a.Limit += 2
				}
				return s.Modify(set, a)
			}),
		modify("srq.any-field", "CI-ModifySRQ-03", "unknown fields are ignored",
			func(s ciwrap.SRQ, set ci.SRQField, a ci.SRQAttr) error {
				return s.Modify(set&(ci.SRQFieldMaxWR|ci.SRQFieldLimit), a)
			}),
		modify("srq.any-depth", "CI-ModifySRQ-02", "a depth below the number of posted entries is accepted",
			func(s ciwrap.SRQ, set ci.SRQField, a ci.SRQAttr) error {
				err := s.Modify(set, a)
				if ci.StatusOf(err) == ci.InvalidMaxWRs && a.MaxWR > 0 {
					return nil
				}
				return err
			}),
		srq("srq.no-last-wqe", "CI-LastWQE-01", "the event last WQE reached is never raised",
			ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
				if e.Type != ci.EventLastWQE {
					deliver(e)
				}
			}}),
		srq("srq.not-busy", "CI-DestroySRQ-01", "Destroy of a queue that a QP uses succeeds",
			ciwrap.Layer{SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ {
				return calmSRQ{ciwrap.SRQ{SRQ: s}}
			}}),
	}
}

// Objects returns mutants with faults in address vectors, the order of destruction, and limits.
func Objects() []Mutant {
	vector := func(name, breaks, does string, f func(ciwrap.AV) ci.AV) Mutant {
		return Of(name, breaks, does,
			tap.AVs(f)).Needing(ci.CapAV)
	}
	return []Mutant{
		vector("av.query-flow", "CI-QueryAV-01", "Query does not return the flow label",
			func(a ciwrap.AV) ci.AV { return flowless{a} }),
		vector("av.keeps-class", "CI-ModifyAV-02", "Modify does not change the traffic class",
			func(a ciwrap.AV) ci.AV { return classy{a} }),
		Of("av.not-in-callback", "CI-CreateAV-03", "a callback cannot create a vector", func(h ci.HCA) ci.HCA {
			var busy atomic.Int32
			return ciwrap.Wrap(h, ciwrap.Layer{
				Completion: func(arg any, deliver func(any)) { busy.Add(1); deliver(arg); busy.Add(-1) },
				PD:         func(p ci.PD, _ ci.PDType) ci.PD { return shyPD{ciwrap.PD{PD: p}, &busy} }})
		}).Needing(ci.CapAV),
		Of("order.pd", "SAS-2.3-26", "Destroy of a PD with children succeeds",
			tap.PDs(func(p ciwrap.PD) ci.PD { return calmPD{p} })),
		Of("order.cq", "SAS-2.3-26", "Destroy of a CQ in use succeeds",
			tap.CQs(func(c ciwrap.CQ) ci.CQ { return calmCQ{c} })),
		Of("order.dma", "SAS-2.3-26", "DMA.Destroy of memory in use succeeds",
			tap.DMAs(func(d ciwrap.DMA) ci.DMA { return calmDMA{d} })).Needing(ci.CapPhysicalMR),
		Of("limits.early", "SAS-0-05", "only 500 PDs can be allocated, whatever the attributes report",
			func(h ci.HCA) ci.HCA {
				var n atomic.Int32
				return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return fewPDs{ciwrap.CA{CA: c}, &n} },
					PD: func(p ci.PD, _ ci.PDType) ci.PD { return countedPD{ciwrap.PD{PD: p}, &n} }})
			}),
		Of("limits.leak", "SAS-0-05", "the table entries of destroyed regions are lost, and there are only 1500",
			func(h ci.HCA) ci.HCA {
				var n atomic.Int32
				return ciwrap.Wrap(h, ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
					return pdRegister{ciwrap.PD{PD: p}, func(c ci.MRCreate) (ci.MR, error) {
						if n.Add(1) > 1500 {
							return nil, exhausted
						}
						return p.RegisterMR(c)
					}}
				}})
			}),
		Of("limits.status", "CI-Limits-01", "allocating one PD too many returns InvalidParameter",
			tap.CAs(func(c ciwrap.CA) ci.CA { return vaguePDs{c} })),
	}
}

var exhausted = &ci.Error{Verb: "PD.RegisterMR", Status: ci.InsufficientResources}

type srqPoster struct {
	ciwrap.SRQ
	f func(s ciwrap.SRQ, wrs []ci.RecvWR) (int, error)
}

func (s srqPoster) PostRecv(wrs []ci.RecvWR) (int, error) { return s.f(s.SRQ, wrs) }

type srqModifier struct {
	ciwrap.SRQ
	f func(s ciwrap.SRQ, set ci.SRQField, a ci.SRQAttr) error
}

func (s srqModifier) Modify(set ci.SRQField, a ci.SRQAttr) error {
	return s.f(s.SRQ, set, a)
}

type firstComer struct {
	ciwrap.CQ
	mu  sync.Mutex
	ctx any
}

func (f *firstComer) Poll(wc []ci.WC) (int, error) {
	n, err := f.CQ.Poll(wc)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range wc[:n] {
		if f.ctx == nil {
			f.ctx = wc[i].Context
		}
		wc[i].Context = f.ctx
	}
	return n, err
}

type calmSRQ struct{ ciwrap.SRQ }

func (c calmSRQ) Destroy() error { return calm(c.SRQ.Destroy()) }

type calmPD struct{ ciwrap.PD }

func (c calmPD) Destroy() error { return calm(c.PD.Destroy()) }

type calmCQ struct{ ciwrap.CQ }

func (c calmCQ) Destroy() error { return calm(c.CQ.Destroy()) }

type flowless struct{ ciwrap.AV }

func (f flowless) Query() (ci.AVAttr, ci.PD, error) {
	x, pd, err := f.AV.Query()
	x.GRH.FlowLabel = 0
	return x, pd, err
}

type classy struct{ ciwrap.AV }

func (c classy) Modify(x ci.AVAttr) error {
	if old, _, err := c.Query(); err == nil {
		x.GRH.TrafficClass = old.GRH.TrafficClass
	}
	return c.AV.Modify(x)
}

type shyPD struct {
	ciwrap.PD
	busy *atomic.Int32
}

func (s shyPD) CreateAV(x ci.AVAttr) (ci.AV, error) {
	if s.busy.Load() > 0 {
		return nil, &ci.Error{Verb: "PD.CreateAV", Status: ci.InvalidState}
	}
	return s.PD.CreateAV(x)
}

type fewPDs struct {
	ciwrap.CA
	n *atomic.Int32
}

func (f fewPDs) AllocatePD(typ ci.PDType) (ci.PD, error) {
	if f.n.Load() >= 500 {
		return nil, &ci.Error{Verb: "CA.AllocatePD", Status: ci.InsufficientResources}
	}
	pd, err := f.CA.AllocatePD(typ)
	if err == nil {
		f.n.Add(1)
	}
	return pd, err
}

type countedPD struct {
	ciwrap.PD
	n *atomic.Int32
}

func (c countedPD) Destroy() error {
	err := c.PD.Destroy()
	if err == nil {
		c.n.Add(-1)
	}
	return err
}

type vaguePDs struct{ ciwrap.CA }

func (v vaguePDs) AllocatePD(typ ci.PDType) (ci.PD, error) {
	pd, err := v.CA.AllocatePD(typ)
	if ci.StatusOf(err) == ci.InsufficientResources {
		return nil, &ci.Error{Verb: "CA.AllocatePD", Status: ci.InvalidParameter}
	}
	return pd, err
}
