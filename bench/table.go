package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteTables writes results as Markdown: a table and its legend for each Table that has results.
func WriteTables(w io.Writer, results []Result) error { return writeTables(w, results, nil) }

// writeTables writes the line above[t], if any, before each table.
func writeTables(w io.Writer, results []Result, above map[Table]string) error {
	var b strings.Builder
	for _, t := range []struct {
		table Table
		write func(*strings.Builder, []Result)
	}{{Ratios, ratios}, {Bandwidth, bandwidth}, {Latency, latency}, {Delay, delay}} {
		l := Of(results, t.table)
		if len(l) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		if above[t.table] != "" {
			b.WriteString(above[t.table] + "\n\n")
		}
		t.write(&b, l)
		b.WriteString("\n")
		legend(&b, l)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Of returns the results of one table in their order.
func Of(results []Result, t Table) []Result {
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Table != t })
}

func ratios(b *strings.Builder, results []Result) {
	b.WriteString("| case | wanted | ratio | median | verdict | ours | yardstick | allocations per op " +
		"|\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(b, "| %s | %s | **%.2f** | %.2f | %s | %s | %s | %.3f |\n", r.Name, r.wanted(), r.Ratio(0, 0),
			r.MedianRatio(0, 0), r.verdict(0),
			r.speed(r.Entries[0]), r.speed(r.Entries[1]), r.AllocsPerOp)
	}
	callsTable(b, results)
}

func (r Result) wanted() string {
	if r.More > 0 {
		return fmt.Sprintf("at most %.3g ms more", r.More/1e6)
	}
	if r.Want == 0 {
		return "–"
	}
	if r.AtLeast {
		return fmt.Sprintf("at least %.2g", r.Want)
	}
	return fmt.Sprintf("at most %.2g", r.Want)
}

func (r Result) verdict(ours int) string {
	if r.Want == 0 && r.More == 0 {
		return "–"
	}
	if r.Met(ours) {
		return "met"
	}
	return "missed"
}

// speed formats the best round: as bytes per second for large messages, as operations per second for operations without
// data, otherwise as time.
func (r Result) speed(f Figures) string {
	best := f.Best()
	switch {
	case r.More > 0:
		return fmt.Sprintf("%.1f ms", f.Median()/1e6)
	case r.Bytes >= 4096:
		return fmt.Sprintf("%.2f GB/s", float64(r.Bytes)/best)
	case r.Bytes == 0:
		return fmt.Sprintf("%.0f /s", 1e9/best)
	}
	return fmt.Sprintf("%.0f ns", best)
}

// bandwidth writes a line for each of Ours: its throughput, and for each yardstick its throughput and the ratio.
func bandwidth(b *strings.Builder, results []Result) {
	wide(b, results, []string{"bandwidth", "messages a second"}, func(r Result, f Figures) []string {
		return []string{rate(float64(r.Bytes)*1e9/f.Best(), "B/s"), rate(1e9/f.Best(), "/s")}
	}, func(r Result, f Figures) string { return rate(float64(r.Bytes)*1e9/f.Best(), "B/s") })
}

// latency writes medians and 99th percentiles.
func latency(b *strings.Builder, results []Result) {
	cells := func(_ Result, f Figures) []string { return []string{micros(f.Best()), micros(median(f.P99))} }
	wide(b, results, []string{"median", "99 of 100"}, cells,
		func(r Result, f Figures) string { return strings.Join(cells(r, f), ", ") })
}

// delay writes the times of a QP beside the load of another QP and without that load.
func delay(b *strings.Builder, results []Result) {
	cells := func(f Figures) string {
		return fmt.Sprintf("%s, %s, %s", micros(f.Best()), micros(median(f.P99)), micros(median(f.Max)))
	}
	b.WriteString("| link | load of QP A | QP B: median, 99 of 100, longest | longest of all rounds | alone | " +
		"longest of all rounds | added | wanted | verdict |\n" +
		strings.Repeat("| --- ", 9) + "|\n")
	for _, r := range results {
		yard := r.Entries[len(r.Ours)]
		for i, o := range r.Ours {
			f := r.Entries[i]
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | **%s** | at most %s | %s |\n", r.Link, o.Name, cells(f),
				micros(slices.Max(f.Max)), cells(yard),
				micros(slices.Max(yard.Max)), micros(r.Added(i)), micros(r.Want), r.verdict(i))
		}
	}
}

