package explore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"ciddk/ci"
	"ciddk/internal/model"
	"ciddk/validate"
)

// A Trace is a list of steps.
type Trace []Step

// A Finding is a trace in which a driver breaks a rule.
type Finding struct {
	Seed, Number uint64 // of the trace
	Trace        Trace  // as short as it was made
	Violation    *model.Violation
	Text         string // of the rule, if known
	Hang         string // the stacks of all goroutines, if a verb did not return
}

// Config describes an exploration.
type Config struct {
	Open    func(context.Context) (*validate.Target, error)
	Seed    uint64
	Steps   int           // of a trace; 0: 40
	Limit   time.Duration // how long a prediction may take; 0: 2 s
	Traces  uint64        // 0: no limit
	Least   uint64        // of traces: before, Time does not end the exploration
	Time    time.Duration // 0: until the context ends
	First   uint64        // number of the first trace
	Verbose func(string)  // may be nil
	// ShrinkTime limits the time in which a finding is made short; 0: 20 s.
	ShrinkTime time.Duration
	// Rows is how many of the first traces are rows of the covering array.
	Rows uint64
	// Pairs, if not nil, is where the exploration counts the pairs of levels that rows have visited.
	Pairs *Pairs

	sessions []session
}

// Explore runs traces until the context ends, a rule is broken, or Traces is reached. It returns the number of traces.
func Explore(ctx context.Context, c Config) (n uint64, f *Finding, err error) {
	if c.Steps == 0 {
		c.Steps = 40
	}
	if c.Limit == 0 {
		c.Limit = 2 * time.Second
	}
	t, err := c.Open(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if t != nil && t.Close != nil && (f == nil || f.Hang == "") {
			_ = t.Close(ctx)
		}
	}()
	begin := time.Now()
	isOver := func() bool {
		return c.Traces != 0 && n >= c.Traces || c.Time != 0 && n >= c.Least && time.Since(begin) > c.Time
	}
	for n = 0; !isOver() && ctx.Err() == nil; n++ {
		number := c.First + n
		trace, v, hang, err := c.generate(ctx, t, number)
		if err != nil && ctx.Err() != nil { // the time has passed while the adapters were opened
			return n, nil, nil
		}
		if err != nil {
			return n, nil, err
		}
		if v == nil {
			continue
		}
		f := &Finding{Seed: c.Seed, Number: number, Trace: trace, Violation: v, Hang: hang}
		if hang != "" {
			c.distill(ctx, f)
			return n + 1, f, nil
		}
		// On a link that delays packets, one may still be on its way when the model is at the next step. What a driver
		// does wrong, it does again.
		if !c.again(context.WithoutCancel(ctx), t, f) {
			if c.Verbose != nil {
				c.Verbose("not seen again: " + f.Story())
			}
			continue
		}
		long := *f
		if c.shrink(context.WithoutCancel(ctx), t, f); !c.again(context.WithoutCancel(ctx), t, f) {
			*f = long // a short trace that depends on times
		}
		return n + 1, f, nil
	}
	return n, nil, nil
}

// again reports whether a trace breaks the same rule again three times, with twice the patience.
func (c *Config) again(ctx context.Context, t *validate.Target, f *Finding) bool {
	for range 3 {
		v, _, err := c.replay(ctx, t, f.Trace, 2*c.Limit, slowDrop)
		if errors.Is(err, ci.ResourceBusy) { // a driver that lost an object cannot be opened again
			return true
		}
		if err != nil || v == nil || v.Rule != f.Violation.Rule {
			return false
		}
	}
	return true
}

// openRun opens the adapters. If one is still open after a wrong trace, it opens the target again.
func (c *Config) openRun(ctx context.Context, t *validate.Target, limit time.Duration) (*Run, error) {
	r, err := open(ctx, t, limit)
	if err == nil || c.Open == nil {
		return r, err
	}
	if t.Close != nil {
		_ = t.Close(ctx)
		t.Close = nil
	}
	next, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	*t = *next
	return open(ctx, t, limit)
}

// guarded runs f on a goroutine, and turns a panic and a verb that does not return into violations.
func (c *Config) guarded(r *Run, f func() *model.Violation) (v *model.Violation, hang string) {
	done := make(chan *model.Violation, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil && isOurs(string(debug.Stack())) {
				done <- &model.Violation{Where: "the model", Got: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
			} else if p != nil {
				done <- &model.Violation{Rule: "SAS-2.1-11", Where: "a verb", Expected: "no panic",
					Got: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
			}
		}()
		done <- f()
	}()
	for last := int64(-1); ; last = r.step.Load() {
		hangs := make(chan struct{})
		dog := validate.NewWatchdog(5*c.Limit+time.Second, func() { close(hangs) })
		select {
		case v := <-done:
			dog.Stop()
			return v, ""
		case <-hangs:
		}
		if r.step.Load() != last {
			continue
		}
		rule := model.Rule("SAS-2.3-19")
		if r.isParallel.Load() {
			rule = "CI-Parallel-01"
		}
		return &model.Violation{Rule: rule, Where: "a verb", Expected: "that it returns", Got: "it has not returned",
			Doubt: true}, stacks()
	}
}

// isOurs reports whether the stack of a panic begins in the model or in the explorer.
func isOurs(stack string) bool {
	_, s, _ := strings.Cut(stack, "\npanic(")
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "\t") && strings.Contains(line, ".") && !strings.HasPrefix(line, "runtime.") {
			return strings.HasPrefix(line, "ciddk/internal/model") || strings.HasPrefix(line, "ciddk/validate/explore")
		}
	}
	return false
}

