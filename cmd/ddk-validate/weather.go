package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/link/impair"
	"ciddk/rvt"
	"ciddk/validate"
)

// weather is what validate.Target.Impair commands: it stands in front of every port of a target and decides the fate of each packet that leaves
// one, so that both directions of the link are treated alike. Fair weather, the start, lets everything through.
type weather struct {
	fair atomic.Bool // read for every packet

	mu  sync.Mutex
	i   validate.Impairment
	rnd *rand.Rand
}

// longestDelay is what the ports may hold a packet for.
const longestDelay = 20 * time.Millisecond

func newWeather() *weather {
	w := &weather{}
	w.fair.Store(true)
	return w
}

// over returns a port with the weather in front.
func (w *weather) over(open openPort) openPort {
	held := impair.Model{MaxDelay: longestDelay}
	return func() (rvt.Port, error) {
		p, err := open()
		if err != nil {
			return nil, err
		}
		return impair.New(p, impair.Config{Out: held, In: held, Filter: w.fate})
	}
}

// set is Target.Impair.
func (w *weather) set(i validate.Impairment) error {
	if i.Delay > longestDelay {
		return fmt.Errorf("a delay of %v: this link can hold a packet for at most %v", i.Delay, longestDelay)
	}
	for _, p := range []float64{i.Drop, i.Duplicate, i.Reorder, i.Corrupt} {
		if p < 0 || p > 1 {
			return fmt.Errorf("probability %v: want 0 to 1", p)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.i, w.rnd = i, rand.New(rand.NewPCG(i.Seed, 0x77656174686572))
	i.Seed = 0
	w.fair.Store(i == validate.Impairment{})
	return nil
}

// fate decides on a packet.
func (w *weather) fate(d rvt.Direction, _ *rvt.Packet) impair.Verdict {
	if d != rvt.Sent || w.fair.Load() {
		return impair.Pass
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.i.Cut {
		return impair.Drop
	}
	for _, x := range []struct {
		p float64
		v impair.Verdict
	}{{w.i.Drop, impair.Drop}, {w.i.Duplicate, impair.Duplicate}, {w.i.Reorder, impair.Reorder}, {w.i.Corrupt, impair.Corrupt}} {
		if x.p > 0 && w.rnd.Float64() < x.p {
			return x.v
		}
	}
	if w.i.Delay > 0 {
		return impair.Delay
	}
	return impair.Pass
}
