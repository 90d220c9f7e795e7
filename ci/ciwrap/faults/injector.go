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
	Status ci.Status // wrapped in an *ci.Error; with Success, the rule only calls Hook
	Err    error     // instead of Status, for an error with more in it (ci.Error.Most, an error of another package)

	Skip        uint64  // number of calls that pass first
	Count       uint64  // number of calls after them that may fail; 0 = no limit
	Probability float64 // that each of those fails, above 0 up to 1; 0 = every one fails

	// Hook runs on the caller's goroutine when the rule applies, before the verb returns (or reaches the driver, if the
	// rule has no error). It may block, which holds the verb. n counts the calls of this rule's Hook from 1.
	Hook func(n uint64)
}

// Injector holds rules, and counts calls. New creates it.
type Injector struct {
	seed  uint64
	mu    sync.Mutex // writers of rules; added
	added uint64
	rules [verbCount]atomic.Pointer[[]*Fault]
	calls [verbCount]atomic.Uint64
}

// New returns an injector without rules. seed is that of the random source for Probability.
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

// Add puts a rule in force. Of several rules for a verb, the first that applies decides; those after it do not see the
// call. Add returns InvalidParameter for an unknown verb or a probability outside 0 to 1.
func (in *Injector) Add(r Rule) (*Fault, error) {
	v, ok := verbNamed(r.Verb)
	if !ok {
		return nil, fmt.Errorf("faults: no verb %q, see faults.Verbs: %w", r.Verb, ci.InvalidParameter)
	}
	if !(r.Probability >= 0 && r.Probability <= 1) {
		return nil, fmt.Errorf("faults: probability %v of %s is not within 0 and 1: %w", r.Probability, r.Verb,
			ci.InvalidParameter)
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

// MustAdd is like Add, for tests: it panics where Add returns an error.
func (in *Injector) MustAdd(r Rule) *Fault {
	f, err := in.Add(r)
	if err != nil {
		panic(err)
	}
	return f
}

// edit replaces the rules of v by a changed copy, or by nil if none are left.
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

// Remove removes the rule. A second Remove does nothing.
func (f *Fault) Remove() {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	f.in.edit(f.v, func(fs []*Fault) []*Fault { return slices.DeleteFunc(fs, func(g *Fault) bool { return g == f }) })
}

// Struck returns how often the rule made its verb fail or called its Hook.
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

// Calls returns the number of calls of a verb, failed ones included; for posts, the number of work requests.
func (in *Injector) Calls(name string) uint64 {
	v, ok := verbNamed(name)
	if !ok {
		return 0
	}
	return in.calls[v].Load()
}

// strike counts a call, and returns the error of the rule that applies to it. It does not allocate.
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

// hit returns the number of the strike, or 0 for none.
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

// strikes counts n work requests in order. It returns how many may reach the driver, and the error of the next.
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

// Wrap returns an HCA with the injector in front. HCAs that have one injector share its rules and counts.
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
