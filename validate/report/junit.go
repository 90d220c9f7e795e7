package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"ciddk/validate"
)

// JUnit writes the report as JUnit XML. It has a suite for each feature and a test case for each case, whose class name
// is the case's area. So that a CI service agrees with the exit status, failures that do not deny the certificate
// (SHOULD and below) and waived ones are skipped test cases with the reason. A flaky case is a failure of type flaky,
// and an inconclusive one an error of type inconclusive.
func JUnit(w io.Writer, r *validate.Report) error {
	all := junit.Testsuites{Name: "ddk-validate " + r.Run.Driver, Time: seconds(r.Timing.Elapsed)}
	for i, row := range r.ByFeature() {
		s := junit.Testsuite{Name: row.Name, ID: i, Timestamp: r.Timing.Started}
		for _, p := range [][2]string{
			{"driver", r.Run.Driver}, {"profile", r.Run.Profile}, {"link", r.Run.Link},
			{"seed", strconv.FormatUint(r.Run.Seed, 10)}, {"verdict", r.Verdict.Line},
			{"tool", r.Tool.String()}, {"host", r.Host.String()},
		} {
			s.AddProperty(p[0], p[1])
		}
		total := 0.0
		for j := range r.Results {
			if x := &r.Results[j]; string(x.Feature) == row.Name {
				total += r.Timing.Cases[x.Case]
				s.AddTestcase(testcase(r, x))
			}
		}
		s.Time = seconds(total)
		all.AddSuite(s)
	}
	if r.Verdict.Outcome == validate.OutcomeUntested {
		all.AddSuite(untestedClaims(r))
	}
	if _, err := io.WriteString(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"); err != nil {
		return err
	}
	return all.WriteXML(w)
}

// untestedClaims returns a suite of the claims that no case tests. Each is an error.
func untestedClaims(r *validate.Report) junit.Testsuite {
	s := junit.Testsuite{
		Name: "claimed and not tested", ID: len(r.ByFeature()), Timestamp: r.Timing.Started, Time: seconds(0),
	}
	for _, u := range r.Untested {
		s.AddTestcase(junit.Testcase{
			Name: clean(u.Claim), Classname: "untested", Time: seconds(0),
			Error: &junit.Result{Message: clean(u.Why), Type: "untested"},
		})
	}
	return s
}

func testcase(r *validate.Report, x *validate.Result) junit.Testcase {
	tc := junit.Testcase{
		Name: clean(x.Case), Classname: clean(area(x.Case)), Time: seconds(r.Timing.Cases[x.Case]),
		Status: string(x.Status),
	}
	switch {
	case x.Status == validate.Skip:
		tc.Skipped = &junit.Result{Message: clean(x.Reason)}
	case x.Status == validate.Waived:
		tc.Skipped = &junit.Result{Message: clean("waived: " + x.Reason), Data: clean(evidence(x))}
	case x.Status == validate.Error:
		tc.Error = &junit.Result{Message: clean(x.Reason), Type: "harness", Data: clean(evidence(x))}
	case x.Status == validate.Inconclusive && r.Decisive(x):
		tc.Error = &junit.Result{
			Message: clean("inconclusive: " + x.Reason),
			Type:    "inconclusive",
			Data:    clean(Block(r, x)),
		}
	case x.Status == validate.Inconclusive:
		tc.Skipped = &junit.Result{Message: clean("inconclusive: " + x.Reason), Data: clean(Block(r, x))}
	case x.Status == validate.Flaky && r.Decisive(x):
		tc.Failure = &junit.Result{Message: clean("flaky: " + headline(x)), Type: "flaky", Data: clean(Block(r, x))}
	case r.Decisive(x):
		tc.Failure = &junit.Result{Message: clean(headline(x)), Type: x.Requirement, Data: clean(Block(r, x))}
	case x.Status == validate.Fail, x.Status == validate.Flaky:
		text := fmt.Sprintf("%s not met: %s", x.Level, headline(x))
		tc.Skipped = &junit.Result{Message: clean(text), Data: clean(Block(r, x))}
	}
	if len(x.Log) > 0 && x.Status != validate.Pass {
		tc.SystemOut = &junit.Output{Data: clean(strings.Join(x.Log, "\n"))}
	}
	return tc
}

// area returns the first part of a case's id.
func area(id string) string {
	a, _, _ := strings.Cut(id, ".")
	return a
}

// headline returns the first failure, or the reason if there is none, for a single line.
func headline(x *validate.Result) string {
	if len(x.Failures) == 0 {
		return x.Reason
	}
	return x.Failures[0].String()
}

func evidence(x *validate.Result) string {
	var b strings.Builder
	for _, f := range x.Failures {
		fmt.Fprintf(&b, "%s: %s\n", f.Rule, f)
	}
	for _, n := range x.Notes {
		fmt.Fprintf(&b, "%s: %s\n", n.Kind, n.Text)
	}
	return b.String()
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }

// clean removes the characters that XML 1.0 cannot contain even as escapes, since a driver can print anything.
// encoding/xml itself handles "]]>".
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if isXML(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(s, "?"))
}

// isXML reports whether c is a Char of XML 1.0, section 2.2.
func isXML(c rune) bool {
	switch {
	case c < 0x20:
		return c == '\t' || c == '\n' || c == '\r'
	case c <= 0xd7ff:
		return true
	}
	return c >= 0xe000 && c <= 0xfffd || c >= 0x10000
}
