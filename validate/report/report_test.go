package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/req"
)

// again is Again of the sample report.
var again = strings.Fields("ddk-validate run mine --profile rc --link udp --seed 9")

var update = flag.Bool("update", false, "write the golden files")

// sample returns a report with a result of each status and with text that could break a format.
func sample() *validate.Report {
	nasty := "]]><script>alert(1)</script> \x00\x1b[31m \xff & \"quotes\"\nsecond line"
	rq := []validate.Coverage{
		{
			Requirement: req.Requirement{
				ID:      "CI-A-01",
				Text:    "A thing holds.",
				Level:   req.Must,
				Section: "IBTA 11.2.1",
				Source:  "s",
				Scope:   req.Driver,
			},
			Proven: []string{"a.ok", "a.bad", "a.skip", "a.error", "a.waived"},
		},
		{
			Requirement: req.Requirement{
				ID: "CI-B-01", Text: "A thing should hold.", Level: req.Should, Section: "SAS 2.1", Source: "s",
				Scope: req.Driver,
			},
			Proven: []string{"b.should"},
		},
		{
			Requirement: req.Requirement{
				ID: "SAS-2.4-01", Text: "A thing for later.", Level: req.Must, Section: "SAS 2.4", Source: "s",
				Scope: req.UserMode,
			},
			Why: "user mode",
		},
	}
	res := func(id string, s validate.Status) validate.Result {
		return validate.Result{
			Case: id, Title: "title of " + id, Feature: validate.FeatureCore, Requirement: "CI-A-01", Level: req.Must,
			Section: "IBTA 11.2.1", Status: s,
		}
	}
	bad := res("a.bad", validate.Fail)
	bad.Failures = []validate.Failure{{
		Rule: "CI-A-01", Expected: "success", Got: nasty, Where: "CQ.Poll", Cause: validate.CausePanic,
		Stacks: "panic: x\n\ngoroutine 1 [running]:\nmain.f()\n\ngoroutine 2:\nother()",
	}}
	bad.State = []string{"A, the driver's end: RC QP 0x11: RTS", "B, the peer: RC QP 0x12: Error"}
	bad.Printed = []string{"card on fire", nasty}
	for i := range 12 {
		bad.Earlier = append(bad.Earlier, fmt.Sprintf("e.case-%d", i))
	}
	bad.Log, bad.Capture, bad.Flaky = []string{"line", nasty}, "out/a.bad.pcapng", "1 of 2 attempts failed"
	should := res("b.should", validate.Fail)
	should.Requirement, should.Level, should.Section = "CI-B-01", req.Should, "SAS 2.1"
	should.Failures = []validate.Failure{{Rule: "CI-B-01", Expected: "an event", Got: "none", Setup: true}}
	ok := res("a.ok", validate.Pass)
	ok.Notes = []validate.Note{{Kind: validate.NoteDeviation, Text: "posting in Error is refused"}}
	skip, waived, errd := res("a.skip", validate.Skip), res("a.waived", validate.Waived), res("a.error", validate.Error)
	skip.Reason, waived.Reason, errd.Reason = "not claimed: SRQ", "ticket 1", "worker: broken pipe"
	waived.Failures = bad.Failures
	flaky, unclear := res("a.flaky", validate.Flaky), res("a.unclear", validate.Inconclusive)
	nak := validate.Failure{Rule: "CI-A-01", Step: "PSN +1000", Expected: "a NAK", Got: "nothing"}
	flaky.Flaky, flaky.Failures = "1 of 2 attempts failed", []validate.Failure{nak}
	flaky.Attempts = []validate.Attempt{
		{Status: validate.Fail, Finding: "PSN +1000: expected a NAK, got nothing"}, {Status: validate.Pass},
	}
	unclear.Reason = "retries exhausted; 1 of 1 attempts lost traffic"
	unclear.Failures = []validate.Failure{
		{Rule: "CI-A-01", Expected: "success", Got: "retries exhausted", Doubt: validate.DoubtLoss},
	}
	unclear.Attempts = []validate.Attempt{
		{Status: validate.Fail, Finding: "retries exhausted", Conditions: "the link may lose packets"},
	}
	counts := map[validate.Status]int{
		validate.Pass: 1, validate.Fail: 2, validate.Flaky: 1, validate.Inconclusive: 1, validate.Skip: 1,
		validate.Waived: 1, validate.Error: 1,
	}
	r := &validate.Report{
		Schema: validate.ReportSchema, Requirements: rq,
		Tool:     validate.Tool{Module: "example.com/acme", Version: "v1.2.0", Kit: "v0.0.0 => ../ciddk", Go: "go1.26"},
		Host:     validate.Host{System: "linux/amd64", Kernel: "6.1.0", CPUs: 2},
		Results:  []validate.Result{ok, bad, skip, waived, errd, should, flaky, unclear},
		Untested: []validate.Untested{{Claim: "RD", Why: "no case tests <it>"}},
		Run: validate.RunInfo{
			Command: []string{"ddk-validate", "run"}, Again: again, Driver: "mine", Profile: "rc", Link: "udp", Seed: 9,
		},
		Identity: &validate.Identity{
			Driver: "mine", GUID: "00aa", VendorID: 0xffffff, DeviceID: 0xdd01, HCAs: 1, Ports: 1, PortLink: "Ethernet",
			Claims: []string{"UD", "AV"},
		},
		Remarks: []string{"a remark <b>"},
		Timing: validate.Timing{
			Started: "2026-11-21T00:00:00Z", Elapsed: 1.5, Workers: 2, Cases: map[string]float64{"a.ok": 0.25},
		},
		Verdict: validate.Verdict{
			Line: "NOT CERTIFIED: 1 failed", Advisory: 1, Counts: counts, LookFirst: []string{"a.bad: 1 later failure"},
		},
	}
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	assert.Equal(t, string(want), string(got))
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	r := sample()
	Failures(&b, r, Style{})
	Summary(&b, r, Style{})
	golden(t, "summary.txt", b.Bytes())
}

