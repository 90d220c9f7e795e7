package bench

import (
	"fmt"
	"slices"
	"time"
)

// Case is one comparison.
type Case struct {
	Name      string
	Ours      string  // what runs through ci
	Yardstick string  // what it is held against
	Want      float64 // the ratio wanted
	AtLeast   bool    // a ratio of speeds, wanted at least; else of times, wanted at most
	Op        string  // what one operation is
	Bytes     int     // that an operation moves

	open func() (rig, error)
}

// rig is a case, set up.
type rig interface {
	ours() (Sample, error)
	yardstick() (Sample, error)
	close() error
}

// Sample is one round of one side of a case.
type Sample struct {
	Time   time.Duration
	Ops    int
	Allocs uint64 // in all processes
}

// perOp is nanoseconds.
func (s Sample) perOp() float64 { return float64(s.Time.Nanoseconds()) / float64(s.Ops) }

// Result is what came of a case. Times are nanoseconds for one operation.
type Result struct {
	Case
	OursNS, YardNS []float64 // round by round
	AllocsPerOp    float64
}

// Run sets the case up, lets it and its yardstick run in turns, at least one round each, and takes everything down again. A first round
// of both, to warm up, does not count.
func (c Case) Run(rounds int) (_ Result, err error) {
	r := Result{Case: c}
	g, err := c.open()
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	defer func() {
		if e := g.close(); err == nil && e != nil {
			err = fmt.Errorf("%s: closing: %w", c.Name, e)
		}
	}()
	var ops int
	var allocs uint64
	for i := range 1 + max(rounds, 1) {
		o, err := g.ours()
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.Name, err)
		}
		y, err := g.yardstick()
		if err != nil {
			return r, fmt.Errorf("%s: yardstick: %w", c.Name, err)
		}
		if i == 0 {
			continue
		}
		r.OursNS, r.YardNS = append(r.OursNS, o.perOp()), append(r.YardNS, y.perOp())
		ops += o.Ops
		allocs += o.Allocs
	}
	r.AllocsPerOp = float64(allocs) / float64(ops)
	return r, nil
}

// Ratio compares the best round of each side: what else the machine does can only make a round slower.
func (r Result) Ratio() float64 { return r.ratio(slices.Min(r.OursNS), slices.Min(r.YardNS)) }

// MedianRatio compares the medians.
func (r Result) MedianRatio() float64 { return r.ratio(median(r.OursNS), median(r.YardNS)) }

func (r Result) ratio(ours, yard float64) float64 {
	if r.AtLeast {
		return yard / ours
	}
	return ours / yard
}

// Met tells whether the ratio is the one wanted.
func (r Result) Met() bool {
	if r.AtLeast {
		return r.Ratio() >= r.Want
	}
	return r.Ratio() <= r.Want
}

func median(l []float64) float64 {
	l = slices.Sorted(slices.Values(l))
	return l[len(l)/2]
}
