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

// impairer implements validate.Target.Impair. It wraps every port of a target and decides for each packet that a port
// sends, so that both directions of the link are treated alike. At first it does not impair the link.
type impairer struct {
	isOff atomic.Bool // read for every packet

	mu  sync.Mutex
	now validate.Impairment
	rnd *rand.Rand
}

// maxDelay limits the time that the ports hold a packet.
const maxDelay = 20 * time.Millisecond

func newImpairer() *impairer {
	i := &impairer{}
	i.isOff.Store(true)
	return i
}

// wrap returns a port whose packets pass the impairer.
func (i *impairer) wrap(open openPort) openPort {
	held := impair.Model{MaxDelay: maxDelay}
	return func() (rvt.Port, error) {
		p, err := open()
		if err != nil {
			return nil, err
		}
		return impair.New(p, impair.Config{Out: held, In: held, Filter: i.verdict})
	}
}

// set implements validate.Target.Impair.
func (i *impairer) set(v validate.Impairment) error {
	if v.Delay > maxDelay {
		return fmt.Errorf("a delay of %v: this link can hold a packet for at most %v", v.Delay, maxDelay)
	}
	for _, p := range []float64{v.Drop, v.Duplicate, v.Reorder, v.Corrupt} {
		if p < 0 || p > 1 {
			return fmt.Errorf("probability %v: want 0 to 1", p)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now, i.rnd = v, rand.New(rand.NewPCG(v.Seed, 0x77656174686572))
	v.Seed = 0
	i.isOff.Store(v == validate.Impairment{})
	return nil
}

// verdict decides what happens to a packet.
func (i *impairer) verdict(d rvt.Direction, _ *rvt.Packet) impair.Verdict {
	if d != rvt.Sent || i.isOff.Load() {
		return impair.Pass
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now.Cut {
		return impair.Drop
	}
	for _, x := range []struct {
		p float64
		v impair.Verdict
	}{
		{i.now.Drop, impair.Drop}, {i.now.Duplicate, impair.Duplicate}, {i.now.Reorder, impair.Reorder},
		{i.now.Corrupt, impair.Corrupt},
	} {
		if x.p > 0 && i.rnd.Float64() < x.p {
			return x.v
		}
	}
	if i.now.Delay > 0 {
		return impair.Delay
	}
	return impair.Pass
}
