// Package bench measures the reference HCA, through package ci alone, against yardsticks: what the machine does without it, by the
// plainest means. A yardstick runs beside what it judges, in the same run and in turns with it, so that a busy or a slow machine
// changes both; figures are judged by the ratio.
//
// Cases lists what is measured. Over UDP, two processes take part: the program starts itself again as the peer (Start, Main), and the
// two agree over pipes when to begin.
//
//	go test ./bench -run '^$' -bench .       the benchmarks, and a table of the ratios at the end
//	go run ./bench/cmd/table                 the table at length; with -write, into docs/performance.md
//	go test ./bench                          allocations per work request, memory per QP, what a quiet HCA costs
package bench
