package validate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ciddk/ci"
)

// Setting has the parameters of a run that a process needs to run cases.
type Setting struct {
	Options
	Profile string  // name of a profile
	Scale   float64 // factor of all timeouts; 0 means 1
	PcapDir string  // directory for captures of failed cases; "" for none
	PcapAll bool    // captures of passed cases are kept, too
}

func (s Setting) scale(d time.Duration) time.Duration {
	if s.Scale > 0 {
		return time.Duration(float64(d) * s.Scale)
	}
	return d
}

// patience scales a limit of what is not waiting, and so takes its time however short the waits are: never below d.
func (s Setting) patience(d time.Duration) time.Duration { return max(d, s.scale(d)) }

// CaseTimeout returns the time limit of a case in this setting.
func (s Setting) CaseTimeout(c *Case) time.Duration {
	if p, _ := FindProfile(s.Profile); p.Exhaustive && c.Exhaustive > 0 {
		return s.scale(c.Exhaustive)
	}
	return s.scale(c.timeout())
}

// openTimeout limits the time for opening and for closing a target.
const openTimeout = 10 * time.Second

// executor runs cases in this process, one after another. It keeps the target between cases if Driver.Keep is set.
type executor struct {
	driver     Driver
	set        Setting
	profile    Profile
	catalog    *Catalog
	target     *Target
	id         *Identity
	limiters   []*limiter // of the target's HCAs with small limits
	onOpen     func(*Identity)
	onLog      func(string)
	onStep     func(string)
	onBegin    func()                     // called when the time of the case begins
	baseline   map[string]int             // live objects when the target was opened
	numSettled int                        // goroutines of the process after the first target was closed; 0 before
	numInitial int                        // goroutines of the process before the first target was opened
	kept       *preserved                 // state of the adapters when the first target was open; nil before
	spoiledBy  string                     // case after which the state has to be restored; "": none
	stalls     atomic.Pointer[stallMeter] // of the running case
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

// ready opens the target if none is open, and reads its identity.
func (e *executor) ready(ctx context.Context) error {
	if e.target != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.set.patience(openTimeout))
	defer cancel()
	t, err := e.driver.open(ctx, e.set.Options)
	if err != nil {
		return err
	}
	isFirst := e.kept == nil && e.spoiledBy == ""
	if isFirst {
		e.id = identify(ctx, e.driver, e.set.Link, t)
	}
	var attr *ci.CAAttr
	if isFirst && e.id.QueryError == "" {
		attr = e.id.attr
	}
	if err := e.restoreState(ctx, t, attr); err != nil {
		return errors.Join(err, t.close(ctx))
	}
	e.target = t
	if !isFirst {
		e.id = identify(ctx, e.driver, e.set.Link, t)
	}
	e.limiters = nil
	for i, h := range t.HCAs {
		attr := e.id.attr
		if i > 0 {
			attr = e.kept.limits(i)
		}
		h, l := limit(h, attr)
		if t.HCAs[i] = h; l != nil {
			e.limiters = append(e.limiters, l)
		}
	}
	if t.Live != nil {
		e.baseline = maps.Clone(t.Live())
	}
	if e.onOpen != nil {
		e.onOpen(e.id)
	}
	return nil
}

// drop closes the target if one is open.
func (e *executor) drop(ctx context.Context) error {
	if e.target == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.set.patience(openTimeout))
	defer cancel()
	t := e.target
	e.target = nil
	return t.close(ctx)
}

// run executes a case and returns when it has ended. A faulty driver can delay that forever, so the caller needs a
// watchdog.
func (e *executor) run(ctx context.Context, j job) Result {
	if e.numInitial == 0 {
		e.numInitial = runtime.NumGoroutine()
	}
	r, closed := e.once(ctx, j)
	switch {
	case !closed:
	case e.numSettled == 0:
		return e.first(ctx, j, r)
	default:
		e.goroutines(&r)
	}
	return r
}

