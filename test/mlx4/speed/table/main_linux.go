// Command table boots a Linux guest with ConnectX-3 models, measures them with perftest, and prints the tables of
// package speed as Markdown. With -write it replaces them in a page, between the lines <!-- table by
// test/mlx4/speed/table --> and <!-- end of table -->.
//
//	go run ./test/mlx4/speed/table -write docs/performance.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"ciddk/bench"
	"ciddk/test/mlx4/speed"
)

// mark names the place in the page.
const mark = "test/mlx4/speed/table"

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each case and its yardsticks")
	cases := flag.String("case", "*/*", "glob of the cases to run, such as model/send-lat")
	page := flag.String("write", "", "page whose tables are to be replaced")
	limit := flag.Duration("timeout", time.Hour, "for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := run(ctx, *rounds, *cases, *page, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, glob, page string, out, progress io.Writer) (err error) {
	l, err := speed.New(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.Close(); err == nil {
			err = e
		}
	}()
	cases, err := bench.Match(l.Cases(ctx), glob)
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
		for i, e := range c.Ours {
			fmt.Fprintf(progress, "%s, %s: %.2f of %s (%v)\n", c.Name, e.Name, r.Ratio(i, 0), c.Yards[0].Name,
				time.Since(start).Round(time.Second))
		}
		results = append(results, r)
	}
	var text strings.Builder
	if err := bench.Report(&text, l.Machine(), rounds, results, nil); err != nil {
		return err
	}
	if _, err := io.WriteString(out, text.String()); err != nil || page == "" {
		return err
	}
	return bench.ReplaceTable(page, mark, text.String())
}
