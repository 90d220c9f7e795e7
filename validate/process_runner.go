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
	w   *process // nil before the first case and after a death
	// before is the case that w ran last: the one to blame if w ends between two cases.
	before string
	// ran are all cases that w ran before.
	ran []string
}

// run is once, repeated in a fresh worker if the old one died of the case before.
func (r *processRunner) run(ctx context.Context, j job) Result {
	res, again := r.once(ctx, j)
	if again {
		res, _ = r.once(ctx, j)
	}
	return res
}

// once gives the case to the worker, which is started if there is none, and waits for the result, the worker's end, or the last
// deadline. again says that the worker had died before it took the case, of what the case before left running.
func (r *processRunner) once(ctx context.Context, j job) (_ Result, again bool) {
	res := r.s.p.blank(j.c)
	res.Attempt = j.attempt
	fail := func(err error) (Result, bool) {
		r.discard()
		res.Status, res.Reason = Error, err.Error()
		return res, false
	}
	if r.w == nil {
		w, err := startProcess(ctx, r.s.p.Spawn, r.set)
		if err != nil {
			return fail(fmt.Errorf("worker: %w", err))
		}
		r.w, r.before, r.ran = w, "", nil
	}
	w := r.w
	// A worker that is gone shows at the end of its events, which says more than the failure of this write.
	sendErr := w.send(command{Case: j.c.ID, Attempt: j.attempt, Rerun: j.rerun, Stretch: j.stretch})
	limit := j.timeout(r.set)
	// The worker watches the clock itself; this is for one that cannot, such as a process that the driver stopped or starved.
	last := time.NewTimer(r.set.scale(openTimeout+hangGrace) + limit + r.set.scale(hangGrace+5*time.Second))
	defer last.Stop()
	started, step := false, ""
	from := w.printed.written()
	for {
		select {
		case e, ok := <-w.events:
			switch {
			case !ok && !started && r.before != "":
				return res, r.diedAfter(r.before)
			case !ok && sendErr != nil:
				return fail(fmt.Errorf("worker: %w: %s", sendErr, w.printed.last(400)))
			case !ok:
				return r.dead(res, started, step, from, j), false
			case e.Kind == EventIdentity:
				r.s.opened(e.Identity)
			case e.Kind == EventStart:
				started = true
			case e.Kind == EventLog:
				res.Log = appendBounded(res.Log, e.Text)
			case e.Kind == EventStep:
				step = e.Text
			case e.Kind == EventHang:
				out := hung(res, e.Text, limit)
				out.Failures[0].Step, out.conditions, out.Printed = step, e.Conditions, w.printed.linesSince(from)
				out.Capture = r.set.leftCapture(j)
				r.s.died()
				r.discard()
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
				r.before = j.c.ID
				r.ran = append(r.ran, j.c.ID)
				return *e.Result, false
			}
		case <-last.C:
			stacks := w.dumpStacks()
			r.s.died()
			r.discard()
			out := hung(res, stacks, limit)
			out.Failures[0].Step = step
			out.Capture = r.set.leftCapture(j)
			return out, false
		case <-ctx.Done():
			r.discard()
			res.Status, res.Reason = Error, "interrupted"
			return res, false
		}
	}
}

// panicText finds the line in which the Go runtime says why a process ends.
var panicText = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|unexpected fault address .*|\[signal .*)$`)

// diedAfter charges the end of a worker between two cases to the case that came before: something that it left running, a goroutine of
// the driver, ended the process.
func (r *processRunner) diedAfter(id string) bool {
	f, _ := r.ending()
	f.Where += ", after the case"
	r.discard()
	r.s.died()
	r.s.amend(id, f, slices.DeleteFunc(slices.Clone(r.ran), func(x string) bool { return x == id }))
	return true
}

// ending words the end of the worker, or of its results, as a finding. state says how the process ended.
func (r *processRunner) ending() (f Failure, state string) {
	w := r.w
	if w.streamErr != nil {
		w.kill()
		return Failure{Where: "the results of the worker process", Expected: "nothing but what the certifier writes", Got: w.streamErr.Error(),
			Cause: CauseResults}, w.streamErr.Error()
	}
	state = w.end()
	return processEnd(state, w.printed.String()), state
}

// processEnd words the end of a process as a finding.
func processEnd(state, printed string) Failure {
	f := Failure{Where: "the worker process", Expected: "no end of the process", Got: state, Cause: CauseDeath}
	if m := panicText.FindStringIndex(printed); m != nil {
		f.Expected, f.Got, f.Cause, f.Stacks = "no panic", printed[m[0]:m[1]], CausePanic, printed[m[0]:]
	}
	return f
}

// dead is the result of a case whose worker ended, or whose results did: the driver's doing, if the case had begun.
func (r *processRunner) dead(res Result, started bool, step string, from int, j job) Result {
	f, state := r.ending()
	text := r.w.printed.last(400)
	printed := r.w.printed.since(from)
	if m := panicText.FindStringIndex(printed); m != nil {
		printed = printed[:m[0]] // what follows is among the stacks
	}
	res.Printed = lastPrinted(printed)
	streamErr := r.w.streamErr
	r.discard()
	r.s.died()
	if !started {
		res.Status, res.Reason = Error, fmt.Sprintf("worker ended before the case began: %s: %s", state, text)
		if streamErr != nil {
			res.Reason = streamErr.Error()
		}
		return res
	}
	f.Rule, f.Step = j.c.Proven(), step
	res.Earlier = r.ran
	res.Status, res.Failures = Fail, append(res.Failures, f)
	res.Capture = r.set.leftCapture(j)
	return res
}

// maxLogBytes bounds the evidence that the parent keeps of a case whose worker may not live to sum it up.
const maxLogBytes = 1 << 20

// appendBounded adds a line of evidence as long as there is room.
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

// discard ends the worker, if there is one, and forgets it.
func (r *processRunner) discard() {
	if r.w != nil {
		r.w.kill()
		r.w = nil
	}
}

// fresh ends the worker, so that the next job has a new one.
func (r *processRunner) fresh(ctx context.Context) { r.close(ctx) }

// close lets the worker end by itself, for a moment.
func (r *processRunner) close(ctx context.Context) {
	if r.w == nil {
		return
	}
	_ = r.w.channel.commands.Close() // a worker that is gone already has closed the other end
	timer := time.NewTimer(r.set.scale(openTimeout))
	defer timer.Stop()
	for ended := false; !ended; {
		select {
		case _, ok := <-r.w.events:
			if ended = !ok; !ended {
				continue
			}
			if r.w.end(); r.before != "" && panicText.MatchString(r.w.printed.String()) {
				r.diedAfter(r.before)
			}
		case <-timer.C:
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
	r.discard()
}
