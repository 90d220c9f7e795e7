package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ciddk/bench"
)

// A Page is where a command publishes its results: a part of a Markdown page (see bench.ReplaceTable), and pictures in
// the same folder.
type Page struct {
	File    string
	Command string // COMMAND in the page's lines
	// Infix distinguishes the pictures of several commands that write to one page: with "-linux", the pictures of
	// performance.md are called performance-linux-latency.svg and so on.
	Infix string
}

// Write draws the pictures of those tables that have results, writes them beside the page, and replaces the page's part
// by the tables, each below its picture. If a picture cannot be drawn, nothing is written. Errors are those of Draw, of
// bench.ReplaceTable and of writing files.
func (p Page) Write(machine string, rounds int, results []bench.Result) error {
	pictures, above := map[string][]byte{}, map[bench.Table]string{}
	for _, t := range []bench.Table{bench.Bandwidth, bench.Latency} {
		if len(bench.Of(results, t)) == 0 {
			continue
		}
		d, err := collect(t, results)
		if err != nil {
			return err
		}
		name := p.picture(t)
		pictures[name] = d.draw(t)
		above[t] = d.link(t, name)
	}
	var text bytes.Buffer
	if err := bench.Report(&text, machine, rounds, results, above); err != nil {
		return err
	}
	for name, svg := range pictures {
		if err := os.WriteFile(filepath.Join(filepath.Dir(p.File), name), svg, 0o644); err != nil {
			return err
		}
	}
	return bench.ReplaceTable(p.File, p.Command, text.String())
}

// picture returns the name of a picture's file.
func (p Page) picture(t bench.Table) string {
	base := filepath.Base(p.File)
	return fmt.Sprintf("%s%s-%v.svg", strings.TrimSuffix(base, filepath.Ext(base)), p.Infix, t)
}

// link returns the Markdown of a picture. Its alternative text refers to the table below.
func (d data) link(t bench.Table, name string) string {
	var ops []string
	for _, p := range d.panels {
		for _, g := range p.groups {
			if !slices.Contains(ops, g.name) {
				ops = append(ops, g.name)
			}
		}
	}
	return fmt.Sprintf("![Bars: %v of %s by message size, %s; the figures are those of the table below](%s)", t,
		strings.Join(ops, ", "),
		ours+" beside "+strings.Join(d.series[1:], ", "), name)
}
