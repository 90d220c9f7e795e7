package validate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// processRunner runs cases in worker processes, one process after another.
type processRunner struct {
	s   *session
	set Setting
	w   *process // nil before the first case and after the end of a worker
	// before is the case that w ran last. It is blamed if w ends between two cases.
	before string
	// ran are all cases that w has run.
	ran []string
	// spoiledBy is the last case, of any worker, after which the adapters' state may have to be restored.
	spoiledBy string
}

// run runs a case. If the worker died of the case before, it repeats the case in a new worker.
func (p *processRunner) run(ctx context.Context, j job) Result {
	res, again := p.once(ctx, j)
	if again {
		res, _ = p.once(ctx, j)
	}
	if p.spoiledBy = ""; spoils(j.c, res.Status) {
		p.spoiledBy = j.c.ID
	}
	return res
}

// once sends the case to the worker, which it starts if there is none. It waits for the result, the worker's end, or
// the last deadline. again is true if the worker died before it began the case, because of something that the case
// before left running.
func (p *processRunner) once(ctx context.Context, j job) (_ Result, again bool) {
	res := p.s.p.blank(j.c)
	res.Attempt = j.attempt
	fail := func(err error) (Result, bool) {
		p.discard()
		res.Status, res.Reason = Error, err.Error()
		return res, false
	}
	if p.w == nil {
		w, err := startProcess(ctx, p.s.p.Spawn, p.set)
		if err != nil {
			return fail(fmt.Errorf("worker: %w", err))
		}
		p.w, p.before, p.ran = w, "", nil
	}
	w := p.w
	// If the worker has died, the end of its events is reported below, with more detail than this error.
	sendErr := w.send(command{Case: j.c.ID, Attempt: j.attempt, Rerun: j.rerun, Stretch: j.stretch,
		Spoiled: p.spoiledBy})
	limit := j.timeout(p.set)
	// The worker has a watchdog of its own. This timer is for a worker that the driver or the machine stopped.
	served := startCPUMeter(w.cmd.Process.Pid)
	last := time.NewTimer(p.set.scale(openTimeout+hangGrace) + limit + p.set.scale(hangGrace+5*time.Second))
	defer last.Stop()
	started, isLast, step := false, false, ""
	from := w.printed.written()
	for {
		select {
		case e, ok := <-w.events:
			switch {
			case !ok && !started && p.before != "":
				return res, p.diedAfter(p.before)
			case !ok && sendErr != nil:
				return fail(fmt.Errorf("worker: %w: %s", sendErr, w.printed.last(400)))
			case !ok:
				return p.deathResult(res, started, step, from, j), false
			case e.Kind == EventIdentity:
				p.s.opened(e.Identity)
			case e.Kind == EventStart:
				started = true
			case e.Kind == EventLog:
				res.Log = appendBounded(res.Log, e.Text)
			case e.Kind == EventStep:
				step = e.Text
			case e.Kind == EventHang:
				out := hung(res, e.Text, limit)
				out.Failures[0].Step, out.conditions = step, e.Conditions
				out.Printed = w.printed.linesSince(from)
				out.Capture = p.set.leftCapture(j)
				p.s.died()
				p.discard()
				return out, false
			case e.Kind == EventFatal:
				return fail(errors.New(e.Text))
			case e.Kind == EventResult && e.Result.Case != j.c.ID:
				return fail(fmt.Errorf("worker: result of %s while %s runs", e.Result.Case, j.c.ID))
			case e.Kind == EventResult:
				e.Result.Elapsed, e.Result.conditions = e.Elapsed, e.Conditions
				if e.Result.Status != Pass && e.Result.Status != Skip {
					w.printed.awaitMark(markGrace)
					e.Result.Printed = w.printed.linesSince(from)
				}
				p.before = j.c.ID
				p.ran = append(p.ran, j.c.ID)
				return *e.Result, false
			}
		case <-last.C:
			if !isLast { // this process may have been late as well: an event that waits comes first
				isLast = true
				last.Reset(lastGrace)
				continue
			}
			served.read(&res.conditions)
			stacks := w.dumpStacks()
			p.s.died()
			p.discard()
			out := hung(res, stacks, limit)
			out.Failures[0].Step = step
			out.Capture = p.set.leftCapture(j)
			return out, false
		case <-ctx.Done():
			p.discard()
			res.Status, res.Reason = Error, "interrupted"
			return res, false
		}
	}
}

