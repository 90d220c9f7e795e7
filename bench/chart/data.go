package chart

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"ciddk/bench"
)

// ours is what the first bar of each group is called: the operation itself stands below the group.
const ours = "reference HCA"

// data is what a picture shows.
type data struct {
	series []string // ours, then the yardsticks as they first appear
	panels []panel  // by size
}

type panel struct {
	size   int // of a message, in bytes
	groups []group
}

// group is an operation beside its yardsticks.
type group struct {
	name string
	// bars has bytes a second or nanoseconds, by the table, for each series; 0 where the case has no such yardstick.
	bars []float64
}

// collect takes the results of a table; those of others do not matter. Errors: there is nothing to draw, or a figure
// that no measurement gives.
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

// figure is what the table shows of an entry: the best round, as bytes a second or as nanoseconds.
func figure(r bench.Result, e bench.Entry, at int) (float64, error) {
	f := r.Entries[at]
	if len(f.NS) == 0 {
		return 0, fmt.Errorf("%s has no round", e.Name)
	}
	v := f.Best()
	if r.Table == bench.Bandwidth {
		v = float64(r.Bytes) * 1e9 / v
	}
	if !(v > 0) || math.IsInf(v, 1) { // neither is NaN
		return 0, fmt.Errorf("%s took %v ns for a message, which cannot be drawn: want a time above 0",
			e.Name, f.Best())
	}
	return v, nil
}

// most is the highest bar.
func (p panel) most() float64 {
	var most float64
	for _, g := range p.groups {
		most = max(most, slices.Max(g.bars))
	}
	return most
}

// unit is what a panel counts in.
type unit struct {
	name string
	size float64 // in bytes a second or nanoseconds
}

var units = map[bench.Table][]unit{
	bench.Bandwidth: {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}},
	bench.Latency:   {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}},
}

// unitOf is the largest one of which the highest bar has at least one.
func unitOf(t bench.Table, most float64) unit {
	l := units[t]
	for i := len(l) - 1; i > 0; i-- {
		if most >= l[i].size {
			return l[i]
		}
	}
	return l[0]
}
