package mutant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// A Plan describes a self test.
type Plan struct {
	Catalog *validate.Catalog
	Driver  validate.Driver // the correct one
	Set     *Set
	Names   []string // globs over the names of mutants; empty means all
	All     bool     // run every case over each mutant, not only those of the broken requirement
	Cases   []string // globs: run only these cases, whatever requirements they name, and name all that catch
	// Quick limits All: of the cases that do not name the broken requirement, only those run that took no longer over
	// the correct driver, for maxElsewhere at most. 0 means all of them.
	Quick    time.Duration
	Setting  validate.Setting
	Whole    bool // a mutant that does not apply to the driver counts as escaped
	Workers  int  // number of mutants at the same time; 0 means Driver.DefaultWorkers
	Progress func(Outcome)
	// Spawn returns the command of a worker for the mutant of that name, or for the correct driver if the name is "".
	// If Spawn is nil, cases run in this process.
	Spawn func(ctx context.Context, s validate.Setting, mutant string) *exec.Cmd
}

// An Outcome is the result for one mutant.
type Outcome struct {
	Mutant  Mutant
	Caught  bool
	Skipped bool   // the fault has no effect over this driver, or none that the cases can see; Why has the reason
	By      string // id of the case that caught it
	Finding string // the failure of that case
	// Catchers are all cases that caught it, with All or Cases. Otherwise the first case that does ends the run.
	Catchers []string
	Others   []string // cases that failed for another reason
	Stray    string   // what the first of Others found
	// Ran is the number of cases that were run, and Elsewhere how many of them failed in each area to which no case of
	// the broken requirement belongs, without those that are inconclusive. The area of a case is the first word of its
	// id.
	Ran       int
	Elsewhere map[string]int
	Why       string // reason, if it was not caught
}

// A Result is the result of a self test.
type Result struct {
	Outcomes []Outcome
	Baseline *validate.Report // report on the correct driver
}

// Escaped returns the mutants that no case has caught.
func (r *Result) Escaped() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.Caught || o.Skipped })
}

// Skipped returns the mutants that do not apply to the driver.
func (r *Result) Skipped() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return !o.Skipped })
}

// Line returns the result in one line.
func (r *Result) Line() string {
	esc, skipped := r.Escaped(), len(r.Skipped())
	tested := len(r.Outcomes) - skipped
	not := ""
	if skipped > 0 {
		not = fmt.Sprintf("; not applicable to this driver: %d", skipped)
	}
	switch {
	case len(esc) == 0 && tested == 0:
		return "NOTHING TESTED" + not
	case len(esc) == 0:
		return fmt.Sprintf("SELF TEST PASSED: all %d mutants caught%s", tested, not)
	}
	names := make([]string, len(esc))
	for i, o := range esc {
		names[i] = o.Mutant.Name
	}
	return fmt.Sprintf("SELF TEST FAILED: %d of %d mutants escaped: %s%s", len(esc), tested, strings.Join(names, ", "),
		not)
}

// Self runs the plan. The mutants of a link and its settings run together. Before them, the cases of the requirements
// that they break run over the correct driver, because a case that fails there would catch any mutant. The cases that
// passed run over each mutant.
func Self(ctx context.Context, p Plan) (*Result, error) {
	list, err := p.choose()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.Driver.CheckWorkers(p.Workers), p.Driver.CheckSettings(p.Setting.Options)); err != nil {
		return nil, err
	}
	var keys []string
	groups := map[string][]int{}
	for i, m := range list {
		key := p.key(m)
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], i)
	}
	res := &Result{Outcomes: make([]Outcome, len(list))}
	for _, key := range keys {
		m := list[groups[key][0]]
		base, err := p.placed(m).runCorrect(ctx, list, key)
		if err != nil {
			return nil, err
		}
		if res.Baseline == nil || p.placed(m).Setting.Link == p.Setting.Link && len(m.Values) == 0 {
			res.Baseline = base.report
		}
		if err := p.runGroup(ctx, list, groups[key], base, res.Outcomes); err != nil {
			return nil, err
		}
	}
	return res, ctx.Err()
}

