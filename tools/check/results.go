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

// results holds the result of every test and step by name: "skip", "pass", "slow" or "fail". Of several results of one
// name the last in this order counts.
type results map[string]string

var worse = map[string]int{"skip": 1, "pass": 2, "slow": 3, "fail": 4}

func (r results) set(name, action string) {
	if worse[action] > worse[r[name]] {
		r[name] = action
	}
}

// step notes the result of a step. A step that runs tests and passes is not counted, since its tests are.
func (r results) step(name, action string) {
	if action == "pass" && (name == "test" || name == "race") {
		return
	}
	r.set("step "+name, action)
}

func (r results) count() (passed, failed, skipped, slow int) {
	for _, a := range r {
		switch a {
		case "pass":
			passed++
		case "fail":
			failed++
		case "skip":
			skipped++
		case "slow":
			slow++
		}
	}
	return passed, failed, skipped, slow
}

// failed returns the number of failures.
func (r results) failed() int {
	_, failed, _, _ := r.count()
	return failed
}

// report prints the names of what failed, without tests whose subtests did.
func (r results) report(w io.Writer) {
	names := slices.Sorted(maps.Keys(r))
	for i, name := range names {
		if r[name] == "fail" && !slices.ContainsFunc(names[i+1:], func(sub string) bool {
			return r[sub] == "fail" && strings.HasPrefix(sub, name+"/")
		}) {
			fmt.Fprintf(w, "FAIL %s\n", name)
		}
	}
}

// tests reads the output of go test -json and records every result. It prints a line per package, the output of failed
// tests and the reasons of skipped ones. For a package that ends with unfinished tests (time limit or crash), it prints
// their names and output, with the module's goroutines first. Lines that are not events are copied. The first lines of
// what failed are noted in ends.
func (r results) tests(in io.Reader, out io.Writer, module string, ends *ends) error {
	open := unfinished{}
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		var e event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			fmt.Fprintln(out, sc.Text())
			continue
		}
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "run", "output":
			open.note(e)
		case "fail", "skip", "pass":
			text := open.end(e)
			if e.Test != "" {
				r.testEnded(e, text, out)
				if e.Action == "fail" {
					ends.addStart(e.Package+" "+e.Test, text)
				}
				continue
			}
			left := open.takePackage(e.Package)
			if e.Action != "fail" {
				left = nil
			}
			for _, t := range left {
				r.set(t.key(), "fail")
				fmt.Fprintf(out, "FAIL  %s did not end\n", t.key())
			}
			for _, t := range left {
				printOutput(out, t.text.String(), module)
				ends.addStart(t.key()+" did not end", t.text.String())
			}
			if e.Action == "fail" && !r.anyFailed(e.Package) {
				ends.addStart(e.Package, text)
			}
			r.packageEnded(e, text, out, module)
		}
	}
	// go test was stopped.
	for _, t := range open.all() {
		if t.test != "" {
			fmt.Fprintf(out, "stopped  %s\n", t.key())
		}
	}
	return sc.Err()
}

func (r results) testEnded(e event, text string, out io.Writer) {
	key := e.Package + " " + e.Test
	r.set(key, e.Action)
	switch {
	case text == "":
	case e.Action == "fail":
		fmt.Fprint(out, text)
	case e.Action == "skip":
		fmt.Fprintf(out, "skip  %s: %s\n", key, reason(text))
	}
}

func (r results) packageEnded(e event, text string, out io.Writer, module string) {
	switch e.Action {
	case "fail":
		// Without a failed test it is a build error, a panic outside tests or a leak, and the package itself counts.
		if !r.anyFailed(e.Package) {
			r.set(e.Package, "fail")
		}
		printOutput(out, text, module)
		fmt.Fprintf(out, "FAIL  %s\n", e.Package)
	case "pass":
		fmt.Fprintf(out, "ok    %s  %.1fs\n", e.Package, e.Elapsed)
	}
}

// printOutput prints what a package or a test that failed printed; the goroutines of a panic are sorted.
func printOutput(out io.Writer, text, module string) {
	if d, ok := parseDump(text, module); ok {
		d.print(out)
		return
	}
	fmt.Fprint(out, text)
}

// unfinished holds the output of tests and packages that have not ended, in the order of their start.
type unfinished []*running

type running struct {
	pkg, test string // test is empty for the package itself
	text      strings.Builder
}

func (t *running) key() string { return strings.TrimSpace(t.pkg + " " + t.test) }

func (u *unfinished) find(e event) int {
	return slices.IndexFunc(*u, func(t *running) bool { return t.pkg == e.Package && t.test == e.Test })
}

// note adds the output of an event.
func (u *unfinished) note(e event) {
	i := u.find(e)
	if i < 0 {
		i = len(*u)
		*u = append(*u, &running{pkg: e.Package, test: e.Test})
	}
	(*u)[i].text.WriteString(e.Output)
}

// end removes what an event ends, and returns its output.
func (u *unfinished) end(e event) string {
	i := u.find(e)
	if i < 0 {
		return ""
	}
	text := (*u)[i].text.String()
	*u = slices.Delete(*u, i, i+1)
	return text
}

// takePackage removes and returns the tests of a package.
func (u *unfinished) takePackage(pkg string) (tests []*running) {
	*u = slices.DeleteFunc(*u, func(t *running) bool {
		if t.pkg == pkg {
			tests = append(tests, t)
		}
		return t.pkg == pkg
	})
	return tests
}

func (u *unfinished) all() []*running { return *u }

// reason returns what a skipped test logged, on one line, without the lines of the test runner.
func reason(text string) string {
	var l []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "=== ") &&
			!strings.HasPrefix(line, "--- ") {
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
