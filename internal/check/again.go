package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A test that failed runs alone again, because a failure that only a busy machine shows should not hide what the rest
// of the run found. If it passes each time, it counts as flaky: the summary names it, and what it printed.
const (
	maxAgain   = 3 // more failures are no accident
	timesAgain = 3
)

// failure is a test that failed: the package and the name of a test that is not a subtest.
type failure struct{ pkg, test string }

// failures holds the failed tests of one go test, in order, and the packages with a failure that may not be repeated:
// a data race, a crash or a leak is a defect, whether it occurs again or not.
type failures struct {
	tests   []failure
	serious map[string]bool
}

// note records the result of a test that failed.
func (f *failures) note(pkg, test string) {
	if !strings.Contains(test, "/") {
		f.tests = append(f.tests, failure{pkg, test})
	}
}

// seen looks for signs of serious defects in a line of output.
func (f *failures) seen(pkg, line string) {
	if strings.HasPrefix(line, "WARNING: DATA RACE") || strings.HasPrefix(line, "panic: ") ||
		strings.HasPrefix(line, "fatal error: ") {
		f.setSerious(pkg)
	}
}

func (f *failures) setSerious(pkg string) {
	if f.serious == nil {
		f.serious = map[string]bool{}
	}
	f.serious[pkg] = true
}

// canRepeat reports whether every failure may be an accident.
func (f *failures) canRepeat() bool {
	return len(f.tests) > 0 && len(f.tests) <= maxAgain && len(f.serious) == 0
}

// repeat runs each failed test alone again. It reports whether all of them passed every time; those that did are flaky.
func (r *runner) repeat(ctx context.Context, flags []string, f failures) bool {
	all := true
	for _, t := range f.tests {
		args := append([]string{"test", "-count", fmt.Sprint(timesAgain), "-timeout", "11m",
			"-run", "^" + regexp.QuoteMeta(t.test) + "$"}, append(flags, t.pkg)...)
		fmt.Fprintf(r.out, "again, alone: go %s\n", strings.Join(args, " "))
		c := r.command(ctx, testEnv(flags), "go", args...)
		c.Stdout, c.Stderr = r.out, r.out
		if err := c.Run(); err != nil {
			all = false
			continue
		}
		r.results.setFlaky(t)
	}
	return all
}

// setFlaky changes the result of a test and its subtests from failed to flaky.
func (r results) setFlaky(t failure) {
	key := t.pkg + " " + t.test
	for name, action := range r {
		if action == "fail" && (name == key || strings.HasPrefix(name, key+"/")) {
			r[name] = "flaky"
		}
	}
}

// reportFlaky prints the names of flaky tests and returns their number.
func (r results) reportFlaky(w io.Writer) (n int) {
	for _, name := range r.with("flaky") {
		if _, test, _ := strings.Cut(name, " "); !strings.Contains(test, "/") {
			fmt.Fprintf(w, "FLAKY %s: it failed, and passed %d times alone\n", name, timesAgain)
			n++
		}
	}
	return n
}
