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

// Plan is a run: what, on which driver, and how.
type Plan struct {
	Catalog *Catalog
	Driver  Driver
	Select  Selection
	Setting Setting // Worker and Run are filled in
	Waivers []Waiver

	FirstWorker int                // number of the first worker, where several plans run at the same time
	Workers     int                // processes at the same time; 0: Driver.DefaultWorkers
	Repeat      int                // attempts of each case; 0: 1
	Shuffle     bool               // order by seed
	FailFast    bool               // stop at the first decisive failure
	Strict      bool               // SHOULD counts as MUST
	OneAttempt  bool               // a case that fails is not run again: for self tests, whose drivers are wrong on purpose
	Until       func(*Result) bool // stops the run when a result is what was looked for; may be nil
	Command     []string           // for the report
	Test        string             // for the report: the test that runs the plan
	Progress    func(Progress)     // called from one goroutine at a time; may be nil
	Now         func() time.Time   // nil: time.Now

	// Spawn returns the command of a worker process, not started, whose program calls ServeWorker. Standard input, output and error are
	// the plan's to set. nil: cases run in this process, where a panic on a goroutine of the driver ends everything, and a hang
	// leaves its goroutines behind.
	Spawn func(ctx context.Context, s Setting) *exec.Cmd
}

// Progress is news of a run.
type Progress struct {
	Total, Done int
	Worker      int
	Started     *Case     // a case began, or
	Result      *Result   // one is over (before waivers), or
	Identity    *Identity // the first target is open
}

// job is one attempt of one case.
type job struct {
	c       *Case
	attempt int     // from 1, with Plan.Repeat
	rerun   int     // how often this attempt was run before, since it failed
	stretch float64 // of the case's timeouts; 0 as 1
	bare    bool    // without captures: only what the case leaves behind counts
}

// timeout is the time that the job has.
func (j job) timeout(s Setting) time.Duration {
	d := s.CaseTimeout(j.c)
	if j.stretch > 0 {
		d = time.Duration(float64(d) * j.stretch)
	}
	return d
}

// runner runs jobs one after another; one for each worker. fresh makes the next job start with a new process or target;
// close ends what the runner holds.
type runner interface {
	run(ctx context.Context, j job) Result
	fresh(ctx context.Context)
	close(ctx context.Context)
}

// Run executes the plan. An error means that there is no report worth the name: a bad selection (*NothingSelected), a driver that
// cannot be opened (*DriverError), or a plan that asks of the driver what it cannot do. A run that the context ended still has a report, which says so.
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
	rep := &Report{Schema: ReportSchema, Tool: thisTool(), Requirements: p.Catalog.Coverage(), Waivers: p.Waivers,
		Run: RunInfo{Command: p.Command, Test: p.Test, Driver: p.Driver.Name, Profile: profile.Name, Link: p.Setting.Link, Seed: p.Setting.Seed,
			Shuffle: p.Shuffle, Strict: p.Strict, Selected: len(cases), All: len(p.Catalog.cases)}}
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
	s.total = len(jobs)
	if err := s.work(ctx, jobs); err != nil {
		return nil, err
	}
	s.fillUnopened(cases)
	for _, c := range cases {
		if rs := s.results[c.ID]; len(rs) > 0 {
			rep.Results = append(rep.Results, merge(rs))
		}
	}
	rep.Remarks = append(rep.Remarks, applyWaivers(rep.Results, p.Waivers, now())...)
	rep.Remarks = append(rep.Remarks, remarkLosses(rep.Results)...)
	rep.Identity = s.identity
	rep.Timing = Timing{Started: begin.UTC().Format(time.RFC3339), Elapsed: now().Sub(begin).Seconds(), Workers: s.workers, Deaths: s.deaths,
		Cases: map[string]float64{}}
	for id, rs := range s.results {
		for _, r := range rs {
			rep.Timing.Cases[id] += time.Duration(r.Elapsed).Seconds()
		}
	}
	if s.identity != nil {
		rep.Claims = claimsOf(p.Catalog, s.identity.caps(), rep.Results)
		rep.Untested = rep.untested()
	}
	rep.judge()
	return rep, nil
}

func (p *Plan) blank(c *Case) Result {
	rq, _ := p.Catalog.Requirement(c.Proven())
	return Result{Case: c.ID, Title: c.Title, Feature: c.Feature, Requirement: rq.ID, Level: rq.Level, Section: rq.Section}
}

// session is what the workers of a run share.
type session struct {
	p       *Plan
	total   int
	workers int

	alone    sync.RWMutex // held for writing by a job that must have the machine for itself
	hopeless int          // cases that lost their traffic in every attempt; guarded by alone

	mu       sync.Mutex
	rep      *Report
	results  map[string][]Result
	identity *Identity
	done     int
	deaths   int
	fatal    error
	unopened unopened
}

