package validate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"ciddk/validate/req"
)

// ReportSchema is the version of the JSON report. Within a version, fields are added but never changed or removed.
//
// Everything that differs between two equal runs is in "timing", so that the rest can be compared byte by byte.
const ReportSchema = "ddk-validate/report/v1"

// A Report is the result of a run.
type Report struct {
	Schema       string     `json:"schema"`
	Verdict      Verdict    `json:"verdict"`
	Tool         Tool       `json:"tool"`
	Host         Host       `json:"host"`
	Run          RunInfo    `json:"run"`
	Identity     *Identity  `json:"identity,omitempty"` // nil if no target was ever opened
	Results      []Result   `json:"results"`            // in the catalog's order
	Claims       []Claim    `json:"claims,omitempty"`   // each capability that the driver claims
	Requirements []Coverage `json:"requirements"`       // all of the catalog, with the cases that check each
	Untested     []Untested `json:"untested,omitempty"` // claims of the driver that no case tests
	Waivers      []Waiver   `json:"waivers,omitempty"`
	Remarks      []string   `json:"remarks,omitempty"` // about waivers, flakes, the run itself
	Timing       Timing     `json:"timing"`
}

// Tool describes the program that made the report.
type Tool struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the version control system
	Modified bool   `json:"modified,omitempty"` // the tree was changed
	Kit      string `json:"kit,omitempty"`      // version of the kit, if the module is another one
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Binary   string `json:"binary_sha256,omitempty"`
}

// String returns module, version and compiler for a line.
func (t Tool) String() string {
	s := t.Module + " " + t.Version
	if t.Revision != "" {
		s += " " + t.Revision
	}
	if t.Modified {
		s += " (modified)"
	}
	if t.Kit != "" {
		s += ", ciddk " + t.Kit
	}
	return s + ", " + t.Go
}

// Host describes the machine of the run.
type Host struct {
	System string `json:"system"`           // GOOS/GOARCH
	Kernel string `json:"kernel,omitempty"` // release, on Linux
	CPUs   int    `json:"cpus"`             // that the program may use
}

// thisHost returns the description of this machine.
func thisHost() Host {
	h := Host{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(b))
	}
	return h
}

// String returns the description for a line.
func (h Host) String() string {
	s := h.System
	if h.Kernel != "" {
		s += ", kernel " + h.Kernel
	}
	if h.CPUs == 1 {
		return s + ", 1 CPU"
	}
	return fmt.Sprintf("%s, %d CPUs", s, h.CPUs)
}

// RunInfo has the parameters of the run.
type RunInfo struct {
	Command []string `json:"command"`
	Again   []string `json:"again,omitempty"` // words that run it again, without a selection of cases
	Test    string   `json:"test,omitempty"`  // the test that called TestDriver
	Driver  string   `json:"driver"`
	Profile string   `json:"profile"`
	Link    string   `json:"link,omitempty"`
	Seed    uint64   `json:"seed"`
	Repeat  int      `json:"repeat,omitempty"`
	Shuffle bool     `json:"shuffle,omitempty"`
	Shard   string   `json:"shard,omitempty"`
	Strict  bool     `json:"strict,omitempty"`
	// Selected of All cases of the catalog were selected.
	Selected int    `json:"selected"`
	All      int    `json:"all"`
	Stopped  string `json:"stopped,omitempty"` // why the run was stopped before its end
	// Unopened explains a run that was stopped because the driver's Open kept failing.
	Unopened string `json:"unopened,omitempty"`
}

// Timing has everything that differs from run to run.
type Timing struct {
	Started string             `json:"started"`   // RFC 3339
	Elapsed float64            `json:"elapsed_s"` //
	Workers int                `json:"workers"`   //
	Deaths  int                `json:"deaths"`    // of worker processes
	Cases   map[string]float64 `json:"cases_s"`   // by case id, sum of attempts
}

// WriteJSON writes the report, indented.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// ReadReport reads what WriteJSON wrote, from this or an earlier version of the tool.
func ReadReport(rd io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(rd).Decode(&r); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if r.Schema != ReportSchema {
		return nil, fmt.Errorf("report: schema is %q, want %q", r.Schema, ReportSchema)
	}
	return &r, nil
}

