// Command table boots a Linux guest, measures the reference HCA in it beside rxe, and prints the tables of package
// speed as Markdown. With -write it replaces them in a page, between the lines <!-- table by test/linux/speed/table -->
// and <!-- end of table -->, and writes the charts that this part shows beside the page:
// performance-linux-bandwidth.svg and performance-linux-latency.svg for performance.md.
//
//	go run ./test/linux/speed/table -write docs/performance.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"ciddk/bench"
	"ciddk/bench/chart"
	"ciddk/test/linux/speed"
)

// mark names the place in the page.
const mark = "test/linux/speed/table"

func main() {
	rounds := flag.Int("rounds", 3, "rounds of each case and its yardsticks")
	cases := flag.String("case", "*/*", "glob of the cases to run, such as guest/latency-*")
	mtu := flag.Int("mtu", 1500, "MTU of the interfaces in bytes: 1500 gives an IB MTU of 1024, 4200 one of 4096")
	page := flag.String("write", "", "page whose tables are to be replaced; their charts are written beside it")
	limit := flag.Duration("timeout", 2*time.Hour, "for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := run(ctx, *rounds, *mtu, *cases, *page, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, mtu int, glob, page string, out, progress io.Writer) (err error) {
	l, err := speed.New(ctx, mtu)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.Close(); err == nil {
			err = e
		}
	}()
	all, err := l.Cases(ctx)
	if err != nil {
		return err
	}
	cases, err := bench.Match(all, glob)
	if err != nil {
		return err
	}
	var results []bench.Result
	for _, c := range cases {
		start := time.Now()
		r, err := c.Run(rounds)
		if err != nil {
			return err
		}
		fmt.Fprintf(progress, "%s: %.2f of rxe (%v)\n", c.Name, r.Ratio(0, 0), time.Since(start).Round(time.Second))
		results = append(results, r)
	}
	if err := bench.Report(out, l.Machine(), rounds, results, nil); err != nil || page == "" {
		return err
	}
	return chart.Page{File: page, Command: mark, Infix: "-linux"}.Write(l.Machine(), rounds, results)
}
