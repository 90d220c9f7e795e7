package validate

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"ciddk/validate/req"
)

// A Plan describes a run: which cases, on which driver, and how.
type Plan struct {
	Catalog *Catalog
	Driver  Driver
	Select  Selection
	Setting Setting // Run sets Worker and Run
	Waivers []Waiver

	FirstWorker int                // number of the first worker, for plans that run at the same time
	Workers     int                // number of worker processes at the same time; 0: Driver.DefaultWorkers
	Repeat      int                // number of attempts of each case; 0: 1
	Shuffle     bool               // run the cases in an order that follows from the seed
	FailFast    bool               // stop at the first decisive failure
	Strict      bool               // failures of SHOULD deny the certificate, too
	OneAttempt  bool               // do not run a failed case again; for self tests, whose drivers have faults
	Until       func(*Result) bool // the run stops when it returns true for a result; may be nil
	Command     []string           // command line, for the report
	Again       []string           // words that run the plan again, without a selection of cases; for the report
	Test        string             // name of the test that runs the plan, for the report
	Progress    func(Progress)     // called from one goroutine at a time; may be nil
	Now         func() time.Time   // nil: time.Now

	// Spawn returns the command of a worker process that has not been started. Its program calls ServeWorker. The plan
	// sets its standard input, output and error. If Spawn is nil, cases run in this process. A panic on a goroutine of
	// the driver then ends the process, and a hang leaves its goroutines behind.
	Spawn func(ctx context.Context, s Setting) *exec.Cmd
}

// Progress is an event of a run. One of Started, Result and Identity is set.
type Progress struct {
	Total, Done int
	Worker      int
	Started     *Case     // a case has begun
	Result      *Result   // a case has ended; waivers are not applied yet
	Identity    *Identity // the first target is open
}

// job is one attempt of one case.
type job struct {
	c       *Case
	attempt int     // from 1, with Plan.Repeat
	rerun   int     // how often this attempt was run before because it failed
	stretch float64 // factor of the case's timeouts; 0 means 1
	bare    bool    // run without captures, to find only what the case leaves behind
}

// timeout returns the time limit of the job.
func (j job) timeout(s Setting) time.Duration {
	d := s.CaseTimeout(j.c)
	if j.stretch > 0 {
		d = time.Duration(float64(d) * j.stretch)
	}
	return d
}

// A runner runs jobs one after another; each worker has one. fresh makes the next job start with a new process or
// target. close releases what the runner holds.
type runner interface {
	run(ctx context.Context, j job) Result
	fresh(ctx context.Context)
	close(ctx context.Context)
}

// Run executes the plan and returns its report. The error is a *NothingSelected if no case is selected and a
// *DriverError if the driver cannot be opened. Run also returns an error if the driver does not support the plan. If
// the context ends the run, the report has RunInfo.Stopped set.
func (p *Plan) Run(ctx context.Context) (*Report, error) {
	now := p.Now
	if now == nil {
		now = time.Now
	}
	cases, err := p.Catalog.Select(p.Select)
	if err != nil {
		return nil, err
	}
	if p.Setting.Link, err = p.Driver.LinkOr(p.Setting.Link); err != nil {
		return nil, err
	}
	if err := errors.Join(p.Driver.CheckWorkers(p.Workers), p.Driver.CheckSettings(p.Setting.Options)); err != nil {
		return nil, err
	}
	profile, ok := FindProfile(p.Setting.Profile)
	if !ok {
		return nil, fmt.Errorf("no profile %q", p.Setting.Profile)
	}
	rep := &Report{
		Schema: ReportSchema, Tool: thisTool(), Host: thisHost(),
		Requirements: p.Catalog.Coverage(), Waivers: p.Waivers,
		Run: RunInfo{
			Command: p.Command, Again: p.Again, Test: p.Test, Driver: p.Driver.Name, Profile: profile.Name,
			Link: p.Setting.Link,
			Seed: p.Setting.Seed, Shuffle: p.Shuffle, Strict: p.Strict, Selected: len(cases), All: len(p.Catalog.cases),
		},
	}
	if p.Repeat > 1 {
		rep.Run.Repeat = p.Repeat
	}
	if p.Select.Of > 1 {
		rep.Run.Shard = fmt.Sprintf("%d/%d", p.Select.Shard, p.Select.Of)
	}
	begin := now()
	s := &session{p: p, rep: rep, results: map[string][]Result{}}
	var jobs []job
	for _, c := range cases {
		if !profile.Has(c.Feature) {
			r := p.blank(c)
			r.Status, r.Reason = Skip, fmt.Sprintf("feature %s is not in profile %s", c.Feature, profile.Name)
			s.results[c.ID] = []Result{r}
			continue
		}
		for a := range max(p.Repeat, 1) {
			jobs = append(jobs, job{c: c, attempt: a + 1})
		}
	}
	if len(jobs) == 0 {
		return nil, &NothingSelected{What: "the selection within profile " + profile.Name}
	}
	if p.Shuffle {
		jobs = shuffled(jobs, p.Setting.Seed)
	}
	s.numTotal = len(jobs)
	if err := s.work(ctx, jobs); err != nil {
		return nil, err
	}
	s.fillUnopened(cases)
	for _, c := range cases {
		if rs := s.results[c.ID]; len(rs) > 0 {
			rep.Results = append(rep.Results, merge(rs))
		}
	}
	rep.Remarks = append(rep.Remarks, p.Catalog.applyWaivers(rep.Results, p.Waivers, now())...)
	rep.Remarks = append(rep.Remarks, remarkLosses(rep.Results)...)
	rep.Identity = s.identity
	rep.Timing = Timing{
		Started: begin.UTC().Format(time.RFC3339), Elapsed: now().Sub(begin).Seconds(),
		Workers: s.numWorkers, Deaths: s.numDeaths, Cases: map[string]float64{},
	}
	for id, rs := range s.results {
		for _, r := range rs {
			rep.Timing.Cases[id] += time.Duration(r.Elapsed).Seconds()
		}
	}
	if s.identity != nil {
		rep.Claims = claimsOf(p.Catalog, s.identity.caps(), rep.Results)
		rep.Untested = rep.untested()
	}
	rep.setVerdict()
	return rep, nil
}

