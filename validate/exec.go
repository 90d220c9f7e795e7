package validate

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Setting is what a process that runs cases has to know of the run.
type Setting struct {
	Options
	Profile string  // name
	Scale   float64 // of all timeouts; 0 as 1
	PcapDir string  // captures of failed cases, "" for none
	PcapAll bool    // of passed ones, too
}

func (s Setting) scale(d time.Duration) time.Duration {
	if s.Scale > 0 {
		return time.Duration(float64(d) * s.Scale)
	}
	return d
}

// CaseTimeout is the time a case has in this setting.
func (s Setting) CaseTimeout(c *Case) time.Duration { return s.scale(c.timeout()) }

// openTimeout is the time that opening and closing a target may take.
const openTimeout = 10 * time.Second

// executor runs cases in this process, one after another, and keeps the target between them.
type executor struct {
	driver   Driver
	set      Setting
	profile  Profile
	catalog  *Catalog
	target   *Target
	id       *Identity
	onOpen   func(*Identity)
	onLog    func(string)
	onStep   func(string)
	onBegin  func()                     // the case's own time begins
	baseline map[string]int             // live objects when the target was fresh
	quiet    int                        // goroutines of the process after the first target was closed; 0 before
	before   int                        // goroutines of the process before the first target was opened
	stalls   atomic.Pointer[stallMeter] // of the case that runs
}

func newExecutor(c *Catalog, d Driver, s Setting) (*executor, error) {
	p, ok := FindProfile(s.Profile)
	if !ok {
		var names []string
		for _, x := range profiles {
			names = append(names, x.Name)
		}
		return nil, fmt.Errorf("no profile %q%s", s.Profile, didYouMean(s.Profile, names))
	}
	link, err := d.LinkOr(s.Link)
	if err != nil {
		return nil, err
	}
	s.Link = link
	s.Capture = s.PcapDir != ""
	return &executor{driver: d, set: s, profile: p, catalog: c}, nil
}

// ready opens the target if there is none, and reads its identity.
func (e *executor) ready(ctx context.Context) error {
	if e.target != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.set.scale(openTimeout))
	defer cancel()
	t, err := e.driver.open(ctx, e.set.Options)
	if err != nil {
		return err
	}
	e.target = t
	e.id = identify(ctx, e.driver, e.set.Link, t)
	if t.Live != nil {
		e.baseline = maps.Clone(t.Live())
	}
	if e.onOpen != nil {
		e.onOpen(e.id)
	}
	return nil
}

// drop closes the target.
func (e *executor) drop(ctx context.Context) error {
	if e.target == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.set.scale(openTimeout))
	defer cancel()
	t := e.target
	e.target = nil
	return t.close(ctx)
}

// run executes a case. It returns when the case has ended, which a broken driver can delay for ever: the caller keeps a watchdog.
func (e *executor) run(ctx context.Context, j job) Result {
	if e.before == 0 {
		e.before = runtime.NumGoroutine()
	}
	r, closed := e.once(ctx, j)
	switch {
	case !closed:
	case e.quiet == 0:
		return e.first(ctx, j, r)
	default:
		e.goroutines(&r)
	}
	return r
}

// once opens a target if there is none, runs the case, and closes the target unless it is kept.
func (e *executor) once(ctx context.Context, j job) (r Result, closed bool) {
	c := j.c
	r = e.blank(c, j.attempt)
	if want := c.Needs.Impair || e.driver.Keep; want != e.set.Impair {
		if err := e.drop(ctx); err != nil { // left open by a case that was skipped
			r.Notes = append(r.Notes, Note{NoteInfo, "Target.Close before this case: " + err.Error()})
		}
		e.set.Impair = want
	}
	if err := e.ready(ctx); err != nil {
		r.Status, r.Reason, r.Unopened = Error, err.Error(), true
		return r, false
	}
	if settled := e.gate(c, &r); settled {
		return r, false
	}
	if e.onBegin != nil {
		e.onBegin()
	}
	limit := j.timeout(e.set)
	caseCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := e.capture(j, &r)
	begin := time.Now()
	t := &T{c: c, target: e.target, id: e.id, profile: e.profile, link: e.set.Link, seed: e.set.Seed, ctx: caseCtx, logLine: e.onLog,
		onStep: e.onStep, res: r, limit: limit, rerun: j.rerun}
	meter := startStallMeter()
	e.stalls.Store(meter)
	r = t.run()
	meter.stop()
	meter.read(&r.conditions)
	e.leftovers(&r)
	r.Elapsed = Elapsed(time.Since(begin))
	stop(&r)
	e.evidence(j, t.packets, &r)
	e.probe(ctx, &r)
	if e.driver.Keep && !c.Spoils && (r.Status == Pass || r.Status == Skip) {
		return r, false
	}
	if err := e.drop(ctx); err != nil {
		r.blame(Failure{Rule: c.Proven(), Where: "Target.Close", Expected: "success", Got: err.Error(), Cause: CauseLeak})
	}
	runFinalizers()
	return r, true
}

