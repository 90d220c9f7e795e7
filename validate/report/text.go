package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"ciddk/validate"
	"ciddk/validate/req"
)

// Style sets whether text is colored. The zero Style is plain.
type Style struct{ Color bool }

func (s Style) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

var colors = map[validate.Status]string{
	validate.Pass: "32", validate.Fail: "31", validate.Flaky: "31", validate.Inconclusive: "35", validate.Skip: "2",
	validate.Waived: "33", validate.Error: "35",
}

// Status returns the word for a status, padded to six columns.
func (s Style) Status(x validate.Status) string { return s.paint(colors[x], fmt.Sprintf("%-6s", x)) }

// Rerun returns the command that runs a case of the report again (validate.Report.Again).
func Rerun(r *validate.Report, id string) string { return r.Again(id) }

// Block describes a case that did not pass: its rule, the expected and actual results, and further evidence if there is
// any. The last line is the command that runs it again.
func Block(r *validate.Report, x *validate.Result) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, strings.ReplaceAll(Printable(text), "\n", "\n            "))
		}
	}
	fmt.Fprintf(&b, "%s  %s\n", x.Case, x.Title)
	for _, f := range x.Failures {
		rq := rule(r, f.Rule)
		line("rule", fmt.Sprintf("%s  %s  %s", f.Rule, rq.Section, rq.Level))
		line("says", rq.Text)
		line("expected", f.Expected)
		line("got", f.Got)
		line("step", f.Step)
		line("where", f.Where)
		if f.Setup {
			line("stage", "set-up: the rule itself was not tested")
		}
		if f.Cause != "" {
			line("cause", string(f.Cause))
		}
		if f.Doubt != "" {
			line("doubt", doubts[f.Doubt])
		}
		if f.Stacks != "" {
			line("stacks", shorten(digest(f.Stacks), 30))
		}
	}
	for _, n := range x.Notes {
		line(string(n.Kind), n.Text)
	}
	if len(x.State) > 0 {
		line("state", shorten(strings.Join(x.State, "\n"), 20))
	}
	if len(x.Printed) > 0 {
		line("printed", lastLines(x.Printed, 10))
	}
	if len(x.Earlier) > 0 {
		cases := strings.Join(lastOf(x.Earlier, 10), ", ")
		line("earlier", "the cause may lie in a case that the same worker process ran before: "+cases)
	}
	if len(x.Log) > 0 {
		line("log", shorten(strings.Join(x.Log, "\n"), 20))
	}
	if x.Status == validate.Inconclusive {
		line("reason", x.Reason)
	}
	line("flaky", x.Flaky)
	for i, a := range x.Attempts {
		line("attempt", attempt(i, a))
	}
	line("capture", x.Capture)
	if again := Rerun(r, x.Case); again != "" { // as it is: control characters are quoted
		fmt.Fprintf(&b, "  %-9s %s\n", "again", again)
	}
	return b.String()
}

// doubts describes the kinds of doubt.
var doubts = map[validate.Doubt]string{
	validate.DoubtLoss:    "the link may have lost a packet, or the machine may have been too busy",
	validate.DoubtTime:    "the machine may have been too busy",
	validate.DoubtNetwork: "the network may have lost a packet",
}

// attempt describes one of several attempts in a line.
func attempt(i int, a validate.Attempt) string {
	s := fmt.Sprintf("%d: %s", i+1, a.Status)
	if a.Finding != "" {
		s += ": " + a.Finding
	}
	if a.Conditions != "" {
		s += " (" + a.Conditions + ")"
	}
	return s
}

// Printable returns s with control characters and invalid UTF-8 as escapes, except for newlines and tabs. Findings
// quote the output of drivers, which must not control a terminal.
func Printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r != '\n' && r != '\t' && unicode.IsControl(r):
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, "\\x%02x", c)
			}
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// rule returns the requirement with the id.
func rule(r *validate.Report, id string) req.Requirement {
	for _, c := range r.Requirements {
		if c.ID == id {
			return c.Requirement
		}
	}
	return req.Requirement{ID: id}
}

// digest returns the goroutines of a dump that matter: after a panic, the message and the goroutine that panicked;
// after a hang, those that run the case's code. The JSON report has the whole dump.
func digest(stacks string) string {
	parts := strings.Split(strings.TrimSpace(stacks), "\n\n")
	var out []string
	for _, p := range parts {
		isCase := strings.Contains(p, "ciddk/validate.(*T).guard")
		if isCase && !strings.Contains(p, "ciddk/validate.(*executor).run") {
			out = append(out, p)
		}
	}
	if found := strings.Contains(stacks, "panic: "); found || len(out) == 0 {
		return strings.Join(parts[:min(2, len(parts))], "\n\n")
	}
	return strings.Join(out, "\n\n")
}

