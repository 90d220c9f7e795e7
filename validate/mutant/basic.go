package mutant

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Basic returns mutants with faults in opening, queries, protection domains and the creation of queues.
func Basic() []Mutant {
	return []Mutant{
		{Name: "open.any-guid", Area: "open", Breaks: "SAS-2.1-27", Does: "OpenCA opens the adapter for any GUID",
			Wrap: tap.Layer(ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return anyGUID{ciwrap.HCA{HCA: h}} }})},
		{Name: "open.zero-guid", Area: "open", Breaks: "CI-OpenCA-01", Does: "OpenCA returns NotFound for GUID zero",
			Wrap: tap.Layer(ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return zeroGUID{ciwrap.HCA{HCA: h}} }})},
		{
			Name:   "query.shared",
			Area:   "query",
			Breaks: "CI-QueryCA-03",
			Does:   "Query returns the same snapshot to all callers",
			Wrap:   tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &oneSnapshot{CA: ciwrap.CA{CA: c}} }}),
		},
		{
			Name:   "query.claims-sl",
			Area:   "claims",
			Breaks: "CI-Claims-01",
			Does:   "the claim of SLForIP is inverted",
			Wrap:   tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return flippedClaim{ciwrap.CA{CA: c}} }}),
		},
		{
			Name:   "pd.destroy-twice",
			Area:   "pd",
			Breaks: "CI-DeallocatePD-02",
			Does:   "a PD can be destroyed more than once",
			Wrap: tap.Layer(
				ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return eternalPD{ciwrap.PD{PD: p}} }},
			),
		},
		{
			Name:   "cq.zero-size",
			Area:   "cq",
			Breaks: "CI-CreateCQ-02",
			Does:   "CreateCQ creates a CQ of one entry for a size of 0",
			Wrap: tap.Layer(ciwrap.Layer{CQCreate: func(c ci.CQCreate) ci.CQCreate {
				if c.Size == 0 {
					c.Size = 1
				}
				return c
			}}),
		},
		{
			Name:   "cq.poll-writes",
			Area:   "cq",
			Breaks: "CI-PollCQ-01",
			Does:   "Poll of an empty CQ clears the first entry",
			Wrap: tap.Layer(
				ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return scribbler{ciwrap.CQ{CQ: c}} }},
			),
		},
		{Name: "qp.same-number", Area: "qp", Breaks: "CI-CreateQP-02", Does: "every QP reports the number 5",
			Wrap: tap.Layer(ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return five{ciwrap.QP{QP: q}} }})},
	}
}

type anyGUID struct{ ciwrap.HCA }

func (a anyGUID) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	if guid != 0 {
		guid = a.Info().GUID
	}
	return a.HCA.OpenCA(guid, fn, arg)
}

type zeroGUID struct{ ciwrap.HCA }

func (z zeroGUID) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	if guid == 0 {
		return nil, &ci.Error{Verb: "HCA.OpenCA", Status: ci.NotFound}
	}
	return z.HCA.OpenCA(guid, fn, arg)
}

type oneSnapshot struct {
	ciwrap.CA
	once sync.Once
	attr *ci.CAAttr
	err  error
}

func (o *oneSnapshot) Query() (*ci.CAAttr, error) {
	o.once.Do(func() { o.attr, o.err = o.CA.Query() })
	return o.attr, o.err
}

type flippedClaim struct{ ciwrap.CA }

func (f flippedClaim) Query() (*ci.CAAttr, error) {
	a, err := f.CA.Query()
	if err == nil {
		a.Caps ^= ci.CapSLForIP
	}
	return a, err
}

type eternalPD struct{ ciwrap.PD }

func (e eternalPD) Destroy() error {
	err := e.PD.Destroy()
	if ci.StatusOf(err) == ci.InvalidPDHandle {
		return nil
	}
	return err
}

type scribbler struct{ ciwrap.CQ }

func (s scribbler) Poll(wc []ci.WC) (int, error) {
	n, err := s.CQ.Poll(wc)
	if n == 0 && len(wc) > 0 {
		wc[0] = ci.WC{}
	}
	return n, err
}

type five struct{ ciwrap.QP }

func (five) Num() ci.QPN { return 5 }
