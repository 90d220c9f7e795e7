// Command table runs every comparison of package bench and prints the table of ratios, as Markdown. With -write it
// replaces the table in a page, between the lines <!-- table by bench/cmd/table --> and <!-- end of table -->, and
// writes the charts of the page beside it: performance-bandwidth.svg and performance-latency.svg for
// performance.md.
//
//	go run ./bench/cmd/table -write docs/performance.md
//	go run ./bench/cmd/table -case 'delay/*'            the delay that one QP causes another, and nothing else
package main

import (
	"ciddk/bench"
	"ciddk/bench/tables"
)

var command = tables.Command{Mark: "bench/cmd/table", Rounds: 21, Cases: bench.Cases}

func main() { command.Main() }
