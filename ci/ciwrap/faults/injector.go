package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// Rule makes calls of one verb fail.
type Rule struct {
	Verb   string    // one of Verbs()
	Status ci.Status // wrapped in an *ci.Error; Success makes a rule that only calls Hook
	Err    error     // instead of Status, if the error must carry more (ci.Error.Most, a stranger's error)

	Skip        uint64  // so many calls pass first
	Count       uint64  // then so many may fail; 0: no end
	Probability float64 // of each of those to fail, above 0 to 1; 0: every one

	// Hook runs on the caller's goroutine when the rule strikes, before the verb returns (or goes on to the driver, if there is
	// nothing to fail with). It may block, to hold the verb there. n counts the strikes of this rule from 1.
	Hook func(n uint64)
}

// Injector holds rules, and counts calls. Make it with New.
type Injector struct {
	seed  uint64
	mu    sync.Mutex // writers of rules; added
	added uint64
	rules [verbCount]atomic.Pointer[[]*Fault]
	calls [verbCount]atomic.Uint64
}

// New returns an injector without rules; seed decides what Probability does.
func New(seed uint64) *Injector { return &Injector{seed: seed} }

// Fault is a rule in force.
type Fault struct {
	in   *Injector
	v    verb
	rule Rule
	err  error

	mu     sync.Mutex
	seen   uint64
	struck uint64
	rnd    *rand.Rand
}

// Add puts a rule in force. Of several rules for a verb, the first that strikes decides; those after it do not see the call.
// It fails with InvalidParameter for an unknown verb or a probability that is none.
func (in *Injector) Add(r Rule) (*Fault, error) {
	v, ok := verbNamed(r.Verb)
	if !ok {
		return nil, fmt.Errorf("faults: no verb %q, see faults.Verbs: %w", r.Verb, ci.InvalidParameter)
	}
	if !(r.Probability >= 0 && r.Probability <= 1) {
		return nil, fmt.Errorf("faults: probability %v of %s is not within 0 and 1: %w", r.Probability, r.Verb, ci.InvalidParameter)
	}
	f := &Fault{in: in, v: v, rule: r, err: r.Err}
	if f.err == nil && r.Status != ci.Success {
		f.err = &ci.Error{Verb: r.Verb, Status: r.Status, Detail: "injected"}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.added++
	f.rnd = rand.New(rand.NewPCG(in.seed, in.added))
	in.edit(v, func(fs []*Fault) []*Fault { return append(fs, f) })
	return f, nil
}

// MustAdd is Add for tests: it panics on a rule that Add refuses.
func (in *Injector) MustAdd(r Rule) *Fault {
	f, err := in.Add(r)
	if err != nil {
		panic(err)
	}
	return f
}

// edit replaces the rules of v by a changed copy, nil when none are left.
func (in *Injector) edit(v verb, change func([]*Fault) []*Fault) {
	var fs []*Fault
	if p := in.rules[v].Load(); p != nil {
		fs = slices.Clone(*p)
	}
	if fs = change(fs); len(fs) == 0 {
		in.rules[v].Store(nil)
		return
	}
	in.rules[v].Store(&fs)
}

// Remove takes the rule out of force. A second Remove does nothing.
func (f *Fault) Remove() {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	f.in.edit(f.v, func(fs []*Fault) []*Fault { return slices.DeleteFunc(fs, func(g *Fault) bool { return g == f }) })
}

// Struck tells how often the rule made its verb fail (or called its Hook).
func (f *Fault) Struck() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// Clear removes all rules.
func (in *Injector) Clear() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for v := range in.rules {
		in.rules[v].Store(nil)
	}
}

// Calls tells how often a verb was called (for posts: how many work requests were offered), failed calls included.
func (in *Injector) Calls(name string) uint64 {
	v, ok := verbNamed(name)
	if !ok {
		return 0
	}
	return in.calls[v].Load()
}

// strike counts a call and decides its fate. It does not allocate.
func (in *Injector) strike(v verb) error {
	in.calls[v].Add(1)
	p := in.rules[v].Load()
	if p == nil {
		return nil
	}
	for _, f := range *p {
		if n := f.hit(); n != 0 {
			if f.rule.Hook != nil {
				f.rule.Hook(n)
			}
			if f.err != nil {
				return f.err
			}
		}
	}
	return nil
}

// hit returns the number of the strike, or 0.
func (f *Fault) hit() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.seen <= f.rule.Skip || f.rule.Count != 0 && f.struck >= f.rule.Count {
		return 0
	}
	if p := f.rule.Probability; p != 0 && f.rnd.Float64() >= p {
		return 0
	}
	f.struck++
	return f.struck
}

// strikes decides on n work requests in order: how many may go on, and why the next may not.
func (in *Injector) strikes(v verb, n int) (int, error) {
	if in.rules[v].Load() == nil {
		in.calls[v].Add(uint64(n))
		return n, nil
	}
	for i := range n {
		if err := in.strike(v); err != nil {
			return i, err
		}
	}
	return n, nil
}

// Wrap puts the injector in front of an HCA. One injector may stand in front of several; they share rules and counts.
func (in *Injector) Wrap(hca ci.HCA) ci.HCA { return ciwrap.Wrap(hca, in.layer()) }

func (in *Injector) layer() ciwrap.Layer {
	return ciwrap.Layer{
		HCA:          func(o ci.HCA) ci.HCA { return &hca{ciwrap.HCA{HCA: o}, in} },
		CA:           func(o ci.CA) ci.CA { return &ca{ciwrap.CA{CA: o}, in} },
		UserCA:       func(o ci.UserCA, _ ci.Process) ci.UserCA { return &userCA{ciwrap.UserCA{UserCA: o}, in} },
		PD:           func(o ci.PD, _ ci.PDType) ci.PD { return &pd{ciwrap.PD{PD: o}, in} },
		AV:           func(o ci.AV, _ ci.AVAttr) ci.AV { return &av{ciwrap.AV{AV: o}, in} },
		CQ:           func(o ci.CQ, _ ci.CQCreate) ci.CQ { return &cq{ciwrap.CQ{CQ: o}, in} },
		SRQ:          func(o ci.SRQ, _ ci.SRQCreate) ci.SRQ { return &srq{ciwrap.SRQ{SRQ: o}, in} },
		QP:           func(o ci.QP, _ ci.QPCreate) ci.QP { return &qp{ciwrap.QP{QP: o}, in} },
		Mcast:        func(o ci.Mcast, _ ci.McastAttach) ci.Mcast { return &mcast{ciwrap.Mcast{Mcast: o}, in} },
		MR:           func(o ci.MR, _ ciwrap.MROrigin) ci.MR { return &mr{ciwrap.MR{MR: o}, in} },
		FMR:          func(o ci.FMR, _ ci.FMRCreate) ci.FMR { return &fmr{ciwrap.FMR{FMR: o}, in} },
		MW:           func(o ci.MW, _ ci.MWCreate) ci.MW { return &mw{ciwrap.MW{MW: o}, in} },
		RDD:          func(o ci.RDD) ci.RDD { return &rdd{ciwrap.RDD{RDD: o}, in} },
		EEC:          func(o ci.EEC, _ ci.EECCreate) ci.EEC { return &eec{ciwrap.EEC{EEC: o}, in} },
		DMA:          func(o ci.DMA, _ ci.Memory) ci.DMA { return &dma{ciwrap.DMA{DMA: o}, in} },
		EventHandler: func(o ci.Object) ci.Object { return &handler{ciwrap.Object{Object: o}, in} },
	}
}