// shorten returns the first n lines.
func shorten(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) <= n {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines[:n], "\n") + fmt.Sprintf("\n[%d more lines in the JSON report]", len(lines)-n)
}

// lastLines returns the last n lines.
func lastLines(lines []string, n int) string {
	s := strings.Join(lines[max(0, len(lines)-n):], "\n")
	if more := len(lines) - n; more > 0 {
		s = fmt.Sprintf("[%d earlier lines in the JSON report]\n", more) + s
	}
	return s
}

// lastOf returns the last n ids, the latest first.
func lastOf(ids []string, n int) []string {
	var out []string
	for i := len(ids) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, ids[i])
	}
	if more := len(ids) - n; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// Failures writes a block for each case that did not pass, those that deny the certificate first. It also writes the
// cases that could not be completed, and the claims that were not tested. Likely causes precede their consequences.
func Failures(w io.Writer, r *validate.Report, s Style) {
	lookFirst(w, s, r)
	for _, kind := range []struct {
		title string
		is    func(*validate.Result) bool
	}{
		{"Failures", func(x *validate.Result) bool { return failed(x) && r.Decisive(x) }},
		{"Recommendations not met", func(x *validate.Result) bool { return failed(x) && !r.Decisive(x) }},
		{"Inconclusive", func(x *validate.Result) bool { return x.Status == validate.Inconclusive }},
	} {
		first := true
		for _, x := range r.ByCause() {
			if kind.is(x) {
				if first {
					fmt.Fprintf(w, "\n%s\n", s.paint("1", kind.title))
					first = false
				}
				fmt.Fprintf(w, "\n%s", Block(r, x))
			}
		}
	}
	if r.Run.Unopened != "" {
		text := strings.ReplaceAll(Printable(r.Run.Unopened), "\n", "\n  ")
		fmt.Fprintf(w, "\n%s\n  %s\n", s.paint("1", "The driver could not be opened"), text)
	}
	listErrors(w, s, r)
	untested(w, s, r)
}

// failed reports whether the result is a finding against the driver.
func failed(x *validate.Result) bool { return x.Status == validate.Fail || x.Status == validate.Flaky }

// untested writes the claims that no case tests.
func untested(w io.Writer, s Style, r *validate.Report) {
	if len(r.Untested) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", s.paint("1", "Claimed and not tested"))
	for _, u := range r.Untested {
		fmt.Fprintf(w, "  %-18s %s\n", u.Claim, u.Why)
	}
}

// listErrors writes the cases that could not be completed. Those with the same reason are together, since there is
// often one reason for all.
func listErrors(w io.Writer, s Style, r *validate.Report) {
	var reasons []string
	cases := map[string][]string{}
	for i := range r.Results {
		if x := &r.Results[i]; x.Status == validate.Error {
			if cases[x.Reason] == nil {
				reasons = append(reasons, x.Reason)
			}
			cases[x.Reason] = append(cases[x.Reason], x.Case)
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.paint("1", "Could not be completed"))
	}
	for _, reason := range reasons {
		ids := cases[reason]
		line := strings.Join(ids[:min(len(ids), 5)], ", ")
		if more := len(ids) - 5; more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(w, "  %s\n    %s\n", line, Printable(reason))
	}
}

// Verdict returns the verdict line.
func (s Style) Verdict(r *validate.Report) string {
	switch r.Verdict.Outcome {
	case validate.OutcomePassed:
		return s.paint("1;32", r.Verdict.Line)
	case validate.OutcomeInconclusive, validate.OutcomeUntested:
		return s.paint("1;33", r.Verdict.Line)
	}
	return s.paint("1;31", r.Verdict.Line)
}

// Summary writes waivers, notes, remarks, the matrices by section and by feature, the coverage, driver, tool and host.
func Summary(w io.Writer, r *validate.Report, s Style) {
	list(w, s, "Waived", r, func(x *validate.Result) string {
		if x.Status == validate.Waived {
			return x.Reason
		}
		return ""
	})
	list(w, s, "Notes", r, func(x *validate.Result) string {
		if x.Status != validate.Pass || len(x.Notes) == 0 {
			return ""
		}
		var texts []string
		for _, n := range x.Notes {
			texts = append(texts, fmt.Sprintf("%s: %s", n.Kind, n.Text))
		}
		return strings.Join(texts, "\n    ")
	})
	if len(r.Remarks) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.paint("1", "Remarks"))
		for _, m := range r.Remarks {
			fmt.Fprintf(w, "  %s\n", m)
		}
	}
	Matrix(w, "By section", r.BySection(), s)
	Matrix(w, "By feature", r.ByFeature(), s)
	fmt.Fprintf(w, "\n%s\n", CoverageLine(r.Requirements))
	if r.Identity != nil {
		fmt.Fprintf(w, "Driver: %s\n", r.Identity)
	}
	fmt.Fprintf(w, "Tool: %s\nHost: %s\n", r.Tool, r.Host)
	notPassed(w, s, r)
}

