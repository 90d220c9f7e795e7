// Command user measures applications that share an adapter through a daemon, and prints tables, as Markdown.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"ciddk/bench"
)

func main() {
	if bench.IsPeer() {
		if err := bench.ServePeer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "user: peer:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 21, "rounds of each case and its yardstick")
	cases := flag.String("case", "*/*", "glob of the cases to run")
	flag.Parse()
	if err := run(*rounds, *cases, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "user:", err)
		os.Exit(1)
	}
}

func run(rounds int, glob string, out io.Writer) error {
	cases, err := bench.Match(bench.UserCases(), glob)
	if err != nil {
		return err
	}
	var results []bench.Result
	for _, c := range cases {
		r, err := c.Run(rounds)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return bench.Report(out, bench.Machine(), rounds, results, nil)
}
