package validate

import (
	"fmt"
	"strings"
	"time"

	"ciddk/validate/req"
)

// Status is the status of a case. The package comment lists the meanings.
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

// Statuses returns all statuses in the order of reports.
func Statuses() []Status { return []Status{Pass, Fail, Flaky, Inconclusive, Skip, Waived, Error} }

// A Failure is one finding against the driver.
type Failure struct {
	Rule     string `json:"rule"`            // requirement id; if empty, T.Report sets the one that the case proves
	Expected string `json:"expected"`        //
	Got      string `json:"got"`             //
	Where    string `json:"where,omitempty"` // such as a verb and its arguments, a QPN, a PSN, a packet number
	// Setup is true if the failure happened during the set-up, so that the rule itself was not tested.
	Setup bool `json:"setup,omitempty"`
	// Step is the step of the case (T.Step), or empty for a case without steps.
	Step string `json:"step,omitempty"`
	// Doubt is a cause other than the driver that the failure may have, or empty if there is none.
	Doubt Doubt `json:"doubt,omitempty"`
	// Cause is what ended the case or was found after it. It is empty for a finding of the case itself.
	Cause Cause `json:"cause,omitempty"`
	// Stacks are goroutines, after a panic or a hang.
	Stacks string `json:"stacks,omitempty"`
}

// Cause is the cause of a failure that the case did not report itself.
type Cause string

const (
	CausePanic Cause = "panic" // the driver panicked, in any goroutine
	CauseHang  Cause = "hang"  // the case did not end by its deadline
	CauseLeak  Cause = "leak"  // objects or goroutines were left behind
	CauseDeath Cause = "death" // the worker process ended without a panic: os.Exit, a fatal signal
	// CauseResults means that the driver wrote to the descriptor of the certifier's results.
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

// NoteKind is the kind of a note.
type NoteKind string

const (
	NoteInfo      NoteKind = "info"      // a permitted variation
	NoteDeviation NoteKind = "deviation" // the driver's choice between contradictory sources
	NoteHarness   NoteKind = "harness"   // a fault of the certifier
)

// A Note is a remark of a case.
type Note struct {
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// A Result is the result of a case.
type Result struct {
	Case        string    `json:"case"`
	Title       string    `json:"title"`
	Feature     Feature   `json:"feature"`
	Requirement string    `json:"requirement"` // the one that the case proves
	Level       req.Level `json:"level"`
	Section     string    `json:"section"`
	Attempt     int       `json:"attempt,omitempty"` // from 1, with Repeat
	Status      Status    `json:"status"`
	Reason      string    `json:"reason,omitempty"`   // of a skip, waiver or error
	Unopened    bool      `json:"unopened,omitempty"` // an error: no target could be opened for the case
	Failures    []Failure `json:"failures,omitempty"`
	Notes       []Note    `json:"notes,omitempty"`
	Log         []string  `json:"log,omitempty"`
	// State describes the objects of a case that did not pass, at the end of its body: QPs of both sides with their
	// completions.
	State []string `json:"state,omitempty"`
	// Printed has the last lines that the driver wrote to standard output and error, if the case did not pass.
	Printed []string `json:"printed,omitempty"`
	Capture string   `json:"capture,omitempty"` // path of the packet capture
	Flaky   string   `json:"flaky,omitempty"`   // "2 of 5 attempts failed"
	// Earlier has the other cases that the same worker process had run. If the process died, one of them may be the
	// cause.
	Earlier  []string  `json:"earlier,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"` // all runs of a case that was run again, in order
	Elapsed  Elapsed   `json:"-"`                  // in Report.Timing, so that reports can be compared

	conditions Conditions // of the attempt
}

// An Attempt is one run of a case that was run again because it failed.
type Attempt struct {
	Status     Status `json:"status"`
	Finding    string `json:"finding,omitempty"`    // the first failure, or the reason
	Conditions string `json:"conditions,omitempty"` // of link and machine, if the finding is in doubt
}

// attempt returns a summary of the result.
func (r *Result) attempt() Attempt {
	a := Attempt{Status: r.Status, Finding: r.Reason}
	if len(r.Failures) > 0 {
		a.Finding = r.Failures[0].String()
	}
	canBeExcused := len(r.Failures) > 0 && (!certain(r.Failures) || r.Failures[0].Cause == CauseHang)
	if r.Status == Inconclusive || canBeExcused {
		a.Conditions = r.conditions.String()
	}
	return a
}

// Elapsed is a duration that is marshaled as a number of nanoseconds.
type Elapsed time.Duration

// Blames reports whether the result is a verdict against the requirement: a failure charged to it, outside of the
// set-up.
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

// blame adds a failure that was found after the case. If the case has failed already, the failure is marked as a
// consequence.
func (r *Result) blame(f Failure) {
	if r.Status == Error {
		return
	}
	f.Setup = f.Setup || len(r.Failures) > 0
	r.Failures = append(r.Failures, f)
	r.Status, r.Reason = Fail, ""
}