// wide writes a table with a line for each of Ours. Columns of yardsticks are matched by name.
func wide(b *strings.Builder, results []Result, heads []string, ours func(Result, Figures) []string,
	yard func(Result, Figures) string) {
	var yards []string
	judged := false
	for _, r := range results {
		judged = judged || r.Want > 0
		for _, y := range r.Yards {
			if !slices.Contains(yards, y.Name) {
				yards = append(yards, y.Name)
			}
		}
	}
	row := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	head := append([]string{"size", "operation"}, heads...)
	for _, y := range yards {
		head = append(head, y, "ratio")
	}
	if judged {
		head = append(head, "wanted of "+yards[0], "verdict")
	}
	row(head...)
	row(slices.Repeat([]string{"---"}, len(head))...)
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b Result) int { return a.Bytes - b.Bytes })
	for _, r := range results {
		for i, o := range r.Ours {
			line := append([]string{SizeText(r.Bytes), o.Name}, ours(r, r.Entries[i])...)
			for _, name := range yards {
				k := slices.IndexFunc(r.Yards, func(e Entry) bool { return e.Name == name })
				if k < 0 {
					line = append(line, "", "")
					continue
				}
				line = append(line, yard(r, r.Entries[len(r.Ours)+k]), fmt.Sprintf("**%.2f**", r.Ratio(i, k)))
			}
			switch {
			case judged && r.Want > 0:
				line = append(line, r.wanted(), r.verdict(i))
			case judged:
				line = append(line, "", "")
			}
			row(line...)
		}
	}
}

// SizeText formats a number of bytes as in pages: 64 B, 4 KiB, 1 MiB.
func SizeText(n int) string {
	s := Size(n)
	i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	return s[:i] + " " + s[i:]
}

// rate formats a number per second with three significant digits.
func rate(v float64, unit string) string {
	prefix := []string{"", "k", "M", "G"}
	k := 0
	for v >= 999.5 && k+1 < len(prefix) {
		v, k = v/1000, k+1
	}
	return Digits3(v) + " " + prefix[k] + unit
}

func micros(ns float64) string { return Digits3(ns/1000) + " us" }

// Digits3 formats a figure with three significant digits; below 1, with two decimals.
func Digits3(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// legend describes the entries of a table: per case in the table of ratios, otherwise once each. Where yardsticks with
// one name differ, it names the entry of Ours to which each belongs.
func legend(b *strings.Builder, results []Result) {
	type line struct {
		Entry
		beside []string // empty for one of Ours
	}
	var lines []line
	add := func(e Entry, beside []Entry) {
		k := slices.IndexFunc(lines, func(l line) bool { return l.Entry == e })
		if k < 0 {
			k = len(lines)
			lines = append(lines, line{Entry: e})
		}
		for _, o := range beside {
			if !slices.Contains(lines[k].beside, o.Name) {
				lines[k].beside = append(lines[k].beside, o.Name)
			}
		}
	}
	for _, r := range results {
		if r.Table == Ratios {
			fmt.Fprintf(b, "* `%s`: %s. Against: %s.\n", r.Name, r.Ours[0].What, r.Yards[0].What)
			continue
		}
		for _, e := range r.Ours {
			add(e, nil)
		}
	}
	for _, r := range results {
		if r.Table != Ratios {
			for _, e := range r.Yards {
				add(e, r.Ours)
			}
		}
	}
	for _, l := range lines {
		name := l.Name
		if slices.ContainsFunc(lines, func(o line) bool { return o.Name == l.Name && o.What != l.What }) {
			name += " beside " + strings.Join(l.beside, ", ")
		}
		fmt.Fprintf(b, "* %s: %s.\n", name, l.What)
	}
}

// Size formats a number of bytes as in names of cases: 64B, 4KiB, 1MiB.
func Size(n int) string {
	switch {
	case n >= mib && n%mib == 0:
		return fmt.Sprintf("%dMiB", n/mib)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}