// generate draws and executes a trace.
func (c *Config) generate(ctx context.Context, t *validate.Target, number uint64) (
	trace Trace, v *model.Violation, hang string, err error) {
	r, err := c.openRun(ctx, t, c.Limit)
	if err != nil {
		return nil, nil, "", err
	}
	g := newGen(r, c.Seed, number)
	g.pend = prelude()
	steps := c.Steps + len(g.pend)
	if number < c.Rows {
		if c.sessions == nil {
			c.Pairs.permit(r.limits())
			c.sessions = schedule(c.Seed, r.limits(), int(c.Rows))
		}
		g.isRow = true
		g.pend, steps = append(g.pend, g.sessionSteps(c.sessions[number])...), 1<<20
		defer func() { c.Pairs.visit(r, c.sessions[number]) }()
	}
	isSlow := !g.isRow && g.chance(15)
	if isSlow {
		g.pend = append(g.pend, Slow{20})
	}
	v, hang = c.guarded(r, func() *model.Violation {
		for i := 0; i < steps; i++ {
			if r.w.Lost || number < c.Rows && len(g.pend) == 0 {
				break
			}
			if isSlow && i == steps-1 { // callbacks run when the objects are destroyed
				isSlow, g.pend = false, g.flushAll()
				steps += len(g.pend)
			}
			s := g.step()
			if r.unclear(s) {
				continue
			}
			trace = append(trace, s)
			if v := r.do(s); v != nil {
				return v
			}
		}
		return nil
	})
	if v, hang, err = c.end(r, v, hang); err != nil {
		return nil, nil, "", fmt.Errorf("explore: seed %d, trace %d: %w", c.Seed, number, err)
	}
	return trace, v, hang, nil
}

// end destroys the objects of a run that has ended with v, unless a verb hangs. A panic of the model is an error.
func (c *Config) end(r *Run, v *model.Violation, hang string) (*model.Violation, string, error) {
	if hang == "" && (v == nil || v.Rule != "") {
		var w *model.Violation
		w, hang = c.guarded(r, func() *model.Violation { return r.finish(v == nil && !r.w.Lost) })
		if v == nil {
			v = w
		}
	}
	if v != nil && v.Rule == "" {
		return nil, "", fmt.Errorf("%s: %s", v.Where, v.Got)
	}
	return v, hang, nil
}

// do executes a step and waits until the driver is at rest.
func (r *Run) do(s Step) *model.Violation {
	r.step.Add(1)
	if r.unclear(s) {
		return nil
	}
	r.from = time.Now()
	if v := s.run(r); v != nil {
		return v
	}
	v := r.rest()
	if rule := blamed(s); v != nil && rule != "" {
		v.Rule = rule
	}
	return v
}

// blamed returns the rule of a difference that appears after a step, where the step decides it, or "".
func blamed(s Step) model.Rule {
	switch s := s.(type) {
	case Resize:
		return "CI-ResizeCQ-01"
	case Together:
		if slices.ContainsFunc(s.Verbs, func(v Verb) bool { return v.Resize }) {
			return "CI-ResizeCQ-01"
		}
		return "CI-Parallel-01"
	}
	return ""
}

// replay executes a trace.
func (c *Config) replay(ctx context.Context, t *validate.Target, trace Trace, limit, drop time.Duration) (
	*model.Violation, string, error) {
	r, err := c.openRun(ctx, t, limit)
	if err != nil {
		return nil, "", err
	}
	r.drop = drop
	v, hang := c.guarded(r, func() *model.Violation {
		for _, s := range trace {
			if r.w.Lost {
				break
			}
			if v := r.do(s); v != nil {
				return v
			}
		}
		return nil
	})
	return c.end(r, v, hang)
}

// Story describes a finding for people.
func (f *Finding) Story() string {
	var b strings.Builder
	v := f.Violation
	fmt.Fprintf(&b, "Rule %s is broken (seed %d, trace %d).\n%s\n\n", v.Rule, f.Seed, f.Number, f.Text)
	b.WriteString("Adapters A and B each have a PD (1, 2), a region of all their memory (MR 3, 4) and a CQ (5, 6).\n")
	n := 0
	for _, s := range f.Trace[min(len(prelude()), len(f.Trace)):] {
		n++
		fmt.Fprintf(&b, "%3d. %s\n", n, s)
	}
	fmt.Fprintf(&b, "\n%s\n  expected: %s\n  got:      %s\n", v.Where, v.Expected, v.Got)
	if f.Hang != "" {
		b.WriteString("\n" + f.Hang)
	}
	return b.String()
}

// Replay executes a trace over a driver within a test, which fails if a rule is broken.
func Replay(t testing.TB, d validate.Driver, trace Trace) {
	t.Helper()
	link, err := d.LinkOr("")
	if err != nil {
		t.Fatal(err)
	}
	target, err := d.Open(t.Context(), validate.Options{Link: link, Seed: 1, Run: os.Getpid(), Impair: true})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Limit: 2 * time.Second}
	v, hang, err := c.replay(t.Context(), target, trace, c.Limit, dropTime)
	switch {
	case err != nil:
		t.Fatal(err)
	case v != nil:
		t.Fatal((&Finding{Trace: trace, Violation: v, Hang: hang}).Story())
	}
	if target.Close != nil {
		if err := target.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
