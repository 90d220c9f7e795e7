package almutants

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/alsuite"
)

// belowFaults are faults that the cases see together with those that they cause themselves.
func belowFaults() []mutant.Mutant {
	return []mutant.Mutant{
		fault("al.loses-a-receive", alsuite.CIPump04, "Poll drops the tenth completion of a CQ", loses(10)),
		fault("al.loses-another-receive", alsuite.CIPump05, "Poll drops the tenth completion of a CQ", loses(10)),
		fault("al.loses-a-third-receive", alsuite.CIPump06, "Poll drops the fifth completion of a CQ", loses(5)),
	}
}

// opens is an adapter that can be opened so many times, of which the certifier needs one for the claims.
func opens(most int32) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		n := &atomic.Int32{}
		return ciwrap.Wrap(h,
			ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return fewOpens{ciwrap.HCA{HCA: h}, n, most} }})
	}
}

// loses returns a layer that drops the nth completion of each CQ.
func loses(nth int32) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
		return &losingCQ{CQ: ciwrap.CQ{CQ: c}, nth: nth}
	}})
}

// losingCQ drops its nth completion.
type losingCQ struct {
	ciwrap.CQ
	nth int32
	n   atomic.Int32
}

func (q *losingCQ) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	if before := q.n.Add(int32(n)) - int32(n); before < q.nth && before+int32(n) >= q.nth {
		at := int(q.nth - 1 - before)
		n = at + copy(wc[at:n], wc[at+1:n])
	}
	return n, err
}
