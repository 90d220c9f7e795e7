// Command table runs every comparison of package bench and prints the table of ratios, as Markdown. With -write it replaces the table in a
// page, between the lines <!-- table by bench/cmd/table --> and <!-- end of table -->.
//
//	go run ./bench/cmd/table -write docs/performance.md
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"

	"ciddk/bench"
)

const (
	from = "<!-- table by bench/cmd/table -->\n"
	to   = "<!-- end of table -->\n"
)

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
	page := flag.String("write", "", "page whose table is to be replaced")
	flag.Parse()
	if err := run(*rounds, *cases, *page, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(rounds int, glob, page string, out io.Writer) error {
	var results []bench.Result
	for _, c := range bench.Cases() {
		ok, err := path.Match(glob, c.Name)
		if err != nil {
			return fmt.Errorf("-case: %w", err)
		}
		if !ok {
			continue
		}
		r, err := c.Run(rounds)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return fmt.Errorf("no case matches %q", glob)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%s. %d rounds.\n\n", bench.Machine(), rounds)
	if err := bench.WriteTable(&b, results); err != nil {
		return err
	}
	b.WriteString("\n")
	if err := bench.WriteLegend(&b, results); err != nil {
		return err
	}
	b.WriteString("\n")
	if _, err := out.Write(b.Bytes()); err != nil || page == "" {
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := replace(old, b.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, text, 0o644)
}

// replace puts table between the two lines of a page.
func replace(page, table []byte) ([]byte, error) {
	head, rest, ok := bytes.Cut(page, []byte(from))
	if !ok {
		return nil, errors.New("the line " + from[:len(from)-1] + " is missing")
	}
	_, tail, ok := bytes.Cut(rest, []byte(to))
	if !ok {
		return nil, errors.New("the line " + to[:len(to)-1] + " is missing")
	}
	return bytes.Join([][]byte{head, []byte(from), table, []byte(to), tail}, nil), nil
}
