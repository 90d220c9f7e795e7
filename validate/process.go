package validate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// processRunner runs cases in worker processes, one process after another.
type processRunner struct {
	s   *session
	set Setting
	w   *process // nil before the first case and after a death
	// before is the case that w ran last: the one to blame if w ends between two cases.
	before string
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
		r.w, r.before = w, ""
	}
	w := r.w
	// A worker that is gone shows at the end of its events, which says more than the failure of this write.
	sendErr := w.send(command{Case: j.c.ID, Attempt: j.attempt, Rerun: j.rerun, Stretch: j.stretch})
	limit := j.timeout(r.set)
	// The worker watches the clock itself; this is for one that cannot, such as a process that the driver stopped or starved.
	last := time.NewTimer(r.set.scale(openTimeout+hangGrace) + limit + r.set.scale(hangGrace+5*time.Second))
	defer last.Stop()
	started, step := false, ""
	from := w.stderr.written()
	for {
		select {
		case e, ok := <-w.events:
			switch {
			case !ok && !started && r.before != "":
				return res, r.diedAfter(r.before)
			case !ok && sendErr != nil:
				return fail(fmt.Errorf("worker: %w: %s", sendErr, w.stderr.last(400)))
			case !ok:
				return r.dead(res, started, step, j), false
			case e.Kind == EventIdentity:
				r.s.opened(e.Identity)
			case e.Kind == EventStart:
				started = true
			case e.Kind == EventLog:
				res.Log = append(res.Log, e.Text)
			case e.Kind == EventStep:
				step = e.Text
			case e.Kind == EventHang:
				out := hung(res, e.Text, limit)
				out.Failures[0].Step, out.conditions = step, e.Conditions
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
				if e.Result.Status == Fail || e.Result.Status == Inconclusive || e.Result.Status == Error {
					e.Result.Log = append(e.Result.Log, w.stderr.linesSince(from)...)
				}
				r.before = j.c.ID
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
	w := r.w
	f := processEnd(w.wait(), w.stderr.String())
	f.Where = "the worker process, after the case"
	r.discard()
	r.s.died()
	r.s.amend(id, f)
	return true
}

// processEnd words the end of a process as a finding.
func processEnd(state, printed string) Failure {
	f := Failure{Where: "the worker process", Expected: "no end of the process", Got: state, Cause: CauseDeath, Stacks: printed}
	if m := panicText.FindString(printed); m != "" {
		f.Expected, f.Got, f.Cause = "no panic", m, CausePanic
	}
	return f
}

// dead is the result of a case whose worker ended: the driver's doing, if the case had begun.
func (r *processRunner) dead(res Result, started bool, step string, j job) Result {
	w := r.w
	state := w.wait()
	text := w.stderr.String()
	streamErr := w.streamErr
	r.discard()
	r.s.died()
	if !started || streamErr != nil {
		res.Status, res.Reason = Error, fmt.Sprintf("worker ended before the case began: %s: %s", state, tail(text, 400))
		if streamErr != nil {
			res.Reason = streamErr.Error()
		}
		return res
	}
	f := processEnd(state, text)
	f.Rule, f.Step = j.c.Judges(), step
	res.Status, res.Failures = Fail, append(res.Failures, f)
	res.Capture = r.set.leftCapture(j)
	return res
}

// discard ends the worker, if there is one, and forgets it.
func (r *processRunner) discard() {
	if r.w != nil {
		r.w.kill()
		r.w = nil
	}
}

// fresh ends the worker, so that the next job has a new one.
func (r *processRunner) fresh() { r.close() }

// close lets the worker end by itself, for a moment.
func (r *processRunner) close() {
	if r.w == nil {
		return
	}
	_ = r.w.in.Close() // a worker that is gone already has closed the other end
	t := time.NewTimer(r.set.scale(openTimeout))
	defer t.Stop()
	for {
		select {
		case _, ok := <-r.w.events:
			if !ok {
				if r.w.wait(); r.before != "" && panicText.MatchString(r.w.stderr.String()) {
					r.diedAfter(r.before)
				}
				r.w = nil
				return
			}
		case <-t.C:
			r.discard()
			return
		}
	}
}

// process is a running worker.
type process struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	events    chan Event // closed at the end of the stream
	quit      chan struct{}
	stderr    *tailBuffer
	streamErr error // why the stream ended, if not by its end; read after events is closed
	waited    sync.Once
	state     string
}

func startProcess(ctx context.Context, spawn func(context.Context, Setting) *exec.Cmd, set Setting) (*process, error) {
	cmd := spawn(context.WithoutCancel(ctx), set)
	w := &process{cmd: cmd, events: make(chan Event), quit: make(chan struct{}), stderr: &tailBuffer{max: 256 << 10}}
	cmd.Stderr = w.stderr
	// What a worker's own children hold open must not keep Wait from returning.
	cmd.WaitDelay = 2 * time.Second
	var err error
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go w.read(out)
	return w, nil
}

// read passes events on until the stream ends or the worker is discarded.
func (w *process) read(out io.Reader) {
	defer close(w.events)
	rd := NewEventReader(out)
	rd.Stray = func(l string) { fmt.Fprintln(w.stderr, l) }
	first := true
	for {
		e, err := rd.Next()
		if err == nil && first && e.Kind != EventHello {
			err = fmt.Errorf("worker stream: begins with %q", e.Kind)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				w.streamErr = err
			}
			return
		}
		if first {
			first = false
			continue
		}
		select {
		case w.events <- e:
		case <-w.quit:
			return
		}
	}
}

