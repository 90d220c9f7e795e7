package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
	ImportPath                    string
	FailedBuild                   string
}

// results holds the worst result of every test and step by name; "fail" is worse than "pass", and "pass" than "skip".
type results map[string]string

var worse = map[string]int{"skip": 1, "pass": 2, "fail": 3}

func (r results) set(name, action string) {
	if worse[action] > worse[r[name]] {
		r[name] = action
	}
}

// step notes the result of a step. A step that runs tests has only its tests counted, unless it failed without a failing test.
func (r results) step(name, action string) {
	if action != "fail" && (name == "test" || name == "race") {
		return
	}
	r.set("step "+name, action)
}

func (r results) count() (passed, failed, skipped int) {
	for _, a := range r {
		switch a {
		case "pass":
			passed++
		case "fail":
			failed++
		case "skip":
			skipped++
		}
	}
	return passed, failed, skipped
}

// report names what failed.
func (r results) report(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if r[name] == "fail" {
			fmt.Fprintf(w, "FAIL %s\n", name)
		}
	}
}

// tests reads go test -json from in, prints a line per package, the output of what failed and the reasons of what was skipped, and notes
// every result. Lines that are no events are passed on.
func (r results) tests(in io.Reader, out io.Writer) error {
	text := map[string]*strings.Builder{}
	note := func(key, s string) {
		if text[key] == nil {
			text[key] = &strings.Builder{}
		}
		text[key].WriteString(s)
	}
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		var e event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			fmt.Fprintln(out, sc.Text())
			continue
		}
		key := strings.TrimSpace(e.Package + " " + e.Test)
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "output":
			note(key, e.Output)
		case "fail", "skip", "pass":
			r.finished(e, key, text[key], out)
			delete(text, key)
		}
	}
	return sc.Err()
}

func (r results) finished(e event, key string, text *strings.Builder, out io.Writer) {
	switch {
	case e.Test != "":
		r.set(key, e.Action)
		switch {
		case text == nil:
		case e.Action == "fail":
			fmt.Fprint(out, text)
		case e.Action == "skip":
			fmt.Fprintf(out, "skip  %s: %s\n", key, reason(text.String()))
		}
	case e.Action == "fail":
		// Without a failing test it is a build error, a panic outside tests, a leak or the time limit: the package itself counts.
		if !r.anyFailed(e.Package) {
			r.set(e.Package, "fail")
		}
		if text != nil {
			fmt.Fprint(out, text)
		}
		fmt.Fprintf(out, "FAIL  %s\n", e.Package)
	case e.Action == "pass":
		fmt.Fprintf(out, "ok    %s  %.1fs\n", e.Package, e.Elapsed)
	}
}

// reason gives what a skipped test logged, on one line, without the lines of the test runner.
func reason(text string) string {
	var l []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			l = append(l, line)
		}
	}
	return strings.Join(l, " ")
}

func (r results) anyFailed(pkg string) bool {
	for name, a := range r {
		if a == "fail" && strings.HasPrefix(name, pkg+" ") {
			return true
		}
	}
	return false
}