// probe finds out what the link is like, if a case has lost traffic.
func (e *executor) probe(ctx context.Context, r *Result) {
	r.conditions.Lossless = e.target.Lossless
	if e.target.Lossless || e.target.Probe == nil || r.Status != Inconclusive && (r.Status != Fail || certain(r.Failures)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.set.scale(openTimeout))
	defer cancel()
	sent, lost, err := e.target.Probe(ctx)
	if err != nil {
		r.Notes = append(r.Notes, Note{NoteInfo, "no probe of the link: " + err.Error()})
		return
	}
	r.conditions.Sent, r.conditions.Lost = sent, lost
}

// first takes the measure of goroutines, once the first target of the process is closed: what a driver starts once for the process is its
// own affair, what it starts for each target or object must end with it. If goroutines are left, the case is run again on a fresh
// target, to tell the one from the other.
func (e *executor) first(ctx context.Context, j job, r Result) Result {
	e.quiet = settledGoroutines()
	if e.quiet <= e.before || r.Status != Pass {
		return r
	}
	j.bare = true
	again, closed := e.once(ctx, j)
	switch {
	case again.Status == Fail || again.Status == Inconclusive:
		again.Notes = append(again.Notes, Note{NoteInfo, "the case passed the first time it ran in this process, and not the second time"})
		return again
	case !closed:
		if err := e.drop(ctx); err != nil {
			r.Notes = append(r.Notes, Note{NoteInfo, "Target.Close: " + err.Error()})
		}
	}
	e.goroutines(&r)
	return r
}