// lastGrace is the time for events that have arrived when the last timer of a case fires.
const lastGrace = time.Second

// panicText matches the line in which the Go runtime reports why a process ends.
var panicText = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|unexpected fault address .*|\[signal .*)$`)

// diedAfter charges the end of a worker between two cases to the first of them. Something that it left running ended
// the process, such as a goroutine of the driver.
func (p *processRunner) diedAfter(id string) bool {
	f, _ := p.ending()
	f.Where += ", after the case"
	p.discard()
	p.s.died()
	p.s.amend(id, f, slices.DeleteFunc(slices.Clone(p.ran), func(x string) bool { return x == id }))
	return true
}

// ending returns the end of the worker or of its results as a failure. state describes how the process ended.
func (p *processRunner) ending() (f Failure, state string) {
	w := p.w
	if w.streamErr != nil {
		w.kill()
		return Failure{
			Where: "the results of the worker process", Expected: "nothing but what the certifier writes",
			Got: w.streamErr.Error(), Cause: CauseResults,
		}, w.streamErr.Error()
	}
	state = w.end()
	return processEnd(state, w.printed.String()), state
}

// processEnd returns the end of a process as a failure.
func processEnd(state, printed string) Failure {
	f := Failure{Where: "the worker process", Expected: "no end of the process", Got: state, Cause: CauseDeath}
	if m := panicText.FindStringIndex(printed); m != nil {
		f.Expected, f.Cause = "no panic", CausePanic
		f.Got, f.Stacks = printed[m[0]:m[1]], printed[m[0]:]
	}
	return f
}

// deathResult returns the result of a case whose worker or whose results ended early. If the case had begun, the driver
// is charged.
func (p *processRunner) deathResult(res Result, started bool, step string, from int, j job) Result {
	f, state := p.ending()
	text := p.w.printed.last(400)
	printed := p.w.printed.since(from)
	if m := panicText.FindStringIndex(printed); m != nil {
		printed = printed[:m[0]] // the rest is in Failure.Stacks
	}
	res.Printed = lastPrinted(printed)
	streamErr := p.w.streamErr
	p.discard()
	p.s.died()
	if !started {
		res.Status, res.Reason = Error, fmt.Sprintf("worker ended before the case began: %s: %s", state, text)
		if streamErr != nil {
			res.Reason = streamErr.Error()
		}
		return res
	}
	f.Rule, f.Step = j.c.Proven(), step
	res.Earlier = p.ran
	res.Status, res.Failures = Fail, append(res.Failures, f)
	res.Capture = p.set.leftCapture(j)
	return res
}

// maxLogBytes limits the evidence that the parent keeps of a running case, in case its worker dies.
const maxLogBytes = 1 << 20

// appendBounded adds a line of evidence if the limits allow it.
func appendBounded(log []string, line string) []string {
	n := len(line)
	for _, l := range log {
		n += len(l)
	}
	if n > maxLogBytes || len(log) >= maxLog {
		return log
	}
	return append(log, line)
}

// discard kills the worker, if there is one.
func (p *processRunner) discard() {
	if p.w != nil {
		p.w.kill()
		p.w = nil
	}
}

// fresh ends the worker, so that the next job has a new one.
func (p *processRunner) fresh(ctx context.Context) { p.close(ctx) }

// close closes the worker's commands and gives it some time to exit.
func (p *processRunner) close(ctx context.Context) {
	if p.w == nil {
		return
	}
	_ = p.w.channel.commands.Close() // fails if the worker has ended
	timer := time.NewTimer(p.set.scale(openTimeout))
	defer timer.Stop()
	for ended := false; !ended; {
		select {
		case _, ok := <-p.w.events:
			if ended = !ok; !ended {
				continue
			}
			if p.w.end(); p.before != "" && panicText.MatchString(p.w.printed.String()) {
				p.diedAfter(p.before)
			}
		case <-timer.C:
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
	p.discard()
}
