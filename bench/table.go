package bench

import (
	"fmt"
	"io"
	"strings"
)

// WriteTable writes results as a Markdown table.
func WriteTable(w io.Writer, results []Result) error {
	var b strings.Builder
	b.WriteString("| case | wanted | ratio | median | verdict | ours | yardstick | allocations per op |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		rule, verdict := "at most", "missed"
		if r.AtLeast {
			rule = "at least"
		}
		if r.Met() {
			verdict = "met"
		}
		fmt.Fprintf(&b, "| %s | %s %.2g | **%.2f** | %.2f | %s | %s | %s | %.3f |\n", r.Name, rule, r.Want, r.Ratio(), r.MedianRatio(), verdict,
			r.speed(r.OursNS), r.speed(r.YardNS), r.AllocsPerOp)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// speed shows the best round: as a rate of bytes for large messages, else as time.
func (r Result) speed(ns []float64) string {
	best := ns[0]
	for _, v := range ns {
		best = min(best, v)
	}
	if r.Bytes >= 4096 {
		return fmt.Sprintf("%.2f GB/s", float64(r.Bytes)/best)
	}
	return fmt.Sprintf("%.0f ns", best)
}

// WriteLegend says what the cases of a table are.
func WriteLegend(w io.Writer, results []Result) error {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "* `%s`: %s. Against: %s.\n", r.Name, r.Ours, r.Yardstick)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
