package validate

import (
	"fmt"
	"strings"

	"ciddk/validate/req"
)

// Outcome is the verdict of a run in one word.
type Outcome string

// The outcomes, worst first. A run has the first that applies.
const (
	OutcomeUnjudged     Outcome = "unjudged"     // a case could not be completed, or the run was interrupted
	OutcomeFailed       Outcome = "failed"       // a requirement is not met, or no case passed
	OutcomeFlaky        Outcome = "flaky"        // a case failed, and passed when it was run again
	OutcomeInconclusive Outcome = "inconclusive" // a case lost traffic, and the driver need not be the cause
	OutcomeUntested     Outcome = "untested"     // nothing failed, but the driver claims what no case tests
	OutcomePassed       Outcome = "passed"       // certified; for a selection: every case of it passed
)

// Exit statuses of the certifier. They are stable.
const (
	ExitCertified    = 0 // certified, or the selection passed
	ExitFailed       = 1 // a requirement failed
	ExitUsage        = 2
	ExitHarness      = 3 // the driver could not be opened, or the certifier failed
	ExitNothing      = 4 // no case was selected
	ExitInconclusive = 5 // nothing failed, but a case was inconclusive
	ExitFlaky        = 6 // nothing failed twice, but a case failed once and then passed
	ExitUntested     = 7 // nothing failed, but a claim of the driver is not tested
)

// Exit returns the exit status of a report.
func (r *Report) Exit() int {
	switch r.Verdict.Outcome {
	case OutcomePassed:
		return ExitCertified
	case OutcomeUnjudged:
		return ExitHarness
	case OutcomeFlaky:
		return ExitFlaky
	case OutcomeInconclusive:
		return ExitInconclusive
	case OutcomeUntested:
		return ExitUntested
	}
	return ExitFailed
}

// Untested is a claim of the driver that no case of the run tests.
type Untested struct {
	Claim string `json:"claim"` // name of the capability
	Why   string `json:"why"`   // why no case tests it
}

// Verdict is the outcome of a run, in one line and in numbers.
type Verdict struct {
	Certified bool    `json:"certified"`
	Outcome   Outcome `json:"outcome"`
	Line      string  `json:"line"`
	// Selection is true if only a part of the catalog was run. Certified then refers to that part and is no certificate
	// of the driver.
	Selection bool           `json:"selection,omitempty"`
	Counts    map[Status]int `json:"counts"`
	// Advisory is the number of failures of SHOULD, MAY and INFO requirements, which do not deny the certificate. With
	// Strict, failures of SHOULD requirements are not among them.
	Advisory int `json:"advisory"`
	// LookFirst names failed cases that may be the cause of others: each line has the cases of one feature, and the
	// number of failures of features that stand on it.
	LookFirst []string `json:"look_first,omitempty"`
}

const stoppedByContext = "interrupted"

// decisive reports whether a failure of a requirement of this level denies the certificate.
func (r *Report) decisive(l req.Level) bool { return l == req.Must || r.Run.Strict && l == req.Should }

// Decisive reports whether the result denies the certificate: it failed, or was flaky or inconclusive.
func (r *Report) Decisive(x *Result) bool {
	switch x.Status {
	case Fail, Flaky, Inconclusive:
		return r.decisive(x.Level)
	}
	return false
}

// setVerdict computes the verdict from results, run and untested claims. No other function computes a verdict.
func (r *Report) setVerdict() {
	v := Verdict{Counts: map[Status]int{}, Selection: r.Run.Selected < r.Run.All}
	for _, s := range Statuses() {
		v.Counts[s] = 0
	}
	decisive := map[Status]int{}
	for i := range r.Results {
		x := &r.Results[i]
		v.Counts[x.Status]++
		switch {
		case r.Decisive(x):
			decisive[x.Status]++
		case x.Status == Fail, x.Status == Flaky:
			v.Advisory++
		}
	}
	v.Outcome = r.outcome(&v, decisive)
	v.Certified = v.Outcome == OutcomePassed
	v.LookFirst = r.lookFirst()
	parts := r.denials(&v, decisive)
	// The number of selected cases follows the reasons against a certificate and precedes the counts.
	if v.Selection {
		parts = append(parts, fmt.Sprintf("%d of %d cases selected", r.Run.Selected, r.Run.All))
	}
	parts = append(parts, fmt.Sprintf("%d passed", v.Counts[Pass]), fmt.Sprintf("%d skipped", v.Counts[Skip]))
	if v.Counts[Waived] > 0 {
		parts = append(parts, fmt.Sprintf("%d waived", v.Counts[Waived]))
	}
	if v.Advisory > 0 {
		parts = append(parts, fmt.Sprintf("%d recommendations not met", v.Advisory))
	}
	what := r.Run.Driver
	if r.Run.Link != "" {
		what += " over " + r.Run.Link
	}
	v.Line = fmt.Sprintf("%s: %s (driver %s, profile %s, seed %d)",
		v.title(), strings.Join(parts, ", "), what, r.Run.Profile, r.Run.Seed)
	r.Verdict = v
}

// outcome returns the outcome.
func (r *Report) outcome(v *Verdict, decisive map[Status]int) Outcome {
	switch {
	case v.Counts[Error] > 0, r.Run.Stopped == stoppedByContext:
		return OutcomeUnjudged
	case decisive[Fail] > 0:
		return OutcomeFailed
	case decisive[Flaky] > 0:
		return OutcomeFlaky
	case decisive[Inconclusive] > 0:
		return OutcomeInconclusive
	case r.Run.Stopped != "", v.Counts[Pass] == 0:
		return OutcomeFailed
	case len(r.Untested) > 0 && !v.Selection:
		return OutcomeUntested
	}
	return OutcomePassed
}

// denials returns the reasons against a certificate.
func (r *Report) denials(v *Verdict, decisive map[Status]int) (why []string) {
	for _, x := range []struct {
		count int
		text  string
	}{
		{decisive[Fail], "failed"}, {decisive[Flaky], "flaky"}, {decisive[Inconclusive], "inconclusive"},
		{v.Counts[Error], "could not be completed"},
	} {
		if x.count > 0 {
			why = append(why, fmt.Sprintf("%d %s", x.count, x.text))
		}
	}
	if r.Run.Stopped != "" {
		why = append(why, "stopped: "+r.Run.Stopped)
	}
	if v.Counts[Pass] == 0 {
		why = append(why, "nothing passed")
	}
	if len(r.Untested) > 0 {
		var claims []string
		for _, u := range r.Untested {
			claims = append(claims, u.Claim)
		}
		why = append(why, "claimed and not tested: "+strings.Join(claims, " "))
	}
	return why
}

// title returns the beginning of the verdict line. The titles of a selection do not contain the word CERTIFIED, so that
// a search for it finds only verdicts on the whole catalog.
func (v *Verdict) title() string {
	word := map[Outcome][2]string{
		OutcomePassed:       {"CERTIFIED", "SELECTION PASSED"},
		OutcomeFlaky:        {"FLAKY", "SELECTION FLAKY"},
		OutcomeInconclusive: {"INCONCLUSIVE", "SELECTION INCONCLUSIVE"},
		OutcomeUntested:     {"NOT TESTED", "SELECTION NOT TESTED"},
	}[v.Outcome]
	if word[0] == "" {
		word = [2]string{"NOT CERTIFIED", "SELECTION FAILED"}
	}
	if v.Selection {
		return word[1]
	}
	return word[0]
}
