package validate

import (
	"cmp"
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

// T is passed to a case. It has the HCAs under test, the deadline, repeatable random numbers, and methods that report
// findings. The methods may be called from any goroutine, except those that end the case (Fail, Failf, Skip,
// Inconclusive, Harness). Only the case's own goroutine may call these.
type T struct {
	c       *Case
	target  *Target
	id      *Identity
	profile Profile
	link    string
	seed    uint64
	ctx     context.Context
	limit   time.Duration // the case's time limit
	rerun   int           // how often the case was run before because it failed
	logLine func(string)  // called for each line of evidence, so that it survives the process; may be nil
	onStep  func(string)  // called for each step, likewise; may be nil

	mu        sync.Mutex
	res       Result
	skipped   bool
	unclear   bool // Inconclusive was called
	step      string
	rule      string // requirement of failures that name none; "": the one that the case proves
	setup     int
	cleanups  []func()
	diagnoses []func() []string
	cleaning  bool
	packets   []WirePacket
	rnd       *rand.Rand
	wg        sync.WaitGroup
}

// maxLog limits the evidence of one case, in lines. If a case logs more, lines in the middle are dropped.
const maxLog = 2000

// HCA returns the adapter under test, with no open CA.
func (t *T) HCA() ci.HCA { return t.target.HCAs[0] }

// HCAs returns all adapters of the target.
func (t *T) HCAs() []ci.HCA { return slices.Clone(t.target.HCAs) }

// Pair returns two adapters that reach each other. If the target has only one, a and b are the same adapter, which
// loops back and is opened once for both ends.
func (t *T) Pair() (a, b ci.HCA) {
	h := t.target.HCAs
	return h[0], h[min(1, len(h)-1)]
}

// Case returns the running case.
func (t *T) Case() Case { return *t.c }

// Claims returns the capabilities that the driver claims.
func (t *T) Claims() ci.Caps { return t.id.attr.Caps }

// Withheld returns the capabilities of the driver that a layer in front of it does not offer.
func (t *T) Withheld() ci.Caps { return t.target.Withheld }

// Attr returns the result of CA.Query before the case began. The caller must not change it.
func (t *T) Attr() *ci.CAAttr { return t.id.attr }

// Profile returns the profile of the run.
func (t *T) Profile() Profile { return t.profile }

// Link returns the name of the link that the target was opened on, or "" if the driver has no choice of links.
func (t *T) Link() string { return t.link }

// Context returns a context that ends at the case's deadline and when the case is over.
func (t *T) Context() context.Context { return t.ctx }

// Deadline returns the deadline of the case. Waits should use Remaining, which ends earlier, so that they fail with a
// finding instead of a hang.
func (t *T) Deadline() time.Time { d, _ := t.ctx.Deadline(); return d }

// late reports whether the time returned by Remaining is used up. A failure reported then is about something that did
// not happen in time.
func (t *T) late() bool {
	d, ok := t.ctx.Deadline()
	return ok && time.Until(d) <= t.limit/10
}

// Remaining returns the time that a wait may take: until a tenth of the timeout before the deadline, but at least a
// millisecond.
func (t *T) Remaining() time.Duration {
	return max(time.Until(t.Deadline())-t.limit/10, time.Millisecond)
}

// Seed returns the seed of the run.
func (t *T) Seed() uint64 { return t.seed }

// Rand returns a source of random numbers that follow from the run's seed and the case's id. It is for the case's
// goroutine only.
func (t *T) Rand() *rand.Rand {
	if t.rnd == nil {
		h := fnv.New64a()
		h.Write([]byte(t.c.ID))
		t.rnd = rand.New(rand.NewPCG(t.seed, h.Sum64()))
	}
	return t.rnd
}

// Multicast skips the case if the link carries no datagrams to multicast groups (Target.NoMulticast).
func (t *T) Multicast() {
	if t.target.NoMulticast != "" {
		t.Skip("the link carries no multicast: %s", t.target.NoMulticast)
	}
}

// Daemon skips the case if it cannot put a daemon of its own on the HCAs (Target.NoDaemon).
func (t *T) Daemon() {
	if t.target.NoDaemon != "" {
		t.Skip("no daemon on these adapters: %s", t.target.NoDaemon)
	}
}

// Impair impairs the link until the case ends. The case needs Needs.Impair. It is skipped if the target does not
// support one of the kinds of impairment in i.
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
			t.Logf("restoring the link: %v", err)
		}
	})
}

// Impairing returns Target.Impair, which may be nil, for cases that do without it. The link is restored when the case
// ends.
func (t *T) Impairing() func(Impairment) error {
	if f := t.target.Impair; f != nil {
		t.Cleanup(func() {
			if err := f(Impairment{}); err != nil {
				t.Logf("restoring the link: %v", err)
			}
		})
	}
	return t.target.Impair
}

// SetLink takes the link of the first HCA's first port down or up (Target.SetLink). It skips the case if the target
// does not support that.
func (t *T) SetLink(up bool) {
	if t.target.SetLink == nil {
		t.Skip("the target cannot take its link down and up (Target.SetLink)")
	}
	if err := t.target.SetLink(up); err != nil {
		t.Harness("Target.SetLink: %v", err)
	}
}

