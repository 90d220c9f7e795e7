package validate

import "time"

// cpuTime is the processor time of all threads of this process.
type cpuTime struct {
	run  time.Duration // on a processor
	wait time.Duration // runnable, without a processor
}

// cpuMeter measures how much of the processor time that this process asked for it did not get. A timer does not show that: on a busy machine the
// scheduler runs a thread that wakes for a moment at once, and a thread that has work to do late.
type cpuMeter struct {
	begin time.Time
	first cpuTime
	ok    bool
}

// startCPUMeter starts a measurement.
func startCPUMeter() cpuMeter {
	first, ok := readCPUTime()
	return cpuMeter{begin: time.Now(), first: first, ok: ok}
}

// read adds the measurement since the start to the conditions of an attempt.
func (m cpuMeter) read(c *Conditions) {
	elapsed := time.Since(m.begin)
	if !m.ok || elapsed <= 0 {
		return
	}
	last, ok := readCPUTime()
	if !ok {
		return
	}
	// A thread that has ended takes its counts with it.
	c.Delay = Elapsed(max(last.wait-m.first.wait, 0))
	c.Waited = max(float64(last.wait-m.first.wait)/float64(elapsed), 0)
	c.Ran = max(float64(last.run-m.first.run)/float64(elapsed), 0)
}
