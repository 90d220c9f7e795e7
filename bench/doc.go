// Package bench measures the reference HCA, through package ci alone, against yardsticks: what the machine achieves
// without it, by the simplest means. A yardstick runs in the same run as the measured case and takes turns with it, so
// that a busy or slow machine affects both. Results are ratios.
//
// Cases returns the comparisons: ratios with a limit, (Wire) messages of several sizes over UDP beside plain UDP and
// TCP sockets, and the delay that a QP with a large load causes to another QP of its port. Most cases over UDP use two
// processes: the program starts itself again as the peer (RunRole), and the two synchronize over pipes. Each
// process then does its half of the work, which is one of kinds.
//
//	go test ./bench -run '^$' -bench .       the benchmarks, and a table of the ratios at the end
//	go run ./bench/cmd/table                 the table at length; with -write, into docs/performance.md
//	go test ./bench                          allocations per work request, memory per QP, what a quiet HCA costs
package bench