// Load loads the driver on a device of its own (Target.Load). It skips the case if the target does not support that.
func (t *T) Load(r ci.Registrar) (unload func(gone bool) error, err error) {
	if t.target.Load == nil {
		t.Skip("the target does not load its driver (Target.Load)")
	}
	return t.target.Load(t.Context(), r)
}

// VendorCall returns the target's vendor command with a known result (Target.VendorCall). It skips the case if there is
// none.
func (t *T) VendorCall() VendorCommand {
	if t.target.VendorCall == nil {
		t.Skip("the target has no vendor command with a known result (Target.VendorCall)")
	}
	return *t.target.VendorCall
}

// Unreachable returns an address of the link at which nothing receives (Target.Unreachable). It skips the case if there
// is none.
func (t *T) Unreachable() ci.GID {
	if t.target.Unreachable == (ci.GID{}) {
		t.Skip("the network sends no reports of datagrams that it could not deliver (Target.Unreachable)")
	}
	return t.target.Unreachable
}

// UserLibrary returns the driver's user library. It skips the case if the target names none.
func (t *T) UserLibrary() *ci.UserLibrary {
	if t.target.UserLibrary == nil {
		t.Skip("the target has no user library (Target.UserLibrary)")
	}
	return t.target.UserLibrary
}

// Live returns the number of the target's objects by kind. The case needs Needs.Live.
func (t *T) Live() map[string]int {
	if t.target.Live == nil {
		t.Harness("the case uses Live without Needs.Live")
	}
	return t.target.Live()
}

// Logf records a line of evidence, which the report contains if the case fails.
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

// Note records a permitted variation. It does not fail the case.
func (t *T) Note(format string, args ...any) { t.note(NoteInfo, fmt.Sprintf(format, args...)) }

// Deviation records the driver's choice between contradictory sources. It does not fail the case.
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

// Report records a failure. The case continues.
func (t *T) Report(f Failure) {
	t.mu.Lock()
	rule := t.rule
	t.mu.Unlock()
	if f.Rule = cmp.Or(f.Rule, rule, t.c.Proven()); !t.c.CanCharge(f.Rule) {
		t.note(NoteHarness, fmt.Sprintf("case %s charges %s, which is neither proven nor in Checks", t.c.ID, f.Rule))
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

// Charge calls f and charges the failures in it to the requirement, unless they name another one. The case must prove
// the requirement or have it in Case.Checks.
func (t *T) Charge(requirement string, f func()) {
	set := func(rule string) (before string) {
		t.mu.Lock()
		defer t.mu.Unlock()
		before, t.rule = t.rule, rule
		return before
	}
	before := set(requirement)
	defer set(before)
	f()
}

// Fail records a failure and ends the case.
func (t *T) Fail(f Failure) { t.Report(f); runtime.Goexit() }

// Failf calls Fail with a failure of the rule that the case proves.
func (t *T) Failf(where, expected, got string, args ...any) {
	t.Fail(Failure{Where: where, Expected: expected, Got: fmt.Sprintf(got, args...)})
}

// Failed reports whether a failure has been recorded.
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.res.Failures) > 0
}

// Setup marks failures as failures of the set-up until end is called. Calls nest.
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

// Skip ends the case without a verdict. The reason must name what the driver does not claim or have.
func (t *T) Skip(format string, args ...any) {
	t.mu.Lock()
	t.skipped, t.res.Reason = true, fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Harness ends the case with status error, because the certifier is at fault and not the driver.
func (t *T) Harness(format string, args ...any) {
	t.note(NoteHarness, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Cleanup registers f to run when the case is over, whatever its result. Functions run in reverse order of their
// registration. If the case has failed, failures in f are consequences and are marked Setup.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Cleaning reports whether the case's body is over.
func (t *T) Cleaning() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cleaning
}

// Go runs f on a goroutine of the case. The case is over when all its goroutines have ended. A panic in one is a
// failure.
func (t *T) Go(f func()) {
	t.wg.Go(func() { t.guard(f) })
}

// guard calls f and records a panic as a failure.
func (t *T) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			t.Report(Failure{
				Expected: "no panic", Got: fmt.Sprintf("panic: %v", p),
				Cause: CausePanic, Stacks: string(debug.Stack()),
			})
		}
	}()
	f()
}

// run executes the case's body and cleanups, and returns the result. It does not return before all goroutines of the
// case have ended, so the caller needs a watchdog.
func (t *T) run() Result {
	body := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); t.guard(f) }()
		<-done
	}
	t.diagnoseCounters()
	body(func() { t.c.Run(t) })
	t.wg.Wait()
	t.diagnose()

	t.mu.Lock()
	t.cleaning = true
	t.setup = 0
	t.step, t.rule = "", ""
	if len(t.res.Failures) > 0 {
		t.setup = 1 // failures from here on are consequences
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

// verdict returns the result with the status that follows from what was recorded.
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
