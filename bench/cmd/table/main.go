// Command table runs every comparison of package bench and prints the table of ratios, as Markdown. With -write it
// replaces the table in a page, between the lines <!-- table by bench/cmd/table --> and <!-- end of table -->, and
// writes the charts that this part shows beside the page: performance-bandwidth.svg and performance-latency.svg for
// performance.md.
//
//	go run ./bench/cmd/table -write docs/performance.md
//	go run ./bench/cmd/table -case 'delay/*'            the delay that one QP causes another, and nothing else
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"ciddk/bench"
	"ciddk/bench/chart"
)

// mark is the command's name in the page.
const mark = "bench/cmd/table"

func main() {
	if bench.IsPeer() {
		if err := bench.ServePeer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "table: peer:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 21, "rounds of each case and its yardstick")
	cases := flag.String("case", "*/*", "glob of the cases to run")
	page := flag.String("write", "", "page whose tables are to be replaced; their charts are written beside it")
	flag.Parse()
	if err := run(*rounds, *cases, *page, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(rounds int, glob, page string, out io.Writer) error {
	results, err := bench.RunMatching(bench.Cases(), glob, rounds)
	if err != nil {
		return err
	}
	if err := bench.Report(out, bench.Machine(), rounds, results, nil); err != nil || page == "" {
		return err
	}
	return chart.Page{File: page, Command: mark}.Write(bench.Machine(), rounds, results)
}
