package validate

import "time"

// cpuTime is the processor time of all threads of a process.
type cpuTime struct {
	run  time.Duration // on a processor
	wait time.Duration // runnable, without a processor
}

// cpuMeter measures how long the threads of a process were runnable without a processor. A timer does not measure
// that: on a busy machine the scheduler runs a thread that wakes up briefly at once, but a thread with much to do late.
type cpuMeter struct {
	pid   int // 0: this process
	begin time.Time
	first cpuTime
	ok    bool
}

// startCPUMeter starts a measurement of a process. 0 stands for this one.
func startCPUMeter(pid int) cpuMeter {
	first, ok := readCPUTime(pid)
	return cpuMeter{pid: pid, begin: time.Now(), first: first, ok: ok}
}

// read adds the measurement since the start to the conditions of an attempt.
func (c cpuMeter) read(out *Conditions) {
	elapsed := time.Since(c.begin)
	if !c.ok || elapsed <= 0 {
		return
	}
	last, ok := readCPUTime(c.pid)
	if !ok {
		return
	}
	// The counts of a thread that has ended are no longer included, so differences can be negative.
	out.Delay = Elapsed(max(last.wait-c.first.wait, 0))
	out.Waited = max(float64(last.wait-c.first.wait)/float64(elapsed), 0)
	out.Ran = max(float64(last.run-c.first.run)/float64(elapsed), 0)
}