func (w *process) send(c command) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = w.in.Write(append(b, '\n'))
	return err
}

// wait reaps the process and says how it ended.
func (w *process) wait() string {
	w.waited.Do(func() {
		if err := w.cmd.Wait(); err != nil {
			w.state = err.Error()
		} else {
			w.state = "exit status 0"
		}
	})
	return w.state
}

// dumpStacks asks the Go runtime of the worker for its goroutines, where the system knows such a signal, and gives what came.
func (w *process) dumpStacks() string {
	if askForStacks(w.cmd.Process) {
		t := time.NewTimer(2 * time.Second)
		defer t.Stop()
	drain:
		for {
			select {
			case _, ok := <-w.events:
				if !ok {
					break drain
				}
			case <-t.C:
				break drain
			}
		}
	}
	return w.stderr.String()
}

func (w *process) kill() {
	close(w.quit)
	_ = w.in.Close()
	_ = w.cmd.Process.Kill() // it may have ended already
	w.wait()
}

// tailBuffer keeps the first quarter and the end of what is written: a panic's first lines and what led to it.
type tailBuffer struct {
	mu   sync.Mutex
	max  int
	head []byte
	rest []byte
	lost int // bytes dropped between head and rest
}

// written is how many bytes came so far.
func (b *tailBuffer) written() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.head) + b.lost + len(b.rest)
}

// maxPrinted bounds what a driver's own output adds to the evidence of a case, in lines.
const maxPrinted = 50

// linesSince gives what came after the first n bytes, as far as it is still there: what the driver printed during a case. It is evidence
// only, and what the driver prints last may come too late for it.
func (b *tailBuffer) linesSince(n int) []string {
	b.mu.Lock()
	all := string(b.head) + string(b.rest)
	skip := n
	if n > len(b.head) {
		skip = max(n-b.lost, len(b.head))
	}
	b.mu.Unlock()
	text := strings.TrimRight(all[min(skip, len(all)):], "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-maxPrinted):]
	for i := range lines {
		lines[i] = "printed: " + lines[i]
	}
	return lines
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	if room := b.max/4 - len(b.head); room > 0 {
		k := min(room, len(p))
		b.head = append(b.head, p[:k]...)
		p = p[k:]
	}
	b.rest = append(b.rest, p...)
	if over := len(b.rest) - b.max*3/4; over > 0 {
		b.lost += over
		b.rest = append(b.rest[:0], b.rest[over:]...)
	}
	return n, nil
}

func (b *tailBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost > 0 {
		return fmt.Sprintf("%s\n[%d bytes left out]\n%s", b.head, b.lost, b.rest)
	}
	return string(b.head) + string(b.rest)
}

// last gives at most n bytes from the end.
func (b *tailBuffer) last(n int) string { return tail(b.String(), n) }

func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}
