package validate

import (
	"sync/atomic"
	"time"
)

// stallPeriod is the interval at which the machine's delay is sampled.
const stallPeriod = 10 * time.Millisecond

// stallMeter measures how late the machine runs a goroutine that is due.
type stallMeter struct {
	begin      time.Time
	cpu        cpuMeter
	max, total atomic.Int64
	quit, done chan struct{}
}

// startStallMeter starts a meter. The caller must stop it.
func startStallMeter() *stallMeter {
	m := &stallMeter{begin: time.Now(), cpu: startCPUMeter(0), quit: make(chan struct{}), done: make(chan struct{})}
	go m.run()
	return m
}

func (s *stallMeter) run() {
	defer close(s.done)
	timer := time.NewTimer(stallPeriod)
	defer timer.Stop()
	for {
		due := time.Now().Add(stallPeriod)
		select {
		case <-s.quit:
			return
		case <-timer.C:
			late := int64(time.Since(due))
			s.max.Store(max(s.max.Load(), late))
			s.total.Add(late)
			timer.Reset(stallPeriod)
		}
	}
}

// read adds the measurements so far to the conditions of an attempt. It does nothing if the meter is nil.
func (s *stallMeter) read(c *Conditions) {
	if s == nil {
		return
	}
	s.cpu.read(c)
	c.Stall = Elapsed(s.max.Load())
	if all := time.Since(s.begin); all > 0 {
		c.Stalled = min(float64(s.total.Load())/float64(all), 1)
	}
}

// stop ends the meter.
func (s *stallMeter) stop() {
	close(s.quit)
	<-s.done
}
