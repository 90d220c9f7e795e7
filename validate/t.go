package validate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"ciddk/ci"
)

// T is what a case has in hand: the HCAs under test, the deadline, chance that can be repeated, and the ways to report. Its methods may be
// called from any goroutine, except those that end the case (Fail, Failf, Skip, Harness), which belong to the case's own.
type T struct {
	c       *Case
	target  *Target
	id      *Identity
	profile Profile
	link    string
	seed    uint64
	ctx     context.Context
	limit   time.Duration // the case's time
	rerun   int           // how often the case was run before, since it failed
	logLine func(string)  // evidence as it comes, so that it survives the process
	onStep  func(string)  // likewise; may be nil

	mu        sync.Mutex
	res       Result
	skipped   bool
	unclear   bool // Inconclusive was called
	step      string
	setup     int
	cleanups  []func()
	diagnoses []func() []string
	cleaning  bool
	packets   []WirePacket
	rnd       *rand.Rand
	wg        sync.WaitGroup
}

// maxLog bounds the evidence of one case, in lines; a case that logs more loses the middle.
const maxLog = 2000

// HCA is the adapter under test, not open.
func (t *T) HCA() ci.HCA { return t.target.HCAs[0] }

// HCAs are all adapters of the target.
func (t *T) HCAs() []ci.HCA { return slices.Clone(t.target.HCAs) }

// Pair gives two adapters that reach each other. They are one and the same where the target has only one: then it loops back, and is
// opened once for both ends.
func (t *T) Pair() (a, b ci.HCA) {
	h := t.target.HCAs
	return h[0], h[min(1, len(h)-1)]
}

// Case is the case being run.
func (t *T) Case() Case { return *t.c }

// Claims are the capabilities the driver claims.
func (t *T) Claims() ci.Caps { return t.id.attr.Caps }

// Attr is what CA.Query said before the case began; do not change what it points to.
func (t *T) Attr() *ci.CAAttr { return t.id.attr }

// Profile is the profile of the run.
func (t *T) Profile() Profile { return t.profile }

// Link is the name of the link the target was opened on, "" without choice.
func (t *T) Link() string { return t.link }

// Context ends with the case's deadline, and when the case is over.
func (t *T) Context() context.Context { return t.ctx }

// Deadline of the case. Waits end a little before it, so that they fail with a finding instead of hanging: use Remaining.
func (t *T) Deadline() time.Time { d, _ := t.ctx.Deadline(); return d }

// late reports whether the time of a wait that Remaining limits is over. A finding made then is about something that did not come in time.
func (t *T) late() bool {
	d, ok := t.ctx.Deadline()
	return ok && time.Until(d) <= t.limit/10
}

// Remaining is the time a wait may take: to a tenth of the timeout before the deadline, at least a millisecond.
func (t *T) Remaining() time.Duration {
	return max(time.Until(t.Deadline())-t.limit/10, time.Millisecond)
}

// Seed of the run.
func (t *T) Seed() uint64 { return t.seed }

// Rand follows from the run's seed and the case's id. It is for the case's goroutine only.
func (t *T) Rand() *rand.Rand {
	if t.rnd == nil {
		h := fnv.New64a()
		h.Write([]byte(t.c.ID))
		t.rnd = rand.New(rand.NewPCG(t.seed, h.Sum64()))
	}
	return t.rnd
}

// Multicast skips the case if the link carries no datagrams to groups (Target.NoMulticast).
func (t *T) Multicast() {
	if t.target.NoMulticast != "" {
		t.Skip("the link carries no multicast: %s", t.target.NoMulticast)
	}
}

// Impair makes the link bad; it is good again when the case ends. The case needs Needs.Impair. It is skipped where the target cannot do one of the kinds
// of impairment that i asks for.
func (t *T) Impair(i Impairment) {
	if t.target.Impair == nil {
		t.Harness("the case uses Impair without Needs.Impair")
	}
	if i.Seed == 0 {
		i.Seed = t.seed
	}
	switch err := t.target.Impair(i); {
	case err == nil:
	case errors.Is(err, errors.ErrUnsupported), ci.StatusOf(err) == ci.Unsupported:
		t.Skip("the target cannot impair its link by %s: %v", strings.Join(i.Kinds(), ", "), err)
	default:
		t.Harness("impairing the link: %v", err)
	}
	t.Cleanup(func() {
		if err := t.target.Impair(Impairment{}); err != nil {
			t.Logf("mending the link: %v", err)
		}
	})
}

// SetLink takes the link of the first HCA's first port down or up (Target.SetLink). The case is skipped where the target cannot.
func (t *T) SetLink(up bool) {
	if t.target.SetLink == nil {
		t.Skip("the target has no means to take its link down and up (Target.SetLink)")
	}
	if err := t.target.SetLink(up); err != nil {
		t.Harness("Target.SetLink: %v", err)
	}
}