// work hands the jobs to the workers and returns when all are done or the run is over.
func (s *session) work(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.workers = s.p.Workers
	if s.workers <= 0 {
		s.workers = s.p.Driver.DefaultWorkers()
	}
	s.workers = min(s.workers, len(jobs))
	if s.p.Spawn == nil {
		s.workers = 1 // one process, and one target at a time
	}
	queue := make(chan job)
	var wg sync.WaitGroup
	for i := range s.workers {
		wg.Go(func() {
			r := s.runner(i)
			defer r.close(ctx)
			for j := range queue {
				s.tell(Progress{Worker: i, Started: j.c})
				res := s.settle(ctx, r, j)
				if ctx.Err() != nil && res.Status != Pass {
					continue // the end of the run, not of the case
				}
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

// finish records a result. A driver of which no target could ever be opened ends the run: each further case would say the same.
func (s *session) finish(worker int, r Result, stop func()) {
	s.mu.Lock()
	s.done++
	s.results[r.Case] = append(s.results[r.Case], r)
	switch {
	case r.Status == Error && s.identity == nil && s.fatal == nil:
		s.fatal = &DriverError{Text: r.Reason}
		if r.Unopened && s.workers > 1 {
			s.fatal = &DriverError{Text: r.Reason + "\n" + sharedHint(s.workers)}
		}
		stop()
	case s.unopened.add(&r):
		s.rep.Run.Stopped, s.rep.Run.Unopened = stoppedUnopened, s.unopened.explain(s.workers)
		stop()
	case s.p.FailFast && s.rep.Decisive(&r) && !s.waived(r.Case):
		s.rep.Run.Stopped = "first failure: " + r.Case
		stop()
	case s.p.Until != nil && s.p.Until(&r):
		s.rep.Run.Stopped = "found: " + r.Case
		stop()
	}
	s.mu.Unlock()
	s.tell(Progress{Worker: worker, Result: &r})
}

// amend adds a failure to the last result of a case that seemed to be over. earlier are cases in which the cause may lie as well.
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
		s.identity.Impair = s.identity.Impair || id.Impair // only targets opened for it can
		for _, name := range id.Claims {                   // what any target claims has to be tested
			if !slices.Contains(s.identity.Claims, name) {
				s.identity.Claims = append(s.identity.Claims, name)
			}
		}
	}
	s.mu.Unlock()
	if first {
		s.tell(Progress{Identity: id})
	}
}

func (s *session) died() { s.mu.Lock(); s.deaths++; s.mu.Unlock() }

func (s *session) tell(p Progress) {
	if s.p.Progress == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Total, p.Done = s.total, s.done
	s.p.Progress(p)
}

// merge makes one result of a case's attempts: the worst of them, with a word on how many.
func merge(rs []Result) Result {
	rank := map[Status]int{Skip: 0, Pass: 1, Inconclusive: 2, Flaky: 3, Fail: 4, Error: 5}
	worst, bad, passed := 0, 0, 0
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
}

func (l *localRunner) run(ctx context.Context, j job) Result {
	if l.e == nil {
		e, err := newExecutor(l.s.p.Catalog, l.s.p.Driver, l.set)
		if err != nil {
			r := l.s.p.blank(j.c)
			r.Status, r.Reason = Error, err.Error()
			return r
		}
		e.onOpen = l.s.opened
		l.e = e
	}
	e := l.e
	done := make(chan Result, 1)
	began := make(chan struct{}, 1)
	e.onBegin = func() {
		select {
		case began <- struct{}{}:
		default: // nobody listens any more, or has listened yet
		}
	}
	go func() { done <- e.run(ctx, j) }()
	timer := time.NewTimer(l.set.scale(openTimeout + hangGrace))
	defer timer.Stop()
	for {
		select {
		case r := <-done:
			return r
		case <-began:
			timer.Reset(j.timeout(l.set) + l.set.scale(hangGrace))
		case <-timer.C:
			l.e = nil // left behind with its goroutines: nothing can end them
			r := hung(l.s.p.blank(j.c), allStacks(), j.timeout(l.set))
			e.stalls.Load().read(&r.conditions)
			return r
		case <-ctx.Done():
			select {
			case r := <-done: // the case has seen it, too
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
		_ = l.e.drop(ctx) // a failed case has had its target closed already, with its result
	}
}

func (l *localRunner) close(ctx context.Context) {
	if l.e != nil {
		_ = l.e.drop(ctx) // each case's target has been closed with its result; this is the kept one
	}
}

// interruptGrace is how long an interrupted case in this process may take to end.
const interruptGrace = time.Second

// hung is the result of a case that did not end.
func hung(r Result, stacks string, limit time.Duration) Result {
	r.Status = Fail
	r.Failures = append(r.Failures, Failure{Rule: r.Requirement, Where: "the whole case", Expected: fmt.Sprintf("an end within %v", limit),
		Got: "hang", Cause: CauseHang, Stacks: stacks})
	return r
}

// LevelOf tells the level of the requirement that a case judges.
func (c *Catalog) LevelOf(cs *Case) req.Level {
	r, _ := c.book.Get(cs.Proven())
	return r.Level
}

// IsNothing tells an error of an empty selection.
func IsNothing(err error) bool { var n *NothingSelected; return errors.As(err, &n) }