// Failed returns the ids of the cases whose status is fail, flaky, inconclusive or error, to run them again.
func (r *Report) Failed() []string {
	var out []string
	for i := range r.Results {
		if slices.Contains([]Status{Fail, Flaky, Inconclusive, Error}, r.Results[i].Status) {
			out = append(out, r.Results[i].Case)
		}
	}
	return out
}

// A Flip is a case whose status differs between two reports.
type Flip struct {
	Case     string `json:"case"`
	Was, Now Status // "" if the case was not in that report
}

// Worse reports whether the flip is a regression: the case passed and no longer does. A case that is now inconclusive
// is not one.
func (f Flip) Worse() bool { return f.Was == Pass && f.Now != Pass && f.Now != Inconclusive }

func (f Flip) String() string {
	or := func(s Status) string {
		if s == "" {
			return "absent"
		}
		return string(s)
	}
	return fmt.Sprintf("%s: %s -> %s", f.Case, or(f.Was), or(f.Now))
}

// Compare returns the flips from an earlier report to this one, in the order of this report. If complete is set, cases
// that are missing from this report follow.
func (r *Report) Compare(old *Report, complete bool) []Flip {
	was := map[string]Status{}
	for _, x := range old.Results {
		was[x.Case] = x.Status
	}
	var out []Flip
	for _, x := range r.Results {
		if was[x.Case] != x.Status {
			out = append(out, Flip{x.Case, was[x.Case], x.Status})
		}
		delete(was, x.Case)
	}
	if complete {
		for _, x := range old.Results {
			if s, missing := was[x.Case]; missing {
				out = append(out, Flip{x.Case, s, ""})
			}
		}
	}
	return out
}

// A Row is one line of a matrix.
type Row struct {
	Name   string
	Counts map[Status]int
}

// Total returns the number of cases in the row.
func (r Row) Total() int {
	n := 0
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// BySection returns the matrix by part of the sources, in their order.
func (r *Report) BySection() []Row {
	groups := map[string]string{} // requirement -> group
	var order []string
	for _, c := range r.Requirements {
		g := c.Group()
		groups[c.ID] = g
		if !slices.Contains(order, g) {
			order = append(order, g)
		}
	}
	slices.SortFunc(order, req.CompareGroups)
	return r.matrix(order, func(x *Result) string { return groups[x.Requirement] })
}

// ByFeature returns the matrix by feature.
func (r *Report) ByFeature() []Row {
	return r.matrix(words(features), func(x *Result) string { return string(x.Feature) })
}

func (r *Report) matrix(order []string, key func(*Result) string) []Row {
	rows := make([]Row, len(order))
	at := map[string]int{}
	for i, n := range order {
		rows[i] = Row{n, map[Status]int{}}
		at[n] = i
	}
	for i := range r.Results {
		if j, ok := at[key(&r.Results[i])]; ok {
			rows[j].Counts[r.Results[i].Status]++
		}
	}
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Total() == 0 })
}

// kitVersion returns the version of the kit in a program of another module, with the folder or module that replaces it.
func kitVersion(bi *debug.BuildInfo) string {
	kit := strings.TrimSuffix(reflect.TypeFor[Tool]().PkgPath(), "/validate")
	for _, d := range bi.Deps {
		switch {
		case d.Path != kit:
		case d.Replace != nil:
			return strings.TrimSpace(d.Version + " => " + d.Replace.Path + " " + d.Replace.Version)
		default:
			return d.Version
		}
	}
	return ""
}

// thisTool reads the build information once, because it hashes the binary.
var thisTool = sync.OnceValue(func() Tool {
	t := Tool{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Version: "unknown"}
	if bi, ok := debug.ReadBuildInfo(); ok {
		t.Module, t.Version, t.Kit = bi.Main.Path, bi.Main.Version, kitVersion(bi)
		for _, s := range bi.Settings {
			switch s.Key {
			case "vcs.revision":
				t.Revision = s.Value
			case "vcs.modified":
				t.Modified = s.Value == "true"
			}
		}
	}
	if exe, err := os.Executable(); err == nil {
		if f, err := os.Open(exe); err == nil {
			defer f.Close()
			h := sha256.New()
			if _, err := io.Copy(h, f); err == nil {
				t.Binary = hex.EncodeToString(h.Sum(nil))
			}
		}
	}
	return t
})