// settledGoroutines counts the goroutines of the process without those that are only about to end.
func settledGoroutines() int {
	n := runtime.NumGoroutine()
	for range 10 {
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

// goroutines looks for those that a closed target left running, against the measure that the targets before it have set.
func (e *executor) goroutines(r *Result) {
	for deadline := time.Now().Add(e.set.scale(time.Second)); ; {
		n := runtime.NumGoroutine()
		if n <= e.quiet {
			e.quiet = n
			return
		}
		if time.Now().After(deadline) {
			r.blame(Failure{Rule: r.Requirement, Where: "goroutines after Target.Close", Expected: "none of the driver's left",
				Got: fmt.Sprintf("%d more than before", n-e.quiet), Cause: CauseLeak, Stacks: allStacks()})
			e.quiet = n // each leak is reported once
			return
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// gate settles what is not run: needs not met, or claims that could not be read.
func (e *executor) gate(c *Case, r *Result) (settled bool) {
	if e.id.QueryError != "" {
		if !c.bare() {
			r.Status, r.Reason = Fail, ""
			r.Failures = []Failure{{Rule: "SAS-2.2-02", Setup: c.Proven() != "SAS-2.2-02", Where: "reading the claims before the case",
				Expected: "success", Got: e.id.QueryError}}
			return true
		}
		return false
	}
	if reason := c.Needs.unmet(e.id); reason != "" {
		r.Status, r.Reason = Skip, reason
		return true
	}
	return false
}

// bare tells a case that can run on an HCA whose claims could not be read.
func (c *Case) bare() bool {
	n := c.Needs
	return n.Caps|n.AnyCaps|n.Lacks == 0 && n.Atomics == 0 && len(n.Links) == 0 && n.Ports == 0 && n.Attr == nil
}

func (e *executor) blank(c *Case, attempt int) Result {
	rq, _ := e.catalog.Requirement(c.Proven())
	return Result{Case: c.ID, Title: c.Title, Feature: c.Feature, Requirement: rq.ID, Level: rq.Level, Section: rq.Section, Attempt: attempt}
}

// leftovers compares the living objects with those of the fresh target. Drivers may free behind the back of a Destroy that returned,
// so a difference is looked at again for a little while.
func (e *executor) leftovers(r *Result) {
	if e.target.Live == nil || r.Status == Error {
		return
	}
	deadline := time.Now().Add(e.set.scale(time.Second))
	for {
		var left []string
		now := e.target.Live()
		for _, k := range slices.Sorted(maps.Keys(now)) {
			if d := now[k] - e.baseline[k]; d != 0 {
				left = append(left, fmt.Sprintf("%+d %s", d, k))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.blame(Failure{Rule: r.Requirement, Where: "living objects after the case", Expected: "as before it", Got: strings.Join(left, ", "), Cause: CauseLeak})
			return
		}
		runtime.Gosched()
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// capture starts a packet capture if one is wanted and possible; what it returns ends it and keeps the file where it is evidence.
func (e *executor) capture(j job, r *Result) (stop func(*Result)) {
	nothing := func(*Result) {}
	if j.bare || e.set.PcapDir == "" || e.target.Capture == nil || j.c.Needs.Wire && e.driver.Evidence != nil { // a case at the wire has its own evidence
		return nothing
	}
	path := e.set.capturePath(j)
	end, err := e.target.Capture(path)
	if err != nil {
		r.Notes = append(r.Notes, Note{NoteInfo, "no capture: " + err.Error()})
		return nothing
	}
	return func(r *Result) {
		if err := end(); err != nil {
			r.Notes = append(r.Notes, Note{NoteInfo, "capture: " + err.Error()})
		}
		if r.Status == Fail || r.Status == Inconclusive || e.set.PcapAll {
			r.Capture = path
		} else if err := os.Remove(path); err != nil {
			r.Notes = append(r.Notes, Note{NoteInfo, "capture: " + err.Error()})
		}
	}
}

// evidence writes the packets that a case recorded itself, where they are wanted: with remarks, and nothing else among them.
func (e *executor) evidence(j job, packets []WirePacket, r *Result) {
	if j.bare || e.set.PcapDir == "" || e.driver.Evidence == nil || len(packets) == 0 || r.Status != Fail && r.Status != Inconclusive && !e.set.PcapAll {
		return
	}
	path := e.set.capturePath(j)
	if err := e.driver.Evidence(path, packets); err != nil {
		r.Notes = append(r.Notes, Note{NoteInfo, "capture: " + err.Error()})
		return
	}
	r.Capture = path
}

// capturePath returns the file for the capture of a job.
func (s Setting) capturePath(j job) string {
	name := j.c.ID
	if j.attempt > 1 {
		name = fmt.Sprintf("%s.%d", name, j.attempt)
	}
	if j.rerun > 0 {
		name = fmt.Sprintf("%s.again-%d", name, j.rerun)
	}
	return filepath.Join(s.PcapDir, name+".pcapng")
}

// leftCapture returns the capture of a job that its worker did not live to report, if there is one.
func (s Setting) leftCapture(j job) string {
	if s.PcapDir == "" {
		return ""
	}
	path := s.capturePath(j)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// allStacks gives the stacks of all goroutines, at most 256 KiB.
func allStacks() string {
	buf := make([]byte, 256<<10)
	return string(buf[:runtime.Stack(buf, true)])
}

// finalizerGrace is how long runFinalizers waits: a finalizer of the driver's may block.
const finalizerGrace = 100 * time.Millisecond

// runFinalizers collects garbage and lets finalizers run. What they find wrong, such as a runtime.Pinner with memory left
// pinned, ends the process, and should do so in the case that left it behind.
//
// The collection runs on one processor. With more, idle processors help to mark, and for a heap of a few megabytes they spend
// more on looking for work than the work takes: a certification of 818 cases spent 5.2 s of processor time on collections with
// two processors, and 2.6 s with one.
func runFinalizers() {
	done := make(chan struct{})
	marker := new(struct{ p *int }) // with a pointer: tiny objects without one may never be finalized
	runtime.SetFinalizer(marker, func(any) { close(done) })
	n := runtime.GOMAXPROCS(1)
	runtime.GC()
	runtime.GOMAXPROCS(n)
	timer := time.NewTimer(finalizerGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