// notPassed repeats the names of the cases that decide the verdict, because some places show only the end of a log.
func notPassed(w io.Writer, s Style, r *validate.Report) {
	const most = 8
	var names []string
	for _, x := range r.ByCause() {
		if x.Status != validate.Inconclusive && x.Status != validate.Error && !(failed(x) && r.Decisive(x)) {
			continue
		}
		names = append(names, fmt.Sprintf("  %s  %s", s.paint(colors[x.Status], string(x.Status)), x.Case))
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", s.paint("1", "Not passed"))
	for _, n := range names[:min(len(names), most)] {
		fmt.Fprintln(w, n)
	}
	if more := len(names) - most; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	lookFirst(w, s, r)
}

// lookFirst writes the likely causes of other failures.
func lookFirst(w io.Writer, s Style, r *validate.Report) {
	for _, l := range r.Verdict.LookFirst {
		fmt.Fprintf(w, "\n%s %s\n", s.paint("1", "Look first at"), l)
	}
}

func list(w io.Writer, s Style, title string, r *validate.Report, text func(*validate.Result) string) {
	first := true
	for i := range r.Results {
		if t := text(&r.Results[i]); t != "" {
			if first {
				fmt.Fprintf(w, "\n%s\n", s.paint("1", title))
				first = false
			}
			fmt.Fprintf(w, "  %s\n    %s\n", r.Results[i].Case, Printable(t))
		}
	}
}

// Matrix writes a table of the rows' counts.
func Matrix(w io.Writer, title string, rows []validate.Row, s Style) {
	width := len(title)
	for _, r := range rows {
		width = max(width, len(r.Name))
	}
	fmt.Fprintf(w, "\n%s", s.paint("1", fmt.Sprintf("%-*s", width, title)))
	for _, st := range validate.Statuses() {
		fmt.Fprintf(w, "  %6s", st)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%-*s", width, r.Name)
		for _, st := range validate.Statuses() {
			column := max(6, len(st))
			n := fmt.Sprintf("%*d", column, r.Counts[st])
			if r.Counts[st] == 0 {
				n = fmt.Sprintf("%*s", column, ".")
			} else if st != validate.Pass && st != validate.Skip && st != validate.Waived {
				n = s.paint(colors[st], n)
			}
			fmt.Fprintf(w, "  %s", n)
		}
		fmt.Fprintln(w)
	}
}

// CoverageLine returns a sentence with the numbers of requirements that are checked by a case, only touched by one, or
// uncovered.
func CoverageLine(cs []validate.Coverage) string {
	checked, touched := 0, 0
	for _, c := range cs {
		switch {
		case len(c.Proven) > 0:
			checked++
		case len(c.Touched) > 0:
			touched++
		}
	}
	return fmt.Sprintf("The catalog: %d requirements, %d checked by a case, %d only touched by one, %d uncovered "+
		"(ddk-validate list --coverage has the reasons)", len(cs), checked, touched, len(cs)-checked-touched)
}

// Annotations writes the failures as annotations of GitHub's runner.
func Annotations(w io.Writer, r *validate.Report) {
	for i := range r.Results {
		x := &r.Results[i]
		kind := ""
		switch {
		case failed(x) && r.Decisive(x), x.Status == validate.Error:
			kind = "error"
		case failed(x), x.Status == validate.Inconclusive:
			kind = "warning"
		default:
			continue
		}
		// The message of a command ends at the end of the line, and %25, %0D, %0A are escapes in it; in properties, %3A
		// and %2C are, too.
		esc := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
		title := strings.NewReplacer(":", "%3A", ",", "%2C").Replace(esc.Replace(x.Case + " " + x.Requirement))
		fmt.Fprintf(w, "::%s title=%s::%s\n", kind, title, esc.Replace(annotation(x)))
	}
}

// annotation returns the message of an annotation.
func annotation(x *validate.Result) string {
	switch x.Status {
	case validate.Flaky:
		return "flaky: " + headline(x)
	case validate.Inconclusive:
		return "inconclusive: " + x.Reason
	}
	return headline(x)
}
