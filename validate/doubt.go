package validate

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Doubt names a cause other than the driver that a failure may have. A case whose failures are in doubt is run again,
// and fails only if the link and the machine do not explain them. The package comment has the rules under "Losses".
type Doubt string

const (
	// DoubtLoss marks traffic that must succeed and did not: transport retries exhausted, a datagram that did not
	// arrive, a retransmission of a packet that was acknowledged. The link may have lost a packet, or the machine may
	// have been too busy.
	DoubtLoss Doubt = "loss"
	// DoubtTime marks a result that was correct and late, or that had not arrived by a deadline of seconds. It is
	// excused if the machine was too busy, or if the link was seen to lose packets, which retransmission delays. That
	// the link might have lost a packet is not enough.
	DoubtTime Doubt = "time"
	// DoubtNetwork marks a wrong answer over a network that is not the certifier's own. It is excused if the network
	// was seen to lose packets: the answer may be to fewer packets than were sent.
	DoubtNetwork Doubt = "network"
)

// Inconclusive ends the case without a verdict, because the case has evidence that something other than the driver lost
// its traffic. The case is run again, and reported as inconclusive if that happens in every attempt. If the case has
// recorded a failure that is not in doubt, it fails.
//
// A case without such evidence that sees its traffic fail uses Fail with Failure.Doubt.
func (t *T) Inconclusive(format string, args ...any) {
	t.mu.Lock()
	t.unclear, t.res.Reason = true, fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Rerun returns how often this attempt of the case was run before because it failed: 0 at first. The timeout of the
// case, and timeouts below it, grow with each rerun.
func (t *T) Rerun() int { return t.rerun }

// certain reports whether one of the failures is not in doubt.
func certain(fs []Failure) bool {
	return slices.ContainsFunc(primary(fs), func(f Failure) bool { return f.Doubt == "" })
}

// Conditions describe the link and the machine during an attempt.
type Conditions struct {
	Lossless bool    `json:"lossless,omitempty"` // Target.Lossless
	Sent     int     `json:"sent,omitempty"`     // packets of Target.Probe after the attempt, 0 without a probe
	Lost     int     `json:"lost,omitempty"`     // of them
	Stall    Elapsed `json:"stall,omitempty"`    // the longest time by which the machine ran a due goroutine late
	Stalled  float64 `json:"stalled,omitempty"`  // the part of the time that a due goroutine waited, 0 to 1
	Delay    Elapsed `json:"delay,omitempty"`    // the total time that the worker's threads waited for a processor
	Waited   float64 `json:"waited,omitempty"`   // Delay as a fraction of the elapsed time
	Ran      float64 `json:"ran,omitempty"`      // the time that they were on a processor, likewise
}

// maxStall is the scheduling delay from which the machine may have caused a loss: transport timeouts begin at 67 ms. It
// applies to delays of goroutines and of threads. A delayed thread stops the goroutine that it runs while others
// continue.
const maxStall = 50 * time.Millisecond

// maxStalled is the fraction of the time from which the machine may have caused a missed deadline of seconds. Below it,
// the case had at least half of its time, and several times that when it was run again.
const maxStalled = 0.5

// busy reports whether the machine may have caused a loss.
func (c Conditions) busy() bool {
	return time.Duration(max(c.Stall, c.Delay)) >= maxStall || c.starved()
}

// starved reports whether the machine may have caused a missed deadline. Either goroutines that were due ran late, or
// the worker's threads waited for a processor that other processes used. Processor time that the driver's own threads
// use is no excuse.
func (c Conditions) starved() bool {
	return c.Stalled >= maxStalled || c.Waited >= maxStalled && c.Ran < maxStalled
}

// quiet reports whether the link is known to lose nothing.
func (c Conditions) quiet() bool { return c.Lossless || c.Sent > 0 && c.Lost == 0 }

// String describes the conditions for a report.
func (c Conditions) String() string {
	var s []string
	switch {
	case c.Lossless:
		s = append(s, "the link loses nothing")
	case c.Sent > 0:
		s = append(s, fmt.Sprintf("the link lost %d of %d packets of a probe", c.Lost, c.Sent))
	default:
		s = append(s, "the link may lose packets")
	}
	if c.busy() {
		stall, delay := time.Duration(c.Stall).Round(time.Millisecond), time.Duration(c.Delay).Round(time.Millisecond)
		s = append(s, fmt.Sprintf("the machine was busy "+
			"(goroutines ran up to %v late and waited for %.0f%% of the time; "+
			"threads were on a processor for %.0f%% of it, and waited for one for %v, %.0f%%)",
			stall, 100*c.Stalled, 100*c.Ran, delay, 100*c.Waited))
	}
	return strings.Join(s, ", ")
}

// excusable reports whether the link or the machine explains every failure of a result.
func excusable(r *Result) bool {
	switch {
	case r.Status == Inconclusive:
		return true
	case r.Status != Fail || len(r.Failures) == 0:
		return false
	}
	return !slices.ContainsFunc(primary(r.Failures), func(f Failure) bool { return !explains(r.conditions, f) })
}

// clearDoubts removes the doubts about failures that neither the link nor the machine explains, so that a report names
// a cause other than the driver only where one was measured.
func (r *Result) clearDoubts() {
	for i := range r.Failures {
		if r.Status != Inconclusive && !explains(r.conditions, r.Failures[i]) {
			r.Failures[i].Doubt = ""
		}
	}
}

// primary returns the failures without those that are consequences of the first.
func primary(fs []Failure) []Failure {
	if len(fs) == 0 {
		return nil
	}
	out := slices.Clone(fs[:1])
	for _, f := range fs[1:] {
		if !f.Setup {
			out = append(out, f)
		}
	}
	return out
}

// explains reports whether the conditions explain a failure.
func explains(c Conditions, f Failure) bool {
	switch {
	case f.Doubt == DoubtLoss:
		return c.busy() || !c.quiet()
	case f.Doubt == DoubtTime:
		return c.starved() || c.Lost > 0
	case f.Doubt == DoubtNetwork:
		return c.Lost > 0
	case f.Cause == CauseHang:
		return c.starved()
	}
	return false
}