func TestRerun(t *testing.T) {
	for _, c := range []struct {
		again []string
		test  string
		want  string
	}{
		{[]string{"go", "run", "example.com/a/cmd/validate", "run", "mine", "--set", "path=a b"}, "",
			`go run example.com/a/cmd/validate run mine --set 'path=a b' --case a.b`},
		{[]string{"./my validate", "certify", "run", "mine", "--expect", "it's"}, "",
			`'./my validate' certify run mine --expect 'it'\''s' --case a.b`},
		{[]string{"v", "run", "mine", "--set", "x=\n'"}, "", `v run mine --set $'x=\n\'' --case a.b`},
		{[]string{"go", "test", "-race", "example.com/a"}, "TestMine/card 1",
			`go test -race example.com/a -run '^TestMine$/^card 1$/^a\.b$'`},
		{[]string{"./a.test", "-card=1"}, "TestMine", `./a.test -card=1 -test.run '^TestMine$/^a\.b$'`},
		{nil, "TestMine", `go test -run '^TestMine$/^a\.b$'`},
		{nil, "", ""},
	} {
		r := &validate.Report{Run: validate.RunInfo{Again: c.again, Test: c.test}}
		assert.Equal(t, c.want, Rerun(r, "a.b"))
	}
}

func TestColour(t *testing.T) {
	assert.Equal(t, "\x1b[31mfail  \x1b[0m", Style{Color: true}.Status(validate.Fail))
	assert.Equal(t, "fail  ", Style{}.Status(validate.Fail))
}

// TestJUnit checks that a JUnit reader gets the certifier's results, whatever the driver has printed.
func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, JUnit(&b, sample()))
	var s junit.Testsuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &s), b.String())
	assert.Equal(t, []int{8, 2, 2, 3}, []int{s.Tests, s.Failures, s.Errors, s.Skipped})
	require.Len(t, s.Suites, 1)
	by := map[string]junit.Testcase{}
	for _, c := range s.Suites[0].Testcases {
		by[c.Name] = c
	}
	f := by["a.bad"].Failure
	require.NotNil(t, f)
	assert.Contains(t, f.Data, "]]><script>alert(1)</script>")
	assert.Contains(t, f.Message, "expected success")
	assert.Equal(t, "CI-A-01", f.Type)
	assert.Equal(t, "a", by["a.bad"].Classname, "the area")
	assert.Contains(t, by["a.bad"].SystemOut.Data, "line")
	assert.Contains(t, by["b.should"].Skipped.Message, "SHOULD not met")
	assert.Contains(t, by["a.waived"].Skipped.Message, "waived: ticket 1")
	assert.Equal(t, "worker: broken pipe", by["a.error"].Error.Message)
	assert.Equal(t, "0.250", by["a.ok"].Time)
	assert.Equal(t, "flaky", by["a.flaky"].Failure.Type)
	assert.Equal(t, "inconclusive", by["a.unclear"].Error.Type)
	golden(t, "junit.xml", b.Bytes())
}