// once opens a target if none is open, runs the case, and closes the target unless it is kept.
func (e *executor) once(ctx context.Context, j job) (r Result, closed bool) {
	c := j.c
	r = e.blank(c, j.attempt)
	if want := c.Needs.Impair || c.Needs.MayImpair || e.driver.Keep; want != e.set.Impair {
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
		e.exited(ctx, &r)
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
	t := &T{
		c: c, target: e.target, id: e.id, profile: e.profile, link: e.set.Link, seed: e.set.Seed,
		ctx: caseCtx, limit: limit, rerun: j.rerun, logLine: e.onLog, onStep: e.onStep, res: r,
	}
	for _, l := range e.limiters {
		l.reset()
	}
	meter := startStallMeter()
	e.stalls.Store(meter)
	r = t.run()
	meter.stop()
	meter.read(&r.conditions)
	if e.exited(ctx, &r) {
		r.Elapsed = Elapsed(time.Since(begin))
		stop(&r)
		e.evidence(j, t.packets, &r)
		return r, false
	}
	e.leftovers(&r)
	if spoils(c, r.Status) {
		e.spoiledBy = c.ID
	}
	r.Elapsed = Elapsed(time.Since(begin))
	stop(&r)
	e.evidence(j, t.packets, &r)
	e.probe(ctx, &r)
	if e.driver.Keep && !spoils(c, r.Status) {
		return r, false
	}
	if err := e.drop(ctx); err != nil {
		r.blame(Failure{
			Rule: c.Proven(), Where: "Target.Close", Expected: "success", Got: err.Error(), Cause: CauseLeak,
		})
	}
	runFinalizers()
	return r, true
}

// spoils reports whether a case with a status may have left state in the adapters.
func spoils(c *Case, s Status) bool { return c.Spoils || s != Pass && s != Skip }

// exited charges the end of the driver's own process, if it has ended, to a case. It closes the target then.
func (e *executor) exited(ctx context.Context, r *Result) bool {
	if e.target.Exited == nil {
		return false
	}
	state, printed, ended := e.target.Exited()
	if !ended {
		return false
	}
	f := processEnd(state, printed)
	f.Rule, f.Where = r.Requirement, "the driver's process"
	for i := range r.Failures { // consequences
		r.Failures[i].Setup = true
	}
	r.Status, r.Reason, r.Failures = Fail, "", slices.Insert(r.Failures, 0, f)
	_ = e.drop(ctx) // the end of the process is reported already
	return true
}

// probe measures the link after a case that has lost traffic.
func (e *executor) probe(ctx context.Context, r *Result) {
	r.conditions.Lossless = e.target.Lossless
	inDoubt := r.Status == Inconclusive || r.Status == Fail && !certain(r.Failures)
	if e.target.Lossless || e.target.Probe == nil || !inDoubt {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.set.patience(openTimeout))
	defer cancel()
	sent, lost, err := e.target.Probe(ctx)
	if err != nil {
		r.Notes = append(r.Notes, Note{NoteInfo, "no probe of the link: " + err.Error()})
		return
	}
	r.conditions.Sent, r.conditions.Lost = sent, lost
}

// first is called after the first target of the process was closed, and sets the number of goroutines that later cases
// are compared with. Goroutines that a driver starts once for the process are allowed. Goroutines that it starts for
// each target or object must end with it. If goroutines are left, the case is run again on a new target to distinguish
// the two.
func (e *executor) first(ctx context.Context, j job, r Result) Result {
	e.numSettled = settledGoroutines()
	if e.numSettled <= e.numInitial || r.Status != Pass {
		return r
	}
	j.bare = true
	again, closed := e.once(ctx, j)
	switch {
	case again.Status == Fail || again.Status == Inconclusive:
		again.Notes = append(again.Notes,
			Note{NoteInfo, "the case passed on its first run in this process, and not on its second"})
		return again
	case !closed:
		if err := e.drop(ctx); err != nil {
			r.Notes = append(r.Notes, Note{NoteInfo, "Target.Close: " + err.Error()})
		}
	}
	e.goroutines(&r)
	return r
}

// settledGoroutines returns the number of goroutines of the process, without those that are about to end.
func settledGoroutines() int {
	n := runtime.NumGoroutine()
	for range 10 {
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

// goroutines reports goroutines that a closed target left running.
func (e *executor) goroutines(r *Result) {
	for deadline := time.Now().Add(e.set.patience(time.Second)); ; {
		n := runtime.NumGoroutine()
		if n <= e.numSettled {
			e.numSettled = n
			return
		}
		if time.Now().After(deadline) {
			r.blame(Failure{
				Rule: r.Requirement, Where: "goroutines after Target.Close",
				Expected: "no goroutine of the driver", Got: fmt.Sprintf("%d more than before", n-e.numSettled),
				Cause: CauseLeak, Stacks: allStacks(),
			})
			e.numSettled = n // each leak is reported once
			return
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// gate sets the result of a case that is not run: its needs are not met, or the claims could not be read.
func (e *executor) gate(c *Case, r *Result) (settled bool) {
	if e.id.QueryError != "" {
		if !c.needsNoClaims() {
			r.Status, r.Reason = Fail, ""
			r.Failures = []Failure{{
				Rule: "SAS-2.2-02", Setup: c.Proven() != "SAS-2.2-02", Where: "reading the claims before the case",
				Expected: "success", Got: e.id.QueryError,
			}}
			return true
		}
		return false
	}
	if reason := c.Needs.unmet(e.id); reason != "" {
		r.Status, r.Reason = Skip, reason
		return true
	}
	switch c.Feature {
	case FeatureAL, FeatureCM, FeatureMAD, FeatureSMA, FeatureUser:
		if reason := Lacking(e.id.attr, &services); reason != "" {
			r.Status, r.Reason = Skip, reason
			return true
		}
	}
	return false
}

// needsNoClaims reports whether the case can run on an HCA whose claims could not be read.
func (c *Case) needsNoClaims() bool {
	n := c.Needs
	noCaps := n.Caps|n.AnyCaps|n.Lacks == 0 && n.Atomics == 0
	return noCaps && len(n.Links) == 0 && n.Ports == 0 && n.Attr == nil
}

func (e *executor) blank(c *Case, attempt int) Result {
	rq, _ := e.catalog.Requirement(c.Proven())
	return Result{
		Case: c.ID, Title: c.Title, Feature: c.Feature, Requirement: rq.ID, Level: rq.Level, Section: rq.Section,
		Attempt: attempt,
	}
}

// leftovers compares the existing objects with those of the new target. A driver may free resources after Destroy has
// returned, so a difference is checked again for up to a second.
func (e *executor) leftovers(r *Result) {
	if e.target.Live == nil || r.Status == Error {
		return
	}
	deadline := time.Now().Add(e.set.patience(time.Second))
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
			r.blame(Failure{
				Rule: r.Requirement, Where: "living objects after the case",
				Expected: "as before it", Got: strings.Join(left, ", "), Cause: CauseLeak,
			})
			return
		}
		runtime.Gosched()
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// capture starts a packet capture if one is configured and possible. stop ends it, and removes the file if it is not
// needed.
func (e *executor) capture(j job, r *Result) (stop func(*Result)) {
	nothing := func(*Result) {}
	hasOwn := j.c.Needs.Wire && e.driver.Evidence != nil // the case records its packets itself
	if j.bare || e.set.PcapDir == "" || e.target.Capture == nil || hasOwn {
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

// evidence writes the packets that a case recorded itself, with its remarks, to a capture file.
func (e *executor) evidence(j job, packets []WirePacket, r *Result) {
	wanted := r.Status == Fail || r.Status == Inconclusive || e.set.PcapAll
	possible := !j.bare && e.set.PcapDir != "" && e.driver.Evidence != nil
	if !wanted || !possible || len(packets) == 0 {
		return
	}
	path := e.set.capturePath(j)
	if err := e.driver.Evidence(path, packets); err != nil {
		r.Notes = append(r.Notes, Note{NoteInfo, "capture: " + err.Error()})
		return
	}
	r.Capture = path
}

// capturePath returns the path of the capture file of a job.
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

// leftCapture returns the path of the capture of a job whose worker died before it reported it, or "" if there is none.
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

// allStacks returns the stacks of all goroutines, at most 256 KiB.
func allStacks() string {
	buf := make([]byte, 256<<10)
	return string(buf[:runtime.Stack(buf, true)])
}

// finalizerGrace limits the time that runFinalizers waits, because a finalizer of the driver may block.
const finalizerGrace = 100 * time.Millisecond

// runFinalizers collects garbage and runs finalizers. A mistake that they find ends the process, such as a
// runtime.Pinner with memory left pinned. It should do so in the case that caused it.
//
// The collection runs on one processor. With more, idle processors help to mark, and with a heap of a few megabytes
// they spend more time on looking for work than on the work: a certification of 818 cases spent 5.2 s of processor time
// on collections with two processors, and 2.6 s with one.
func runFinalizers() {
	done := make(chan struct{})
	marker := new(struct{ p *int }) // has a pointer, because the finalizer of a tiny object without one may never run
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