func (p *Plan) blank(c *Case) Result {
	rq, _ := p.Catalog.Requirement(c.Proven())
	return Result{
		Case: c.ID, Title: c.Title, Feature: c.Feature, Requirement: rq.ID, Level: rq.Level, Section: rq.Section,
	}
}

// session is the state that the workers of a run share.
type session struct {
	p          *Plan
	numTotal   int // jobs of the run
	numWorkers int

	alone       sync.RWMutex // locked for writing while a job runs with no other beside it
	numHopeless int          // cases that lost their traffic in every attempt; guarded by alone

	mu        sync.Mutex
	rep       *Report
	results   map[string][]Result
	identity  *Identity
	numDone   int // jobs that have ended
	numDeaths int // worker processes that have died
	fatal     error
	unopened  unopened
}

// work passes the jobs to the workers. It returns when all jobs are done or the run has been stopped.
func (s *session) work(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.numWorkers = s.p.Workers
	if s.numWorkers <= 0 {
		s.numWorkers = s.p.Driver.DefaultWorkers()
	}
	s.numWorkers = min(s.numWorkers, len(jobs))
	if s.p.Spawn == nil {
		s.numWorkers = 1 // one process, and one target at a time
	}
	queue := make(chan job)
	var wg sync.WaitGroup
	for i := range s.numWorkers {
		wg.Go(func() {
			r := s.runner(i)
			defer r.close(ctx)
			for j := range queue {
				s.notify(Progress{Worker: i, Started: j.c})
				res := s.settle(ctx, r, j)
				if ctx.Err() != nil && res.Status != Pass {
					continue // the run was interrupted, so this is no result of the case
				}
				res.clearDoubts()
				s.finish(i, res, cancel)
			}
		})
	}
feed:
	for _, j := range jobs {
		select {
		case queue <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fatal != nil {
		return s.fatal
	}
	if ctx.Err() != nil && s.rep.Run.Stopped == "" {
		s.rep.Run.Stopped = stoppedByContext
	}
	return nil
}

func (s *session) runner(i int) runner {
	set := s.p.Setting
	set.Worker = s.p.FirstWorker + i
	if s.p.Spawn == nil {
		return &localRunner{s: s, set: set}
	}
	return &processRunner{s: s, set: set}
}

// finish records a result. If no target could be opened at all, it ends the run, since all other cases would fail in
// the same way.
func (s *session) finish(worker int, r Result, stop func()) {
	s.mu.Lock()
	s.numDone++
	s.results[r.Case] = append(s.results[r.Case], r)
	switch {
	case r.Status == Error && s.identity == nil && s.fatal == nil:
		s.fatal = &DriverError{Text: r.Reason}
		if r.Unopened && s.numWorkers > 1 {
			s.fatal = &DriverError{Text: r.Reason + "\n" + sharedHint(s.numWorkers)}
		}
		stop()
	case s.unopened.add(&r):
		s.rep.Run.Stopped, s.rep.Run.Unopened = stoppedUnopened, s.unopened.explain(s.numWorkers)
		stop()
	case s.p.FailFast && s.rep.Decisive(&r) && !s.waived(r.Case):
		s.rep.Run.Stopped = "first failure: " + r.Case
		stop()
	case s.p.Until != nil && s.p.Until(&r):
		s.rep.Run.Stopped = "found: " + r.Case
		stop()
	}
	s.mu.Unlock()
	s.notify(Progress{Worker: worker, Result: &r})
}

// amend adds a failure to the last result of a case that was thought to have ended. earlier are other cases that may
// have caused it.
func (s *session) amend(id string, f Failure, earlier []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := s.results[id]
	if len(rs) == 0 {
		return
	}
	r := &rs[len(rs)-1]
	f.Rule = r.Requirement
	r.Earlier = earlier
	r.blame(f)
}

func (s *session) waived(id string) bool {
	for _, w := range s.p.Waivers {
		if glob(w.Pattern, id) {
			return true
		}
	}
	return false
}

func (s *session) opened(id *Identity) {
	s.mu.Lock()
	first := s.identity == nil
	if first {
		s.identity = id
	} else {
		s.identity.Impair = s.identity.Impair || id.Impair // only targets opened with Options.Impair can
		for _, name := range id.Claims {                   // each claim of any target has to be tested
			if !slices.Contains(s.identity.Claims, name) {
				s.identity.Claims = append(s.identity.Claims, name)
			}
		}
	}
	s.mu.Unlock()
	if first {
		s.notify(Progress{Identity: id})
	}
}

func (s *session) died() {
	s.mu.Lock()
	s.numDeaths++
	s.mu.Unlock()
}

func (s *session) notify(p Progress) {
	if s.p.Progress == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Total, p.Done = s.numTotal, s.numDone
	s.p.Progress(p)
}

// merge returns the worst result of a case's attempts. If only some attempts failed, the result says how many.
func merge(rs []Result) Result {
	rank := map[Status]int{Skip: 0, Pass: 1, Inconclusive: 2, Flaky: 3, Fail: 4, Error: 5}
	worst := 0
	bad, passed := 0, 0
	for i, r := range rs {
		if rank[r.Status] > rank[rs[worst].Status] {
			worst = i
		}
		switch r.Status {
		case Fail, Flaky, Inconclusive, Error:
			bad++
		case Pass:
			passed++
		}
	}
	out := rs[worst]
	if len(rs) == 1 {
		out.Attempt = 0
		return out
	}
	if bad > 0 && bad < len(rs) {
		out.Flaky = fmt.Sprintf("%d of %d attempts failed", bad, len(rs))
	}
	if out.Status == Fail && passed > 0 {
		out.Status = Flaky
	}
	return out
}

// localRunner runs cases in this process.
type localRunner struct {
	s   *session
	set Setting
	e   *executor
	// spoiledBy is the case that hung in the last executor.
	spoiledBy string
}

func (l *localRunner) run(ctx context.Context, j job) Result {
	if l.e == nil {
		e, err := newExecutor(l.s.p.Catalog, l.s.p.Driver, l.set)
		if err != nil {
			r := l.s.p.blank(j.c)
			r.Status, r.Reason = Error, err.Error()
			return r
		}
		e.onOpen, e.spoiledBy = l.s.opened, l.spoiledBy
		l.e = e
	}
	e := l.e
	done := make(chan Result, 1)
	began := make(chan struct{}, 1)
	e.onBegin = func() {
		select {
		case began <- struct{}{}:
		default: // the receiver has not taken the last one, or has returned
		}
	}
	go func() { done <- e.run(ctx, j) }()
	hangs := make(chan struct{})
	dog := NewWatchdog(l.set.patience(openTimeout+hangGrace), func() { close(hangs) })
	defer dog.Stop()
	for {
		select {
		case r := <-done:
			return r
		case <-began:
			dog.Reset(j.timeout(l.set) + l.set.patience(hangGrace))
		case <-hangs:
			l.e, l.spoiledBy = nil, j.c.ID // its goroutines are left behind, because nothing can end them
			r := hung(l.s.p.blank(j.c), allStacks(), j.timeout(l.set))
			e.stalls.Load().read(&r.conditions)
			return r
		case <-ctx.Done():
			select {
			case r := <-done: // the case has ended because of the interrupt
				return r
			case <-time.After(interruptGrace):
			}
			l.e = nil
			r := l.s.p.blank(j.c)
			r.Status, r.Reason = Error, stoppedByContext
			return r
		}
	}
}

func (l *localRunner) fresh(ctx context.Context) {
	if l.e != nil {
		_ = l.e.drop(ctx) // the target of a failed case was closed before
	}
}

func (l *localRunner) close(ctx context.Context) {
	if l.e != nil {
		_ = l.e.drop(ctx) // closes a kept target; others were closed with their cases
	}
}

// interruptGrace limits the time that an interrupted case in this process may take to end.
const interruptGrace = time.Second

// hung returns the result of a case that did not end in time.
func hung(r Result, stacks string, limit time.Duration) Result {
	r.Status = Fail
	r.Failures = append(r.Failures, Failure{
		Rule: r.Requirement, Where: "the whole case", Expected: fmt.Sprintf("an end within %v", limit), Got: "hang",
		Cause: CauseHang, Stacks: stacks,
	})
	return r
}

// LevelOf returns the level of the requirement that a case proves.
func (c *Catalog) LevelOf(cs *Case) req.Level {
	r, _ := c.book.Get(cs.Proven())
	return r.Level
}

// IsNothing reports whether err is a *NothingSelected.
func IsNothing(err error) bool {
	var n *NothingSelected
	return errors.As(err, &n)
}