// TestJUnitUntested checks that claims which deny the certificate are errors in JUnit, so that it agrees with the exit
// status.
func TestJUnitUntested(t *testing.T) {
	r := &validate.Report{
		Untested: []validate.Untested{{Claim: "RD", Why: "no case"}},
		Verdict:  validate.Verdict{Outcome: validate.OutcomeUntested},
	}
	var b bytes.Buffer
	require.NoError(t, JUnit(&b, r))
	var s junit.Testsuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &s), b.String())
	assert.Equal(t, []int{1, 0, 1}, []int{s.Tests, s.Failures, s.Errors})
	assert.Equal(t, "no case", s.Suites[0].Testcases[0].Error.Message)
	r.Verdict.Outcome = validate.OutcomePassed // of a selection
	b.Reset()
	require.NoError(t, JUnit(&b, r))
	assert.NotContains(t, b.String(), "no case")
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, HTML(&b, sample()))
	page := b.String()
	assert.NotContains(t, page, "<script")
	assert.NotContains(t, page, "http:")
	assert.NotContains(t, page, "https:")
	assert.Contains(t, page, "]]&gt;&lt;script&gt;")
	assert.Contains(t, page, "a remark &lt;b&gt;")
	assert.Contains(t, page, "uncovered: user mode")
	assert.Contains(t, page, "<code>RD</code> no case tests &lt;it&gt;")
	assert.Contains(t, page, `<h1>NOT CERTIFIED: 1 failed</h1>`)
	total := 0
	for _, x := range bars(sample()) {
		total += x.W
	}
	assert.Equal(t, 1000, total, "the bar is full")
	assert.Empty(t, bars(&validate.Report{}))
	golden(t, "report.html", b.Bytes())
}

func TestAnnotations(t *testing.T) {
	var b bytes.Buffer
	Annotations(&b, sample())
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 5, "one line for each result, although a failure has several lines: %q", lines)
	bad := "::error title=a.bad CI-A-01::CQ.Poll: expected success, got ]]><script>"
	assert.True(t, strings.HasPrefix(lines[0], bad), lines[0])
	assert.Contains(t, lines[0], "%0Asecond line")
	assert.Equal(t, "::error title=a.error CI-A-01::worker: broken pipe", lines[1])
	assert.True(t, strings.HasPrefix(lines[2], "::warning title=b.should CI-B-01::"))
	assert.Equal(t, "::error title=a.flaky CI-A-01::flaky: PSN +1000: expected a NAK, got nothing", lines[3])
	assert.Equal(t, "::warning title=a.unclear CI-A-01::inconclusive: retries exhausted; 1 of 1 attempts lost traffic",
		lines[4])
}

// TestErrorsByReason checks that the reason of many cases that could not be completed is written once.
func TestErrorsByReason(t *testing.T) {
	r := &validate.Report{Run: validate.RunInfo{Unopened: "3 cases found it:\ncard is busy"}}
	for i := range 9 {
		reason := "not run: see c.0"
		if i < 2 {
			reason = "card is busy"
		}
		r.Results = append(r.Results,
			validate.Result{Case: fmt.Sprintf("c.%d", i), Status: validate.Error, Reason: reason})
	}
	var b strings.Builder
	Failures(&b, r, Style{})
	assert.Equal(t, `
The driver could not be opened
  3 cases found it:
  card is busy

Could not be completed
  c.0, c.1
    card is busy
  c.2, c.3, c.4, c.5, c.6 and 2 more
    not run: see c.0
`, b.String())
}

// TestUntestedClaims checks that each kind of report has the claims that are not tested.
func TestUntestedClaims(t *testing.T) {
	r := &validate.Report{
		Run:      validate.RunInfo{Driver: "d", Profile: "full"},
		Verdict:  validate.Verdict{Line: "NOT TESTED: x", Outcome: validate.OutcomeUntested},
		Untested: []validate.Untested{{Claim: "RD", Why: "nobody has it"}},
		Claims: []validate.Claim{
			{Name: "UD", State: validate.ClaimTested, Cases: []string{"a.ud"}},
			{Name: "RD", State: validate.ClaimNotTested, Why: "nobody has it"},
		},
	}
	for name, write := range map[string]func(io.Writer) error{
		"text":  func(w io.Writer) error { Failures(w, r, Style{}); return nil },
		"JSON":  r.WriteJSON,
		"HTML":  func(w io.Writer) error { return HTML(w, r) },
		"JUnit": func(w io.Writer) error { return JUnit(w, r) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b), name)
		assert.Contains(t, b.String(), "not tested", name)
		assert.Contains(t, b.String(), "nobody has it", name)
	}
}
