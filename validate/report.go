package validate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"ciddk/validate/req"
)

// ReportSchema names the version of the JSON report. Fields are added within a version, never changed or removed.
//
// Everything that differs between two equal runs stands in "timing", so that the rest can be compared byte by byte.
const ReportSchema = "ddk-validate/report/v1"

// Report is what a run found.
type Report struct {
	Schema       string     `json:"schema"`
	Verdict      Verdict    `json:"verdict"`
	Tool         Tool       `json:"tool"`
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

// Tool is the certifier itself.
type Tool struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the version control system
	Modified bool   `json:"modified,omitempty"` // the tree was changed
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Binary   string `json:"binary_sha256,omitempty"`
}

// RunInfo is how the run was asked for: enough to do it again.
type RunInfo struct {
	Command []string `json:"command"`
	Test    string   `json:"test,omitempty"` // the test that called TestDriver
	Driver  string   `json:"driver"`
	Profile string   `json:"profile"`
	Link    string   `json:"link,omitempty"`
	Seed    uint64   `json:"seed"`
	Repeat  int      `json:"repeat,omitempty"`
	Shuffle bool     `json:"shuffle,omitempty"`
	Shard   string   `json:"shard,omitempty"`
	Strict  bool     `json:"strict,omitempty"`
	// Selected of All cases of the catalog were asked for. A verdict on fewer than all says so.
	Selected int    `json:"selected"`
	All      int    `json:"all"`
	Stopped  string `json:"stopped,omitempty"` // why not all cases were run
	// Unopened explains a run that was stopped since the driver's Open kept failing.
	Unopened string `json:"unopened,omitempty"`
}

// Timing is what differs from run to run.
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

// Failed returns the ids of the cases that failed, were flaky, or could not be judged, for running them again.
func (r *Report) Failed() []string {
	var out []string
	for i := range r.Results {
		if slices.Contains([]Status{Fail, Flaky, Inconclusive, Error}, r.Results[i].Status) {
			out = append(out, r.Results[i].Case)
		}
	}
	return out
}

// Flip is a case whose status differs between two reports.
type Flip struct {
	Case     string `json:"case"`
	Was, Now Status // "" if the case was not in that report
}

// Worse reports whether the flip is a regression: what passed no longer does. An inconclusive case is no evidence of one.
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

// Compare gives the flips from an earlier report to this one, in order of this one, then cases that are gone. Cases that were not selected in this
// run count only if complete is set.
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
			if s, gone := was[x.Case]; gone {
				out = append(out, Flip{x.Case, s, ""})
			}
		}
	}
	return out
}

// Row is one line of a matrix.
type Row struct {
	Name   string
	Counts map[Status]int
}

// Total of the row.
func (r Row) Total() int {
	n := 0
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// BySection gives the matrix by part of the sources, in their order.
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

// ByFeature gives the matrix by feature.
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

// thisTool reads the build information once; hashing the binary takes a moment.
var thisTool = sync.OnceValue(func() Tool {
	t := Tool{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Version: "unknown"}
	if bi, ok := debug.ReadBuildInfo(); ok {
		t.Module, t.Version = bi.Main.Path, bi.Main.Version
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