// runGroup runs the mutants with some indexes, and sets their outcomes. All of them have the same baseline.
func (p Plan) runGroup(ctx context.Context, list []Mutant, indexes []int, base baseline, to []Outcome) error {
	jobs := make(chan int)
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	var mu sync.Mutex
	workers := max(p.Workers, 0)
	if workers == 0 {
		workers = p.Driver.DefaultWorkers()
	}
	if p.Spawn == nil {
		workers = 1
	}
	for w := range workers {
		wg.Go(func() {
			for i := range jobs {
				if ctx.Err() != nil {
					continue
				}
				to[i], errs[i] = p.placed(list[i]).run(ctx, w, list[i], base)
				if p.Progress != nil && errs[i] == nil && ctx.Err() == nil {
					mu.Lock()
					p.Progress(to[i])
					mu.Unlock()
				}
			}
		})
	}
	for _, i := range indexes {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("mutant %s: %w", list[i].Name, err)
		}
	}
	return nil
}

// link returns the link that a mutant runs on: its own, if the driver has it.
func (p Plan) link(m Mutant) string {
	if m.Link != "" && slices.Contains(p.Driver.Links, m.Link) {
		return m.Link
	}
	return p.Setting.Link
}

// placed returns the plan with the link and the settings of a mutant.
func (p Plan) placed(m Mutant) Plan {
	p.Setting.Link = p.link(m)
	values := maps.Clone(p.Setting.Values)
	for k, v := range m.Values {
		if _, ok := p.Driver.Settings[k]; ok {
			if values == nil {
				values = map[string]string{}
			}
			values[k] = v
		}
	}
	p.Setting.Values = values
	return p
}

// key identifies the link and the settings of a mutant.
func (p Plan) key(m Mutant) string {
	at := p.placed(m).Setting
	return fmt.Sprint(at.Link, at.Values)
}

// baseline is the result of the correct driver on one link with certain settings.
type baseline struct {
	report  *validate.Report
	good    map[string]bool   // cases that have passed
	quick   map[string]bool   // those of them that are within Quick
	skipped map[string]string // reasons, of cases that were not run
}

// runCorrect runs cases over the correct driver: those of the requirements that the mutants with this key break.
func (p Plan) runCorrect(ctx context.Context, list []Mutant, key string) (b baseline, err error) {
	broken, hasCompound := map[string]bool{}, false
	for _, m := range list {
		if p.key(m) == key {
			broken[m.Breaks], hasCompound = true, hasCompound || m.Compound
		}
	}
	var ids []string
	for _, c := range p.Catalog.Cases() {
		proves := slices.ContainsFunc(c.Requirements, func(r string) bool { return broken[r] })
		if p.selects(c.ID) && (p.hasOnly() || p.All || hasCompound) || proves && !p.hasOnly() {
			ids = append(ids, c.ID)
		}
	}
	base := p.plan(p.Driver, "", ids)
	base.Workers = max(p.Workers, p.Driver.DefaultWorkers())
	rep, err := base.Run(ctx)
	if err != nil {
		return b, fmt.Errorf("the driver without a fault: %w", err)
	}
	if rep.Run.Unopened != "" {
		return b, fmt.Errorf("the driver without a fault: %w", &validate.DriverError{Text: rep.Run.Unopened})
	}
	if rep.Run.Stopped != "" {
		return b, fmt.Errorf("the driver without a fault: %s", rep.Run.Stopped)
	}
	b = baseline{rep, map[string]bool{}, map[string]bool{}, map[string]string{}}
	for i := range rep.Results {
		r := &rep.Results[i]
		b.good[r.Case] = r.Status == validate.Pass
		b.quick[r.Case] = b.good[r.Case] && (p.Quick == 0 || rep.Timing.Cases[r.Case] <= p.Quick.Seconds())
		if r.Status == validate.Skip {
			b.skipped[r.Case] = r.Reason
		}
	}
	return b, nil
}

