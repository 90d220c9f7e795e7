// Command user measures two applications that share an adapter through a daemon, beside a bare relay of shared memory,
// copy and UCX (ucx_perftest, Debian's package ucx-utils, if it is installed). It prints tables as Markdown. With
// -write it replaces the tables in a page, between the lines <!-- table by bench/cmd/user --> and
// <!-- end of table -->, and writes the charts beside the page: performance-user-bandwidth.svg and
// performance-user-latency.svg for performance.md.
//
//	go build -o user ./bench/cmd/user
//	chrt -r 1 taskset -c 0,1 ./user -write docs/performance.md
//
// The limits are for two processors that do nothing else: taskset selects them, and chrt keeps other programs away. Not
// more than a minute passes.
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
const mark = "bench/cmd/user"

func main() {
	if bench.IsPeer() {
		if err := bench.ServePeer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "user: peer:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 21, "rounds of each case and its yardsticks")
	cases := flag.String("case", "*/*", "glob of the cases to run")
	page := flag.String("write", "", "page whose tables are to be replaced; their charts are written beside it")
	flag.Parse()
	if err := run(*rounds, *cases, *page, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "user:", err)
		os.Exit(1)
	}
}

func run(rounds int, glob, page string, out io.Writer) error {
	if why := bench.MissingUCX(); why != "" {
		fmt.Fprintln(os.Stderr, "user: no figures of UCX:", why)
	}
	results, err := bench.RunMatching(bench.UserCases(), glob, rounds)
	if err != nil {
		return err
	}
	if err := bench.Report(out, bench.Machine(), rounds, results, nil); err != nil || page == "" {
		return err
	}
	return chart.Page{File: page, Command: mark, Infix: "-user"}.Write(bench.Machine(), rounds, results)
}
