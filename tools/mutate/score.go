package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// score counts the judged mutants of a sample.
type score struct {
	certifier int // killed by the certifier
	tests     int // survivors that the packages' tests killed
	survived  int // killed by neither
	isTested  bool
}

func scoreOf(results []result) score {
	var s score
	for _, r := range results {
		switch {
		case r.Verdict == killed:
			s.certifier++
		case r.Verdict == survived && r.Tests == killed:
			s.tests++
		case r.Verdict == survived:
			s.survived++
		}
		s.isTested = s.isTested || r.Tests != ""
	}
	return s
}

func (s score) judged() int { return s.certifier + s.tests + s.survived }

// percent is the share of mutants that the certifier killed, rounded down.
func (s score) percent() int { return share(s.certifier, s.judged()) }

// together is the share of mutants that the certifier or the tests killed, rounded down.
func (s score) together() int { return share(s.certifier+s.tests, s.judged()) }

func share(n, of int) int {
	if of == 0 {
		return 0
	}
	return 100 * n / of
}

// printReport writes the survivors, the exclusions of the sample, a table of packages and the score.
func printReport(w io.Writer, results []result, seed uint64, commit string) {
	sorted := slices.Clone(results)
	slices.SortFunc(sorted, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Start, b.Start))
	})
	for _, r := range sorted {
		if r.Verdict != survived {
			continue
		}
		by := ""
		if r.Tests == killed {
			by = " (the tests kill it)"
		}
		fmt.Fprintf(w, "survivor %s:%d: %s in %s%s\n%s\n", r.File, r.Line, r.Operator, r.Function, by, r.Diff)
	}
	reasons := map[string]int{}
	for _, r := range sorted {
		if r.Verdict == excluded {
			reasons[r.Detail]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(w, "excluded %4d  %s\n", reasons[reason], reason)
	}
	byPackage := map[string][]result{}
	for _, r := range sorted {
		byPackage[path.Dir(r.File)] = append(byPackage[path.Dir(r.File)], r)
	}
	for _, p := range slices.Sorted(maps.Keys(byPackage)) {
		if s := scoreOf(byPackage[p]); s.judged() > 0 {
			fmt.Fprintf(w, "%-28s %4d mutants, %3d%%%s\n", p, s.judged(), s.percent(), s.withTests())
		}
	}
	s := scoreOf(results)
	if s.judged() == 0 {
		fmt.Fprintf(w, "No mutant was judged in time (seed %d, commit %s)\n", seed, commit)
		return
	}
	fmt.Fprintf(w, "Mutation score: %d%%%s (%d of %d mutants killed by the certifier, seed %d, commit %s)\n",
		s.percent(),
		s.withTests(), s.certifier, s.judged(), seed, commit)
}

func (s score) withTests() string {
	if !s.isTested {
		return ""
	}
	return fmt.Sprintf(", with tests %d%%", s.together())
}

// failedCase returns the id of the first case that failed, or "" if the output of the certifier has none.
func failedCase(output string) string {
	_, list, ok := strings.Cut(output, "\nFailures\n")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(strings.TrimSpace(list), " ")
	return id
}

// complaint returns what a failed run says first about a failure: the name of the case after the heading of the
// certifier's report, or a line of a test or of a panic.
func complaint(output string) string {
	isNext := false
	for line := range strings.Lines(output) {
		text := oneLine(line)
		switch {
		case text == "":
		case isNext, strings.Contains(text, "FAIL"), strings.Contains(text, "panic:"):
			return shorten(text)
		case text == "Failures":
			isNext = true
		}
	}
	return shorten(oneLine(output))
}

// shorten limits a text to what fits into a line of the results.
func shorten(s string) string {
	const most = 160
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
