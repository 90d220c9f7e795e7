package validate

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
)

// TestCommand returns the command that runs a case of the report again in the folder of the test. It returns "" if the
// report was not made by TestDriver.
func (r *Report) TestCommand(id string) string {
	if r.Run.Test == "" {
		return ""
	}
	return "go test -run '" + strings.ReplaceAll(r.testPattern(id), "'", `'\''`) + "'"
}

// testPattern returns the argument of -run that selects a case.
func (r *Report) testPattern(id string) string {
	var path []string
	for _, p := range append(strings.Split(r.Run.Test, "/"), id) {
		path = append(path, "^"+regexp.QuoteMeta(p)+"$")
	}
	return strings.Join(path, "/")
}

// testFlag returns the flag of the test's program, or of go test, that selects a case.
func (r *Report) testFlag(id string) []string {
	if r.Run.Again[0] == "go" {
		return []string{"-run", r.testPattern(id)}
	}
	return []string{"-test.run", r.testPattern(id)}
}

// testWords returns the words that run a test again, without a selection: the program, and the flags that the test's
// own package has defined.
func testWords() []string {
	words := Program()
	for i, a := range os.Args[1:] {
		if strings.HasPrefix(strings.TrimLeft(a, "-"), "test.") {
			continue
		}
		return append(words, os.Args[i+1:]...)
	}
	return words
}

// selectByRunFlag narrows a selection to the cases that the flag -run of go test names as subtests of the test.
// narrowed is false if the flag names no subtests.
func selectByRunFlag(c *Catalog, s Selection, test string) (out Selection, narrowed bool, err error) {
	f := flag.Lookup("test.run")
	if f == nil {
		return s, false, nil
	}
	pattern := casePattern(f.Value.String(), strings.Count(test, "/")+1)
	if pattern == nil {
		return s, false, nil
	}
	cases, err := c.Select(s)
	if err != nil {
		return s, false, err
	}
	cases = slices.DeleteFunc(cases, func(x *Case) bool { return !pattern.MatchString(x.ID) })
	if len(cases) == 0 {
		return s, true, &NothingSelected{What: "-run " + f.Value.String()}
	}
	for _, x := range cases {
		out.Cases = append(out.Cases, x.ID)
	}
	return out, true, nil
}

// casePattern returns the element of a -run argument at a depth. Package testing matches one expression for each level
// of subtests; they are separated by slashes outside of brackets. casePattern returns nil if there is no such element,
// or if the argument has alternatives outside of brackets, which may have different levels.
func casePattern(run string, depth int) *regexp.Regexp {
	var parts []string
	begin, square, round := 0, 0, 0
	for i := 0; i < len(run); i++ {
		switch run[i] {
		case '\\':
			i++
		case '[':
			square++
		case ']':
			square = max(square-1, 0)
		case '(':
			if square == 0 {
				round++
			}
		case ')':
			if square == 0 {
				round--
			}
		case '/', '|':
			if square > 0 || round > 0 {
				continue
			}
			if run[i] == '|' {
				return nil
			}
			parts = append(parts, run[begin:i])
			begin = i + 1
		}
	}
	parts = append(parts, run[begin:])
	if depth >= len(parts) || parts[depth] == "" {
		return nil
	}
	re, err := regexp.Compile(parts[depth])
	if err != nil {
		return nil // package testing has rejected it already
	}
	return re
}
