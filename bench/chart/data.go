package chart

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"ciddk/bench"
)

// ours is the name of the first bar of each group. The operation's name stands below the group.
const ours = "reference HCA"

// data is the content of a picture.
type data struct {
	series []string // ours, then the yardsticks in order of first appearance
	panels []panel  // in ascending order of size
}

type panel struct {
	size   int // bytes of a message
	groups []group
}

// A group is an operation with its yardsticks.
type group struct {
	name string
	// bars has bytes a second or nanoseconds, by the table, for each series; 0 where the case has no such yardstick.
	bars []float64
}

// collect returns the data of one table's results and ignores those of other tables. It fails if there is nothing to
// draw or if a figure cannot be the result of a measurement.
func collect(t bench.Table, results []bench.Result) (data, error) {
	d := data{series: []string{ours}}
	fail := func(err error) (data, error) { return d, fmt.Errorf("chart of %v: %w", t, err) }
	if t != bench.Bandwidth && t != bench.Latency {
		return fail(fmt.Errorf("only %v and %v are by message size", bench.Bandwidth, bench.Latency))
	}
	if results = bench.Of(results, t); len(results) == 0 {
		return fail(errors.New("no such case was measured"))
	}
	for _, r := range results {
		for _, y := range r.Yards {
			if !slices.Contains(d.series, y.Name) {
				d.series = append(d.series, y.Name)
			}
		}
	}
	for _, r := range results {
		if err := d.add(r); err != nil {
			return fail(fmt.Errorf("%s: %w", r.Name, err))
		}
	}
	slices.SortFunc(d.panels, func(a, b panel) int { return cmp.Compare(a.size, b.size) })
	return d, nil
}

func (d *data) add(r bench.Result) error {
	switch {
	case r.Bytes <= 0:
		return fmt.Errorf("messages of %d bytes", r.Bytes)
	case len(r.Ours) == 0:
		return errors.New("no operation was measured")
	case len(r.Entries) != len(r.Ours)+len(r.Yards):
		return fmt.Errorf("%d entries have figures, of %d", len(r.Entries), len(r.Ours)+len(r.Yards))
	}
	at := slices.IndexFunc(d.panels, func(p panel) bool { return p.size == r.Bytes })
	if at < 0 {
		at = len(d.panels)
		d.panels = append(d.panels, panel{size: r.Bytes})
	}
	p := &d.panels[at]
	for i, o := range r.Ours {
		g := group{name: o.Name, bars: make([]float64, len(d.series))}
		var err error
		if g.bars[0], err = figure(r, o, i); err != nil {
			return err
		}
		for k, y := range r.Yards {
			if g.bars[slices.Index(d.series, y.Name)], err = figure(r, y, len(r.Ours)+k); err != nil {
				return err
			}
		}
		p.groups = append(p.groups, g)
	}
	return nil
}

// figure returns an entry's figure in the table: the best round, in bytes per second or in nanoseconds.
func figure(r bench.Result, e bench.Entry, at int) (float64, error) {
	f := r.Entries[at]
	if len(f.NS) == 0 {
		return 0, fmt.Errorf("%s has no round", e.Name)
	}
	v := f.Best()
	if r.Table == bench.Bandwidth {
		v = float64(r.Bytes) * 1e9 / v
	}
	if !(v > 0) || math.IsInf(v, 1) { // false for NaN, too
		return 0, fmt.Errorf("%s took %v ns for a message, which cannot be drawn: want a time above 0",
			e.Name, f.Best())
	}
	return v, nil
}

// most returns the highest bar.
func (p panel) most() float64 {
	var most float64
	for _, g := range p.groups {
		most = max(most, slices.Max(g.bars))
	}
	return most
}

// A unit is the unit of a panel's axis.
type unit struct {
	name string
	size float64 // in bytes per second or nanoseconds
}

var units = map[bench.Table][]unit{
	bench.Bandwidth: {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}},
	bench.Latency:   {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}},
}

// unitOf returns the largest unit that is not larger than the highest bar.
func unitOf(t bench.Table, most float64) unit {
	l := units[t]
	for i := len(l) - 1; i > 0; i-- {
		if most >= l[i].size {
			return l[i]
		}
	}
	return l[0]
}
