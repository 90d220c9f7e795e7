package validate

import (
	"fmt"
	"strings"
	"time"

	"ciddk/validate/req"
)

// Status of a case.
type Status string

const (
	Pass         Status = "pass"
	Fail         Status = "fail"
	Flaky        Status = "flaky"        // it failed, and passed when it was run again
	Inconclusive Status = "inconclusive" // it lost traffic in every attempt, and the driver need not be the cause
	Skip         Status = "skip"
	Waived       Status = "waived"
	Error        Status = "error"
)

// Statuses lists all, in the order of reports.
func Statuses() []Status { return []Status{Pass, Fail, Flaky, Inconclusive, Skip, Waived, Error} }

// Failure is one finding against the driver.
type Failure struct {
	Rule     string `json:"rule"`            // requirement id; empty in T.Fail: the one the case judges
	Expected string `json:"expected"`        //
	Got      string `json:"got"`             //
	Where    string `json:"where,omitempty"` // verb and arguments, QPN, PSN, packet number
	// Setup says that it happened while the stage was set, so the rule itself was not judged.
	Setup bool `json:"setup,omitempty"`
	// Step is what the case was doing (T.Step), empty for a case of one step.
	Step string `json:"step,omitempty"`
	// Doubt names what other than the driver may be the cause. It is empty if nothing else can be.
	Doubt Doubt `json:"doubt,omitempty"`
	// Cause is empty for a finding of the case, else what ended it.
	Cause Cause `json:"cause,omitempty"`
	// Stacks are goroutines, after a panic or a hang.
	Stacks string `json:"stacks,omitempty"`
}

// Cause of a failure that the case did not find by itself.
type Cause string

const (
	CausePanic Cause = "panic" // the driver, in any goroutine
	CauseHang  Cause = "hang"  // no end by the deadline
	CauseLeak  Cause = "leak"  // something left behind
	CauseDeath Cause = "death" // the worker process ended without a panic: os.Exit, a fatal signal
	// CauseResults: the driver wrote to the descriptor of the certifier's results.
	CauseResults Cause = "results"
)

func (f Failure) String() string {
	var b strings.Builder
	if f.Setup {
		b.WriteString("while setting up: ")
	}
	if f.Step != "" {
		b.WriteString(f.Step + ": ")
	}
	if f.Where != "" {
		b.WriteString(f.Where + ": ")
	}
	fmt.Fprintf(&b, "expected %s, got %s", f.Expected, f.Got)
	return b.String()
}

// NoteKind tells notes from deviations.
type NoteKind string

const (
	NoteInfo      NoteKind = "info"      // an allowed variance, worth knowing
	NoteDeviation NoteKind = "deviation" // the sources contradict each other, and the driver chose
	NoteHarness   NoteKind = "harness"   // why the certifier could not judge
)

// Note is a remark of a case.
type Note struct {
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// Result is what became of a case.
type Result struct {
	Case        string    `json:"case"`
	Title       string    `json:"title"`
	Feature     Feature   `json:"feature"`
	Requirement string    `json:"requirement"` // the one judged
	Level       req.Level `json:"level"`
	Section     string    `json:"section"`
	Attempt     int       `json:"attempt,omitempty"` // from 1, with Repeat
	Status      Status    `json:"status"`
	Reason      string    `json:"reason,omitempty"`   // of a skip, waiver or error
	Unopened    bool      `json:"unopened,omitempty"` // an error: no target could be opened for the case
	Failures    []Failure `json:"failures,omitempty"`
	Notes       []Note    `json:"notes,omitempty"`
	Log         []string  `json:"log,omitempty"`
	// State describes the objects of a case that did not pass as its body ended: QPs of both sides with their completions.
	State []string `json:"state,omitempty"`
	// Printed are the last lines that the driver wrote to standard output and error, in a case that did not pass.
	Printed []string `json:"printed,omitempty"`
	Capture string   `json:"capture,omitempty"` // path of the packet capture
	Flaky   string   `json:"flaky,omitempty"`   // "2 of 5 attempts failed"
	// Earlier are the cases that the same worker process had run before the one in which it ended: the cause may lie in one of them.
	Earlier  []string  `json:"earlier,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"` // all runs of a case that was run again, in order
	Elapsed  Elapsed   `json:"-"`                  // in Report.Timing, so that reports can be compared

	conditions Conditions // of the attempt
}

// Attempt is one run of a case that was run more than once because it failed.
type Attempt struct {
	Status     Status `json:"status"`
	Finding    string `json:"finding,omitempty"`    // the first, or the reason
	Conditions string `json:"conditions,omitempty"` // of link and machine, where the finding is in doubt
}

// attempt summarizes the result as one of several.
func (r *Result) attempt() Attempt {
	a := Attempt{Status: r.Status, Finding: r.Reason}
	if len(r.Failures) > 0 {
		a.Finding = r.Failures[0].String()
	}
	if r.Status == Inconclusive || len(r.Failures) > 0 && !certain(r.Failures) {
		a.Conditions = r.conditions.String()
	}
	return a
}

// Elapsed is a duration as reports write it, in whole milliseconds.
type Elapsed time.Duration

// Blames tells whether the result is a judgement that the requirement is broken: a failure charged to it, outside the set-up.
func (r *Result) Blames(requirement string) bool {
	if r.Status != Fail && r.Status != Waived {
		return false
	}
	for _, f := range r.Failures {
		if f.Rule == requirement && !f.Setup {
			return true
		}
	}
	return false
}

// blame adds a failure to a result that is complete.
func (r *Result) blame(f Failure) {
	if r.Status == Error {
		return
	}
	f.Setup = f.Setup || len(r.Failures) > 0
	r.Failures = append(r.Failures, f)
	r.Status, r.Reason = Fail, ""
}
