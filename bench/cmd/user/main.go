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
	"ciddk/bench"
	"ciddk/bench/tables"
)

var command = tables.Command{Mark: "bench/cmd/user", Infix: "-user", Rounds: 21, Cases: bench.UserCases,
	Without: bench.MissingUCX}

func main() { command.Main() }
