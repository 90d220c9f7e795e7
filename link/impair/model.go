package impair

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Verdict is what happens to a packet.
type Verdict uint8

// Verdicts. Chance leaves the choice to the probabilities; the others overrule them.
const (
	Chance Verdict = iota
	Pass
	Drop
	Duplicate // sent twice in a row
	Reorder   // held back until one to three more packets have passed, or for half of MaxDelay to all of it
	Delay     // held for a time up to MaxDelay
	Corrupt   // one bit flipped, of the packet as it is on a wire
)

// NumVerdicts is the number of verdicts.
const NumVerdicts = int(Corrupt) + 1

var verdictNames = [NumVerdicts]string{"chance", "passed", "dropped", "duplicated", "reordered", "delayed", "corrupted"}

// String returns the verdict as a participle, such as "dropped".
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// A Model holds the probabilities, 0 to 1, of what happens to a packet; each packet of a train counts. At most one of
// them happens to a packet: Drop with its probability, else Duplicate with its own, and so on in the order of the
// fields. The sum is at most 1.
type Model struct {
	Drop, Duplicate, Reorder, Delay, Corrupt float64
	// MaxDelay is the longest time that a packet is held; 0 is 1 ms.
	MaxDelay time.Duration
}

// check returns an error for a field that is out of range.
func (m *Model) check() error {
	sum := 0.0
	for _, c := range m.list() {
		if !(c.p >= 0 && c.p <= 1) {
			return fmt.Errorf("the probability of %q is %v: want 0 to 1", c.v, c.p)
		}
		sum += c.p
	}
	switch {
	case sum > 1+1e-9:
		return fmt.Errorf("the sum of the probabilities is %v: want at most 1", sum)
	case m.MaxDelay < 0:
		return fmt.Errorf("MaxDelay is %v: want at least 0", m.MaxDelay)
	}
	return nil
}

type probability struct {
	p float64
	v Verdict
}

func (m *Model) list() [5]probability {
	return [5]probability{{m.Drop, Drop}, {m.Duplicate, Duplicate}, {m.Reorder, Reorder}, {m.Delay, Delay},
		{m.Corrupt, Corrupt}}
}

// choose returns the verdict for chance, a random number of [0, 1).
func (m *Model) choose(chance float64) Verdict {
	for _, c := range m.list() {
		if chance < c.p {
			return c.v
		}
		chance -= c.p
	}
	return Pass
}

// Choose draws a verdict: never Chance.
func (m *Model) Choose(r *rand.Rand) Verdict { return m.choose(r.Float64()) }
