// Package tables is the command line of the commands that measure and publish the comparisons of package bench.
package tables

import (
	"flag"
	"fmt"
	"io"
	"os"

	"ciddk/bench"
	"ciddk/bench/chart"
)

// A Command measures comparisons, prints their tables as Markdown and, with -write, replaces the tables in a page.
type Command struct {
	Mark   string // names the place in the page: "<!-- table by MARK -->"
	Infix  string // of the names of the charts: see chart.Page
	Rounds int    // unless -rounds says otherwise
	Cases  func() []bench.Case
	// Missing returns what the machine lacks for any figure, Without what it lacks for some; nil: nothing.
	Missing, Without func() string
}

// Main runs the command with the arguments of the process, and exits if it fails.
func (c Command) Main() {
	bench.RunRole()
	rounds := flag.Int("rounds", c.Rounds, "rounds of each case and its yardsticks")
	cases := flag.String("case", "*/*", "glob of the cases to run")
	page := flag.String("write", "", "page whose tables are to be replaced; their charts are written beside it")
	flag.Parse()
	if err := c.Run(*rounds, *cases, *page, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Mark, err)
		os.Exit(1)
	}
}

// Run measures the cases that glob selects, and prints their tables to out. If page is not empty, it replaces the
// tables of that page.
func (c Command) Run(rounds int, glob, page string, out io.Writer) error {
	if c.Missing != nil {
		if why := c.Missing(); why != "" {
			return fmt.Errorf("nothing can be measured: %s", why)
		}
	}
	if c.Without != nil {
		if why := c.Without(); why != "" {
			fmt.Fprintln(os.Stderr, "figures are missing:", why)
		}
	}
	results, err := bench.RunMatching(c.Cases(), glob, rounds)
	if err != nil {
		return err
	}
	if err := bench.Report(out, bench.Machine(), rounds, results, nil); err != nil || page == "" {
		return err
	}
	return chart.Page{File: page, Command: c.Mark, Infix: c.Infix}.Write(bench.Machine(), rounds, results)
}
