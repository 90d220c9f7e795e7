package report

import (
	_ "embed"
	"html/template"
	"io"
	"slices"

	"ciddk/validate"
)

//go:embed report.html
var page string

// bar is a segment of the result bar, in thousandths of its width.
type bar struct {
	Status  validate.Status
	X, W, N int
}

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"statuses":  validate.Statuses,
	"finding":   Block,
	"anyFailed": func(r *validate.Report) bool { return slices.ContainsFunc(r.Results, notMet) },
	"failed":    func(x *validate.Result) bool { return notMet(*x) },
	"coverage":  CoverageLine,
	"bars":      bars,
}).Parse(page))

// notMet reports whether a result is listed among the failures.
func notMet(x validate.Result) bool {
	return slices.Contains(
		[]validate.Status{validate.Fail, validate.Flaky, validate.Inconclusive, validate.Error}, x.Status,
	)
}

func bars(r *validate.Report) []bar {
	total := len(r.Results)
	var out []bar
	x, seen := 0, 0
	for _, s := range validate.Statuses() {
		n := r.Verdict.Counts[s]
		if n == 0 || total == 0 {
			continue
		}
		seen += n
		end := 1000 * seen / total
		out = append(out, bar{s, x, end - x, n})
		x = end
	}
	return out
}

// HTML writes the report as one file that needs no scripts, no fonts and no network.
func HTML(w io.Writer, r *validate.Report) error { return pageTemplate.Execute(w, r) }