// VendorCall is the target's vendor command with a known answer (Target.VendorCall). The case is skipped where there is none.
func (t *T) VendorCall() VendorCommand {
	if t.target.VendorCall == nil {
		t.Skip("the target names no vendor command with a known answer (Target.VendorCall)")
	}
	return *t.target.VendorCall
}

// Live counts the target's objects by kind. The case needs Needs.Live.
func (t *T) Live() map[string]int {
	if t.target.Live == nil {
		t.Harness("the case uses Live without Needs.Live")
	}
	return t.target.Live()
}

// Logf records evidence, shown when the case fails.
func (t *T) Logf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.res.Log) >= maxLog {
		t.res.Log = slices.Delete(t.res.Log, maxLog/2, maxLog/2+1)
	}
	t.res.Log = append(t.res.Log, line)
	if t.logLine != nil {
		t.logLine(line)
	}
}

// Note records an allowed variance. It fails nothing.
func (t *T) Note(format string, args ...any) { t.note(NoteInfo, fmt.Sprintf(format, args...)) }

// Deviation records how the driver chose where the sources contradict each other. It fails nothing.
func (t *T) Deviation(format string, args ...any) {
	t.note(NoteDeviation, fmt.Sprintf(format, args...))
}

func (t *T) note(k NoteKind, s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := (Note{k, s}); !slices.Contains(t.res.Notes, n) {
		t.res.Notes = append(t.res.Notes, n)
	}
}

// Report records a finding and goes on.
func (t *T) Report(f Failure) {
	if f.Rule == "" {
		f.Rule = t.c.Proven()
	} else if !slices.Contains(t.c.Requirements, f.Rule) {
		t.note(NoteHarness, fmt.Sprintf("case %s charges %s, which is not among its requirements", t.c.ID, f.Rule))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.Setup = f.Setup || t.setup > 0
	if f.Step == "" {
		f.Step = t.step
	}
	if f.Doubt == "" && f.Cause == "" && t.late() {
		f.Doubt = DoubtTime
	}
	t.res.Failures = append(t.res.Failures, f)
}

// Fail records a finding and ends the case.
func (t *T) Fail(f Failure) { t.Report(f); runtime.Goexit() }

// Failf is Fail of the rule that the case judges.
func (t *T) Failf(where, expected, got string, args ...any) {
	t.Fail(Failure{Where: where, Expected: expected, Got: fmt.Sprintf(got, args...)})
}

// Failed tells whether there is a finding so far.
func (t *T) Failed() bool { t.mu.Lock(); defer t.mu.Unlock(); return len(t.res.Failures) > 0 }

// Setup marks findings as made while the stage is set, until the function it gives is called. Calls nest.
//
//	defer t.Setup()()
func (t *T) Setup() (end func()) {
	if t.c.TestsSetup {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setup++
	return sync.OnceFunc(func() { t.mu.Lock(); t.setup--; t.mu.Unlock() })
}

// Skip ends the case without a judgement. The reason must say what the driver does not claim or have.
func (t *T) Skip(format string, args ...any) {
	t.mu.Lock()
	t.skipped, t.res.Reason = true, fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Harness ends the case because the certifier, not the driver, is at fault.
func (t *T) Harness(format string, args ...any) {
	t.note(NoteHarness, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Cleanup registers f to run when the case is over, last registered first, whatever became of the case. A finding in it counts as made in
// the set-up if the case has failed before, for then it is a consequence.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Cleaning tells whether the case's body is over.
func (t *T) Cleaning() bool { t.mu.Lock(); defer t.mu.Unlock(); return t.cleaning }

// Go runs f on a goroutine of the case. The case is over when all have ended; a panic in one is a finding.
func (t *T) Go(f func()) {
	t.wg.Go(func() { t.guard(f) })
}

// guard turns a panic of f into a finding.
func (t *T) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			t.Report(Failure{Expected: "no panic", Got: fmt.Sprintf("panic: %v", p), Cause: CausePanic, Stacks: string(debug.Stack())})
		}
	}()
	f()
}

// run executes the case's body and cleanups, and gives the result. It does not return before everything has ended: whoever calls it
// watches the clock.
func (t *T) run() Result {
	body := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); t.guard(f) }()
		<-done
	}
	body(func() { t.c.Run(t) })
	t.wg.Wait()
	t.diagnose()

	t.mu.Lock()
	t.cleaning = true
	t.setup = 0
	t.step = ""
	if len(t.res.Failures) > 0 {
		t.setup = 1 // what follows a finding is a consequence
	}
	t.mu.Unlock()
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			break
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		body(f)
	}
	t.wg.Wait()
	return t.verdict()
}

// verdict derives the status from what was recorded.
func (t *T) verdict() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.res
	r.Status = Pass
	for _, n := range r.Notes {
		if n.Kind == NoteHarness {
			r.Status, r.Reason = Error, n.Text
		}
	}
	switch {
	case r.Status == Error:
	case t.unclear && !certain(r.Failures):
		r.Status = Inconclusive
	case len(r.Failures) > 0:
		r.Status, r.Reason = Fail, ""
	case t.skipped:
		r.Status = Skip
	}
	return r
}
