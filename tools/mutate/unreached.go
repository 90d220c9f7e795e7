package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// unreached prints the lines that have a mutant and that no certification executes: what no case can judge. It makes
// each certification of the folders once, with one mutant of each line, of which none is selected.
func unreached(ctx context.Context, j *judge, all []mutant, exclusions []exclusion, w io.Writer) error {
	lines := onePerLine(all, exclusions)
	if err := j.prepare(ctx, lines); err != nil {
		return err
	}
	if j.schema == nil {
		return fmt.Errorf("%d lines have mutants: one binary needs from %d to %d of them", len(lines), minGuarded,
			maxGuarded)
	}
	r := reach{j: j, bin: j.schema.bin, dir: j.dir, runs: map[string]*reachRun{}}
	total, missed, unknown := map[string]int{}, map[string]int{}, 0
	for _, m := range lines {
		n, ok := j.schema.numbers[m.id()]
		if !ok {
			unknown++ // needs a build of its own, or does not compile
			continue
		}
		folder := path.Dir(m.File)
		runs, err := routeOf(folder)
		if err != nil {
			return err
		}
		isReached := false
		for _, c := range runs {
			run, err := r.of(ctx, c)
			if err != nil {
				return err
			}
			if run.sites[n] != nil {
				isReached = true
				break
			}
		}
		total[folder]++
		if !isReached {
			missed[folder]++
			fmt.Fprintf(w, "%s:%d: in %s: %s\n", m.File, m.Line, m.Function, shorten(strings.TrimSpace(m.code)))
		}
	}
	fmt.Fprint(w, "\nlines with mutants, and those of them that no run executes:\n")
	for _, folder := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(w, "%-32s %5d %5d\n", folder, total[folder], missed[folder])
	}
	fmt.Fprintf(w, "%d more lines were not tried: their mutants cannot be guarded\n", unknown)
	return nil
}

// onePerLine returns one mutant of each line that has one that is not excluded, in the order of the source. It prefers
// those that are no removal, after which a variable is often unused.
func onePerLine(all []mutant, exclusions []exclusion) []*mutant {
	best := map[string]*mutant{}
	isRemoval := func(m *mutant) bool { return m.Operator == "delete" || m.Operator == "branch" }
	for i := range all {
		m := &all[i]
		if exclusionOf(exclusions, m) != nil {
			continue
		}
		place := fmt.Sprintf("%s:%d", m.File, m.Line)
		if o := best[place]; o == nil || isRemoval(o) && !isRemoval(m) {
			best[place] = m
		}
	}
	list := slices.Collect(maps.Values(best))
	slices.SortStableFunc(list, func(a, b *mutant) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return list
}
