package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Table is the kind of table in which a case is shown.
type Table int

// Tables.
const (
	Ratios    Table = iota // one line per case: the ratio, and whether it meets the limit
	Bandwidth              // one line for each of Ours: bytes and messages per second, beside each yardstick
	Latency                // one line for each of Ours: median and 99th percentile, beside each yardstick
	Delay                  // one line for each of Ours: median, 99th percentile and maximum, beside the first yardstick
)

// String returns a word for names of files and for messages.
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

// An Entry is one of the measurements that take turns in a case.
type Entry struct {
	Name string // one or two words: the heading of a column or of a row
	What string // description in the legend
}

// A Case is a comparison of each of Ours with each of Yards. They take turns.
type Case struct {
	Name    string
	Table   Table
	Ours    []Entry // work through ci
	Yards   []Entry // yardsticks; Want applies to the first
	Want    float64 // the required ratio, or the longest permitted delay in nanoseconds; 0: none
	AtLeast bool    // Want is a ratio of speeds and a minimum; otherwise a ratio of times and a maximum
	Op      string  // name of one operation
	Bytes   int     // per operation; 0: the table of ratios shows operations per second
	Link    string  // type of link, in the table Delay
	More    float64 // the most nanoseconds that Ours may take longer than the first of Yards; 0: Want applies
	Calls   float64 // the most system calls per operation; 0: they are not counted

	Warm bool // the rig warms itself up
	Open func() (Rig, error)
}

// A Rig is a case that has been set up.
type Rig interface {
	// Run executes one round of an entry. Entries are numbered from 0, Ours before Yards.
	Run(entry int) (Sample, error)
	Close() error
}

// A Sample is the result of one round of one entry.
type Sample struct {
	Time   time.Duration
	Ops    int
	Allocs uint64 // in all processes
	// Times of single operations, if they were measured. Time is then not meaningful.
	Median, P99 time.Duration
	Max         time.Duration // maximum; 0: not measured
	Calls       Calls
}

// perOp returns the time of an operation in nanoseconds.
func (s Sample) perOp() float64 {
	if s.Median > 0 {
		return float64(s.Median.Nanoseconds())
	}
	return float64(s.Time.Nanoseconds()) / float64(s.Ops)
}

// Figures are the results of an entry, one element per round, in nanoseconds per operation.
type Figures struct {
	NS  []float64 // the mean, or the median where single operations were timed
	P99 []float64 // 99th percentile, where single operations were timed
	Max []float64 // maximum, where it was measured
}

// Best returns the best round. Other work of the machine can only make a round slower.
func (f Figures) Best() float64 { return slices.Min(f.NS) }

// Median returns the median of the rounds.
func (f Figures) Median() float64 { return median(f.NS) }

// A Result is the result of a case.
type Result struct {
	Case
	Entries     []Figures // Ours, then Yards
	AllocsPerOp float64   // of the first of Ours
	Calls       Calls     // of the first of Ours, in all rounds
	Ops         int       // in these rounds
}

// Run sets the case up, runs all entries in turn for at least the given number of rounds, and closes the rig. The first
// round of each entry is for warming up and does not count, unless the case is Warm.
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
				r.Calls.add(s.Calls)
			}
		}
	}
	r.Ops, r.AllocsPerOp = ops, float64(allocs)/float64(ops)
	return r, nil
}

func (c Case) entry(i int) Entry {
	if i < len(c.Ours) {
		return c.Ours[i]
	}
	return c.Yards[i-len(c.Ours)]
}

// Ratio returns the ratio of the best rounds of one of Ours and one of Yards.
func (r Result) Ratio(ours, yard int) float64 {
	return r.ratio(r.Entries[ours].Best(), r.Entries[len(r.Ours)+yard].Best())
}

// MedianRatio returns the ratio of the medians of the rounds.
func (r Result) MedianRatio(ours, yard int) float64 {
	return r.ratio(r.Entries[ours].Median(), r.Entries[len(r.Ours)+yard].Median())
}

func (r Result) ratio(ours, yard float64) float64 {
	if r.AtLeast {
		return yard / ours
	}
	return ours / yard
}

// Added returns, in nanoseconds, by how much the longest operation of one of Ours exceeds that of the first of Yards.
// It compares the medians of the rounds. It is for the table Delay.
func (r Result) Added(ours int) float64 {
	return max(median(r.Entries[ours].Max)-median(r.Entries[len(r.Ours)].Max), 0)
}

// Met reports whether one of Ours meets the limit: its ratio to the first of Yards, or the delay that it Added.
func (r Result) Met(ours int) bool {
	if r.Table == Delay {
		return r.Added(ours) <= r.Want
	}
	if r.More > 0 {
		return r.Entries[ours].Median()-r.Entries[len(r.Ours)].Median() <= r.More
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
