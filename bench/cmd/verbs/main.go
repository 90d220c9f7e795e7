// Command verbs measures unmodified verbs programs that ddkrun runs, beside programs of package ual through the same
// daemon and UCX over TCP (ucx_perftest, Debian's package ucx-utils, if it is installed). The programs are those of
// Debian's package perftest. It also measures the start of a program. It prints tables as Markdown. With -write it
// replaces the tables in a page, between the lines <!-- table by bench/cmd/verbs --> and <!-- end of table -->, and
// writes the charts beside the page: performance-verbs-bandwidth.svg and performance-verbs-latency.svg for
// performance.md.
//
//	go build -o verbs ./bench/cmd/verbs
//	taskset -c 0,1 ./verbs -write docs/performance.md
//
// The limits are for two processors that do nothing else.
package main

import (
	"ciddk/bench"
	"ciddk/bench/tables"
)

var command = tables.Command{Mark: "bench/cmd/verbs", Infix: "-verbs", Rounds: 11, Cases: bench.VerbsCases,
	Missing: bench.MissingPerftest, Without: bench.MissingUCX}

func main() { command.Main() }