func (p Plan) choose() ([]Mutant, error) {
	all := p.Set.All()
	if len(all) == 0 {
		return nil, &validate.NothingSelected{What: "the empty set of mutants"}
	}
	if len(p.Names) == 0 {
		return all, nil
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	for _, g := range p.Names {
		if !slices.ContainsFunc(names, func(n string) bool { ok, _ := path.Match(g, n); return ok }) {
			return nil, &validate.NothingSelected{What: fmt.Sprintf("%q", g), Nearest: validate.Nearest(g, names)}
		}
	}
	return slices.DeleteFunc(all, func(m Mutant) bool {
		return !slices.ContainsFunc(p.Names, func(g string) bool { ok, _ := path.Match(g, m.Name); return ok })
	}), nil
}

// hasOnly reports whether only the cases that Cases selects run.
func (p Plan) hasOnly() bool { return len(p.Cases) > 0 && !p.All }

// selects reports whether Cases selects a case.
func (p Plan) selects(id string) bool {
	return len(p.Cases) == 0 ||
		slices.ContainsFunc(p.Cases, func(g string) bool { ok, _ := path.Match(g, id); return ok })
}

// plan returns a plan that runs the cases over a driver.
func (p Plan) plan(d validate.Driver, mutant string, ids []string) validate.Plan {
	v := validate.Plan{
		Catalog: p.Catalog,
		Driver:  d,
		Setting: p.Setting,
		Select:  validate.Selection{Cases: ids},
		Command: []string{"self"},
	}
	if p.Spawn != nil {
		v.Spawn = func(ctx context.Context, s validate.Setting) *exec.Cmd { return p.Spawn(ctx, s, mutant) }
	}
	return v
}

// run runs a mutant.
func (p Plan) run(ctx context.Context, worker int, m Mutant, base baseline) (Outcome, error) {
	o := Outcome{Mutant: m, Elsewhere: map[string]int{}}
	if !claims(base.report, m.Needs) {
		o.Skipped, o.Why = !p.Whole, "the driver does not claim "+validate.CapNames(m.Needs)
		return o, nil
	}
	// Cases that prove the requirement run first, because the first of them catches most mutants.
	var prove, touch, others []string
	for _, c := range p.Catalog.Cases() {
		switch {
		case p.hasOnly() || m.Compound:
			if p.selects(c.ID) && base.good[c.ID] {
				prove = append(prove, c.ID)
			}
		case m.Case != "" && m.Case != c.ID:
			if p.All && base.quick[c.ID] && p.selects(c.ID) {
				others = append(others, c.ID)
			}
		case m.Hollow != 0:
			if c.Proves&m.Hollow != 0 && (base.good[c.ID] || !claims(base.report, c.Proves)) {
				prove = append(prove, c.ID)
			}
		case !base.good[c.ID]:
		case c.CanCharge(m.Breaks):
			prove = append(prove, c.ID)
		case slices.Contains(c.Requirements, m.Breaks):
			touch = append(touch, c.ID)
		case p.All && base.quick[c.ID] && p.selects(c.ID):
			others = append(others, c.ID)
		}
	}
	if m.Hollow != 0 && len(prove) == 0 && !p.hasOnly() { // a run of any case has the claims of the mutant
		prove = append(prove, "claims.profile")
	}
	own := p.areas(m)
	for i, ids := range [][]string{prove, touch, others} {
		if len(ids) == 0 || o.Caught && !p.All {
			continue
		}
		v := p.plan(m.Driver(p.Driver), m.Name, ids)
		v.Workers, v.FirstWorker, v.OneAttempt = 1, worker, true
		if !p.All && !p.hasOnly() || m.Compound {
			v.Until = m.isCaughtBy
		} else if began := time.Now(); i == 2 && p.Quick > 0 {
			v.Until = func(*validate.Result) bool { return time.Since(began) > maxElsewhere }
		}
		rep, err := v.Run(ctx)
		if err != nil {
			return o, err
		}
		if rep.Run.Unopened != "" {
			return o, &validate.DriverError{Text: rep.Run.Unopened}
		}
		for i := range rep.Results {
			r := &rep.Results[i]
			if r.Status != validate.Skip {
				o.Ran++
			}
			switch {
			case m.isCaughtBy(r) && (m.Case == "" || m.Case == r.Case || p.hasOnly()):
				if o.Catchers = append(o.Catchers, r.Case); !o.Caught {
					o.Caught, o.By, o.Finding = true, r.Case, r.Failures[0].String()
				}
			case r.Status == validate.Fail || r.Status == validate.Inconclusive || r.Status == validate.Error:
				if o.Others = append(o.Others, r.Case); len(o.Others) == 1 && len(r.Failures) > 0 {
					o.Stray = r.Case + ": " + r.Failures[0].Rule + ": " + r.Failures[0].String()
				}
				if a := areaOf(r.Case); !own[a] && r.Status != validate.Inconclusive {
					o.Elsewhere[a]++
				}
			}
		}
		o.withheld(rep)
	}
	switch {
	case o.Caught:
	case len(prove)+len(touch) == 0:
		if id, reason := p.allSkipped(m, base); id != "" {
			o.Skipped, o.Why = !p.Whole, fmt.Sprintf("the cases of %s are not run, such as %s: %s", m.Breaks, id,
				reason)
			break
		}
		o.Why = "no case of " + m.Breaks + " passes on the driver without the fault"
	case len(o.Others) > 0:
		o.Why = "cases failed, but none blamed " + m.Breaks + ": " + strings.Join(o.Others, ", ")
	default:
		o.Why = fmt.Sprintf("%d cases of %s passed", len(prove)+len(touch), m.Breaks)
	}
	return o, nil
}

// isCaughtBy reports whether a result of a case that passes over the correct driver catches the mutant.
func (m *Mutant) isCaughtBy(r *validate.Result) bool {
	return r.Blames(m.Breaks) || m.Compound && r.Status == validate.Fail
}

// maxElsewhere is how long Quick cases of other requirements run over a mutant.
const maxElsewhere = 30 * time.Second

// areas returns the areas of the cases that name the requirement which m breaks.
func (p Plan) areas(m Mutant) map[string]bool {
	own := map[string]bool{}
	for _, c := range p.Catalog.Cases() {
		if c.Proves&m.Hollow != 0 || slices.Contains(c.Requirements, m.Breaks) {
			own[areaOf(c.ID)] = true
		}
	}
	return own
}

func areaOf(id string) string {
	area, _, _ := strings.Cut(id, ".")
	return area
}

// allSkipped returns a case that could catch a mutant, and why it was not run over the correct driver, if none of those
// cases was run.
func (p Plan) allSkipped(m Mutant, base baseline) (id, reason string) {
	for _, c := range p.Catalog.Cases() {
		if m.Case != "" && m.Case != c.ID || !slices.Contains(c.Requirements, m.Breaks) {
			continue
		}
		why, isSkipped := base.skipped[c.ID]
		if !isSkipped {
			return "", ""
		}
		if id == "" {
			id, reason = c.ID, why
		}
	}
	return id, reason
}

// withheld sets the outcome if a hollow claim was not tested although all cases that prove it were run. The verdict
// then names the claim.
func (o *Outcome) withheld(rep *validate.Report) {
	for _, x := range rep.Claims {
		if !o.Caught && x.State == validate.ClaimNotTested &&
			slices.Contains(validate.CapList(o.Mutant.Hollow), x.Name) {
			o.Caught, o.By, o.Finding = true, "the verdict", "claimed and not tested: "+x.Name+": "+x.Why
		}
	}
}

// claims reports whether the target of a report claims all of want.
func claims(rep *validate.Report, want ci.Caps) bool {
	if rep.Identity == nil {
		return false
	}
	for _, name := range validate.CapList(want) {
		if !slices.Contains(rep.Identity.Claims, name) {
			return false
		}
	}
	return true
}
