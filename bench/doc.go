// Package bench measures the reference HCA, through package ci alone, against yardsticks: what the machine does without
// it, by the plainest means. A yardstick runs beside what it judges, in the same run and in turns with it, so that a
// busy or a slow machine changes both; figures are judged by the ratio.
//
// Cases lists what is measured: ratios that are held to a figure, and (Wire) what messages of several sizes take over
// UDP, beside bare UDP and TCP sockets; and how long a QP with a large load delays another QP of its port. In most
// cases over UDP, two processes take part: the program starts itself again as the peer (IsPeer, ServePeer), and the two
// agree over pipes when to begin. Each process then does its half of the work, one of kinds.
//
//	go test ./bench -run '^$' -bench .       the benchmarks, and a table of the ratios at the end
//	go run ./bench/cmd/table                 the table at length; with -write, into docs/performance.md
//	go test ./bench                          allocations per work request, memory per QP, what a quiet HCA costs
package bench
