package validate

import (
	"sync/atomic"
	"time"
)

// stallPeriod is how often the machine's delay is sampled.
const stallPeriod = 10 * time.Millisecond

// stallMeter samples how late the machine runs a goroutine that is due.
type stallMeter struct {
	begin      time.Time
	cpu        cpuMeter
	max, total atomic.Int64
	quit, done chan struct{}
}

// startStallMeter starts a meter, which is to be stopped.
func startStallMeter() *stallMeter {
	m := &stallMeter{begin: time.Now(), cpu: startCPUMeter(), quit: make(chan struct{}), done: make(chan struct{})}
	go m.run()
	return m
}

func (m *stallMeter) run() {
	defer close(m.done)
	timer := time.NewTimer(stallPeriod)
	defer timer.Stop()
	for {
		due := time.Now().Add(stallPeriod)
		select {
		case <-m.quit:
			return
		case <-timer.C:
			late := int64(time.Since(due))
			m.max.Store(max(m.max.Load(), late))
			m.total.Add(late)
			timer.Reset(stallPeriod)
		}
	}
}

// read adds what the meter has seen so far to the conditions of an attempt. A meter that is nil has seen nothing.
func (m *stallMeter) read(c *Conditions) {
	if m == nil {
		return
	}
	m.cpu.read(c)
	c.Stall = Elapsed(m.max.Load())
	if all := time.Since(m.begin); all > 0 {
		c.Stalled = min(float64(m.total.Load())/float64(all), 1)
	}
}

// stop ends the meter.
func (m *stallMeter) stop() {
	close(m.quit)
	<-m.done
}
