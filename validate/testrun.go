package validate

import (
	"flag"
	"regexp"
	"slices"
	"strings"
)

// TestCommand is the command that runs a case of the report again, if TestDriver made the report; else it is empty. It is for the folder of the test.
func (r *Report) TestCommand(id string) string {
	if r.Run.Test == "" {
		return ""
	}
	var path []string
	for _, p := range append(strings.Split(r.Run.Test, "/"), id) {
		path = append(path, "^"+regexp.QuoteMeta(p)+"$")
	}
	return "go test -run '" + strings.ReplaceAll(strings.Join(path, "/"), "'", `'\''`) + "'"
}

// asked narrows a selection to the cases that go test's -run names below the test, so that a case can be run again without the others.
// narrowed is false if -run does not speak about cases.
func asked(c *Catalog, s Selection, test string) (out Selection, narrowed bool, err error) {
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

// casePattern is the element of a -run argument at a depth: package testing matches one expression for each level of subtests, with slashes between
// them outside of brackets. nil: there is none, or the argument is one of alternatives with levels of their own, which testing alone sorts out.
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
		return nil // testing has refused it already
	}
	return re
}
