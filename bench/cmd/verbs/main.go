// Command verbs measures unmodified verbs programs that ddkrun runs, beside programs of package ual through the same
// daemon and UCX over TCP (ucx_perftest, Debian's package ucx-utils, if it is installed). The programs are those of
// Debian's package perftest. It also measures the start of a program. It prints tables as Markdown. With -write it
// replaces the tables in a page, between the lines <!-- table by bench/cmd/verbs --> and <!-- end of table -->.
//
//	go build -o verbs ./bench/cmd/verbs
//	taskset -c 0,1 ./verbs -write docs/performance.md
//
// The limits are for two processors that do nothing else.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"ciddk/bench"
)

// mark is the command's name in the page.
const mark = "bench/cmd/verbs"

func main() {
	switch {
	case bench.IsPeer():
		if err := bench.ServePeer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "verbs: peer:", err)
			os.Exit(1)
		}
		return
	case bench.IsDDKRun():
		os.Exit(bench.RunDDKRun())
	}
	rounds := flag.Int("rounds", 11, "rounds of each case and its yardsticks")
	cases := flag.String("case", "*/*", "glob of the cases to run")
	page := flag.String("write", "", "page whose tables are to be replaced")
	flag.Parse()
	if err := run(*rounds, *cases, *page, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "verbs:", err)
		os.Exit(1)
	}
}

func run(rounds int, glob, page string, out io.Writer) error {
	if why := bench.MissingPerftest(); why != "" {
		return errors.New(why)
	}
	if why := bench.MissingUCX(); why != "" {
		fmt.Fprintln(os.Stderr, "verbs: no figures of UCX:", why)
	}
	results, err := bench.RunMatching(bench.VerbsCases(), glob, rounds)
	if err != nil {
		return err
	}
	var text strings.Builder
	err = bench.Report(io.MultiWriter(out, &text), bench.Machine(), rounds, results, nil)
	if err != nil || page == "" {
		return err
	}
	return bench.ReplaceTable(page, mark, text.String())
}
