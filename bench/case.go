package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Table is the table that shows a case.
type Table int

// The tables.
const (
	Ratios    Table = iota // one line a case: the ratio, and whether it is the one wanted
	Bandwidth              // one line for each of ours: bytes and messages a second, beside each yardstick
	Latency                // one line for each of ours: median and 99th percentile, beside each yardstick
	Delay                  // one line for each of ours: median, 99th percentile and longest, beside the first yardstick
)

// String is a word for names of files and messages.
func (t Table) String() string {
	switch t {
	case Ratios:
		return "ratios"
	case Bandwidth:
		return "bandwidth"
	case Latency:
		return "latency"
	case Delay:
		return "delay"
	}
	return fmt.Sprintf("Table(%d)", int(t))
}

// Entry is one of those that take turns in a case.
type Entry struct {
	Name string // a word or two: the head of a column or of a row
	What string // in the legend, what it is
}

// Case is one comparison: each of Ours beside each of the Yards, which take turns.
type Case struct {
	Name    string
	Table   Table
	Ours    []Entry // what runs through ci
	Yards   []Entry // what that is held against; Want is for the first
	Want    float64 // the ratio wanted, or the longest delay in nanoseconds; 0: none
	AtLeast bool    // a ratio of speeds, wanted at least; else of times, wanted at most
	Op      string  // what one operation is
	Bytes   int     // that an operation moves; 0: the table of ratios shows operations a second
	Link    string  // between the ends, in the table Delay

	Warm bool // rounds need no warming up: the rig does that itself
	Open func() (Rig, error)
}

// Rig is a case, set up.
type Rig interface {
	// Run makes one round of an entry: Ours count first, then Yards.
	Run(entry int) (Sample, error)
	Close() error
}

// Sample is one round of one entry.
type Sample struct {
	Time   time.Duration
	Ops    int
	Allocs uint64 // in all processes
	// Where each operation was timed: there is no Time then that says anything.
	Median, P99 time.Duration
	Max         time.Duration // the longest; 0: not noted
}

// perOp is nanoseconds.
func (s Sample) perOp() float64 {
	if s.Median > 0 {
		return float64(s.Median.Nanoseconds())
	}
	return float64(s.Time.Nanoseconds()) / float64(s.Ops)
}

// Figures are what came of an entry, round by round, in nanoseconds for one operation.
type Figures struct {
	NS  []float64 // the mean; where each operation was timed, the median
	P99 []float64 // where each operation was timed
	Max []float64 // the longest operation of the round, where it was noted
}

// Best is the best round: what else the machine does can only make one slower.
func (f Figures) Best() float64 { return slices.Min(f.NS) }

// Median is that of the rounds.
func (f Figures) Median() float64 { return median(f.NS) }

// Result is what came of a case.
type Result struct {
	Case
	Entries     []Figures // Ours, then Yards
	AllocsPerOp float64   // of the first of Ours
}

// Run sets the case up, lets all entries run in turns, at least one round each, and takes everything down again. A
// first round of each, to warm up, does not count, unless the case is Warm.
func (c Case) Run(rounds int) (_ Result, err error) {
	n := len(c.Ours) + len(c.Yards)
	r := Result{Case: c, Entries: make([]Figures, n)}
	g, err := c.Open()
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	defer func() {
		if e := g.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: closing: %w", c.Name, e))
		}
	}()
	var ops int
	var allocs uint64
	rounds = max(rounds, 1)
	if !c.Warm {
		rounds++
	}
	for round := range rounds {
		for i := range n {
			s, err := g.Run(i)
			if err != nil {
				return r, fmt.Errorf("%s: %s: %w", c.Name, c.entry(i).Name, err)
			}
			if round == 0 && !c.Warm {
				continue
			}
			f := &r.Entries[i]
			f.NS = append(f.NS, s.perOp())
			if s.P99 > 0 {
				f.P99 = append(f.P99, float64(s.P99.Nanoseconds()))
			}
			if s.Max > 0 {
				f.Max = append(f.Max, float64(s.Max.Nanoseconds()))
			}
			if i == 0 {
				ops += s.Ops
				allocs += s.Allocs
			}
		}
	}
	r.AllocsPerOp = float64(allocs) / float64(ops)
	return r, nil
}

func (c Case) entry(i int) Entry {
	if i < len(c.Ours) {
		return c.Ours[i]
	}
	return c.Yards[i-len(c.Ours)]
}

// Ratio compares the best rounds of one of Ours and one of Yards.
func (r Result) Ratio(ours, yard int) float64 {
	return r.ratio(r.Entries[ours].Best(), r.Entries[len(r.Ours)+yard].Best())
}

// MedianRatio compares the medians of the rounds.
func (r Result) MedianRatio(ours, yard int) float64 {
	return r.ratio(r.Entries[ours].Median(), r.Entries[len(r.Ours)+yard].Median())
}

func (r Result) ratio(ours, yard float64) float64 {
	if r.AtLeast {
		return yard / ours
	}
	return ours / yard
}

// Added returns by how much the longest operation of one of Ours exceeds that of the first of Yards, in nanoseconds:
// the medians of the rounds are compared. It is for the table Delay.
func (r Result) Added(ours int) float64 {
	return max(median(r.Entries[ours].Max)-median(r.Entries[len(r.Ours)].Max), 0)
}

// Met reports whether the ratio of one of Ours to the first of Yards, or what one of Ours has Added, is what is wanted.
func (r Result) Met(ours int) bool {
	if r.Table == Delay {
		return r.Added(ours) <= r.Want
	}
	if r.AtLeast {
		return r.Ratio(ours, 0) >= r.Want
	}
	return r.Ratio(ours, 0) <= r.Want
}

func median(l []float64) float64 {
	l = slices.Sorted(slices.Values(l))
	return l[len(l)/2]
}
