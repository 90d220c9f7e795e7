package reference

// Rounds without work that the engine waits for more before it yields the processor, and how often it tries to wait for
// a process for which waiting has not paid.
const (
	patientRounds = 24 // one to two microseconds, less than two switches between processes
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

// A lull is a series of rounds without work: some in which the engine waits, then those after which it yields the
// processor.
type lull struct {
	last   *patience // of the process that had work last; nil: there was none
	wait   int       // rounds of the wait; -1: not decided
	rounds int
}

// end ends the lull. from is the patience of the process that has work, or nil for other work.
func (l *lull) end(from *patience) {
	if l.rounds > 0 && l.rounds < l.wait {
		l.last.learn(true)
	}
	l.rounds, l.wait = 0, 0
	if from != nil {
		l.last, l.wait = from, -1
	}
}

// add counts a round. It returns 0 during the wait, and then the number of rounds after it, from 1.
func (l *lull) add() int {
	if l.rounds++; l.wait < 0 {
		l.wait = l.last.rounds()
	}
	if l.rounds < l.wait {
		return 0
	}
	if l.rounds == l.wait {
		l.last.learn(false)
	}
	return l.rounds - max(l.wait, 1) + 1
}
