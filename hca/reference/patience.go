package reference

// Rounds without work that the engine waits for more before it yields the processor, and how often it tries to wait for
// a process for which waiting has not paid.
const (
	patientRounds = 40 // about a microsecond, less than two switches between processes
	maxCredit     = 3
	trialEvery    = 16
)

// patience decides, after work of a process, whether the engine waits a moment for more work before it yields the
// processor. Waiting pays if the answer comes from a process on another processor. It delays the answer if the other
// process waits for this processor. The zero value has not learned anything.
type patience struct {
	credit  int8  // of recent waits: those that paid, less those that did not
	skipped uint8 // times since the last trial
}

// rounds returns the number of rounds to wait.
func (c *patience) rounds() int {
	if c.credit > 0 {
		return patientRounds
	}
	if c.skipped++; c.skipped < trialEvery {
		return 0
	}
	c.skipped = 0
	return patientRounds
}

// learn records whether work came during a wait.
func (c *patience) learn(paid bool) {
	if paid {
		c.credit = min(c.credit+2, maxCredit)
	} else {
		c.credit = max(c.credit-1, 0)
	}
}
