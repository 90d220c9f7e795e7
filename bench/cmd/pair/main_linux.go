// Command pair runs one case of bench.Wire at a place other than loopback, and prints a list of bench.Figures as JSON,
// Ours first. The harness that measures in a Linux guest runs it there:
//
//	ip netns exec a pair -here 10.79.0.1 -there 10.79.0.2 -enter 'ip netns exec b' \
//		-table bandwidth -op SEND -size 65536
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"ciddk/bench"
)

func main() {
	bench.RunRole()
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pair:", err)
		os.Exit(1)
	}
}

// tables by the names that -table takes.
var tables = map[string]bench.Table{"bandwidth": bench.Bandwidth, "latency": bench.Latency}

func run(args []string, out io.Writer) error {
	f := flag.NewFlagSet("pair", flag.ContinueOnError)
	var at bench.Place
	f.TextVar(&at.Here, "here", netip.IPv4Unspecified(), "IPv4 address of this process")
	f.TextVar(&at.There, "there", netip.IPv4Unspecified(), "IPv4 address of its peer")
	enter := f.String("enter", "", "words of a command that starts the peer where -there is")
	table := f.String("table", "bandwidth", "bandwidth or latency")
	op := f.String("op", bench.OpSend, bench.OpSend+", "+bench.OpWrite+" or "+bench.OpRead)
	size := f.Int("size", 64<<10, "bytes of a message")
	part := f.Int("part", 1, "make that part of the operations that a round has on loopback")
	rounds := f.Int("rounds", 1, "rounds that count")
	if err := f.Parse(args); err != nil {
		return err
	}
	t, ok := tables[*table]
	if !ok {
		return fmt.Errorf("-table %q: want bandwidth or latency", *table)
	}
	if at.Here.IsUnspecified() != at.There.IsUnspecified() {
		return fmt.Errorf("-here %v and -there %v: give both, or none for loopback", at.Here, at.There)
	}
	if at.Here.IsUnspecified() {
		at = bench.Place{}
	}
	at.Enter = strings.Fields(*enter)
	c, err := bench.WireCase(at, *part, t, *op, *size)
	if err != nil {
		return err
	}
	r, err := c.Run(*rounds)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r.Entries)
}
