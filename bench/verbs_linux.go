package bench

import (
	"os"

	"ciddk/cmd/ddkrun/cli"
)

// ddkrunEnv makes the program ddkrun.
const ddkrunEnv = "BENCH_DDKRUN"

// isDDKRun reports whether this process has been started as ddkrun.
func isDDKRun() bool { return os.Getenv(ddkrunEnv) != "" }

// runDDKRun runs ddkrun with the arguments of this process, and returns its exit status.
func runDDKRun() int { return cli.Main(os.Args[1:]) }

// Operations of a round of the cases of unmodified verbs programs.
const (
	verbsPings  = 5000
	verbsSends  = 100000 / batch * batch
	verbsWrites = 4000
	starts      = 10
)

// VerbsCases returns the comparisons of unmodified verbs programs, which ddkrun runs, with programs of package ual
// through the same daemon, and with UCX over TCP, if it is installed (MissingUCX). The daemon is a process of its own.
// See MissingPerftest.
func VerbsCases() []Case { return verbsCases(1) }

// verbsCases is VerbsCases with a part of the operations in each round.
func verbsCases(part int) []Case {
	const large = 64 << 10
	pings, sends, writes := verbsPings/part, verbsSends/part/batch*batch, verbsWrites/part
	native := func(c Case, ours Entry, args []string, what string, r role, ops int, ucx ...string) Case {
		c.Ours = []Entry{ours, {ours.Name + " (copied)", "the same with ddkrun --share-memory=never"}}
		c.Yards = []Entry{{"native", what + ", in memory that the daemon shares"},
			{"native, own memory", "the same in memory that the programs have allocated, as verbs programs do"}}
		timed := c.Table == Latency
		other := role{Kind: ucxKind}
		own := r
		own.Own = true
		turns := []turn{{other, ops, timed, perftest{args, c.Bytes, nil}},
			{other, ops, timed, perftest{args, c.Bytes, []string{"--share-memory=never"}}}, {r, ops, timed, nil},
			{own, ops, timed, nil}}
		if MissingUCX() == "" {
			c.Yards = append(c.Yards, Entry{"UCX", "ucx_perftest " + ucx[1] + " over TCP, two processes"})
			turns = append(turns, turn{other, ops, timed, newUCXTest("tcp", c.Bytes, ucx...)})
		}
		c.Open = openVerbs(turns...)
		return c
	}
	return []Case{
		{Name: "verbs/start", Op: "start", More: 20e6, Ours: []Entry{{"ours", "ddkrun true, with a daemon that runs"}},
			Yards: []Entry{{"yardstick", "true"}}, Open: openStarts},
		native(Case{Name: "verbs/latency-64B", Table: Latency, Op: "message", Bytes: small, Want: 1.5},
			Entry{"ib_send_lat", "ib_send_lat -s 64"}, []string{"ib_send_lat"},
			"half of the time of a SEND and its answer between two programs of package ual",
			role{Kind: "send-ping", Size: small}, pings, "-t", "tag_lat"),
		native(Case{Name: "verbs/bandwidth-64B", Table: Bandwidth, AtLeast: true, Op: "message", Bytes: small,
			Want: 0.5},
			Entry{"ib_write_bw -l 32", "ib_write_bw -s 64 -l 32, 128 outstanding"},
			[]string{"ib_write_bw", "-l", "32", "-t", "128"},
			"RDMA WRITEs between two programs of package ual, in batches of 32, 128 outstanding",
			role{Kind: "write", Size: small, Per: batch, Depth: 4 * batch}, sends, "-t", "ucp_am_bw"),
		native(Case{Name: "verbs/bandwidth-64KiB", Table: Bandwidth, AtLeast: true, Op: "message", Bytes: large,
			Want: 0.8},
			Entry{"ib_write_bw", "ib_write_bw -s 65536, 16 outstanding"}, []string{"ib_write_bw", "-t", "16"},
			"RDMA WRITEs between two programs of package ual, 16 outstanding",
			role{Kind: "write", Size: large, Per: 1, Depth: streamDepth}, writes, "-t", "ucp_put_bw", "-O", "16"),
	}
}
