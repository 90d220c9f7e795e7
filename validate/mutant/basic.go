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
		Of("open.any-guid", "SAS-2.1-27", "OpenCA opens the adapter for any GUID",
			tap.Layer(ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return anyGUID{ciwrap.HCA{HCA: h}} }})),
		Of("open.zero-guid", "CI-OpenCA-01", "OpenCA returns NotFound for GUID zero",
			tap.Layer(ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return zeroGUID{ciwrap.HCA{HCA: h}} }})),
		Of("query.shared", "CI-QueryCA-03", "Query returns the same snapshot to all callers",
			tap.CAs(func(c ciwrap.CA) ci.CA { return &oneSnapshot{CA: c} })),
		Of("query.claims-sl", "CI-Claims-01", "the claim of SLForIP is inverted",
			tap.CAs(func(c ciwrap.CA) ci.CA { return flippedClaim{c} })),
		Of("pd.destroy-twice", "CI-DeallocatePD-02", "a PD can be destroyed more than once",
			tap.PDs(func(p ciwrap.PD) ci.PD { return eternalPD{p} })),
		Of("cq.zero-size", "CI-CreateCQ-02", "CreateCQ creates a CQ of one entry for a size of 0",
			tap.Layer(ciwrap.Layer{CQCreate: func(c ci.CQCreate) ci.CQCreate {
				if c.Size == 0 {
					c.Size = 1
				}
				return c
			}})),
		Of("cq.poll-writes", "CI-PollCQ-01", "Poll of an empty CQ clears the first entry",
			tap.CQs(func(c ciwrap.CQ) ci.CQ { return scribbler{c} })),
		Of("qp.same-number", "CI-CreateQP-02", "every QP reports the number 5",
			tap.QPs(func(q ciwrap.QP) ci.QP { return five{q} })),
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
