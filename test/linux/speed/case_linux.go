package speed

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ciddk/bench"
)

// Required ratios to rxe, for messages of at least wantFrom bytes (bandwidth) or all sizes (latency).
const (
	wantBandwidth = 3
	wantLatency   = 1
	wantFrom      = 64 << 10
)

// fraction of the operations of a round on loopback, since the guest is about ten times slower
const part = 4

// oneRun is the time limit for a program in the guest.
const oneRun = 3 * time.Minute

// Cases returns the cases: bandwidth and latency of SEND, WRITE and READ at each of bench.WireSizes. The first
// yardstick is rxe, followed by those of bench.WireCase. ctx applies to their rounds.
func (l *Lab) Cases(ctx context.Context) ([]bench.Case, error) {
	var list []bench.Case
	for _, t := range []bench.Table{bench.Bandwidth, bench.Latency} {
		for _, size := range bench.WireSizes {
			for _, op := range []string{bench.OpSend, bench.OpWrite, bench.OpRead} {
				c, err := l.Case(ctx, t, op, size)
				if err != nil {
					return nil, err
				}
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// tableNames are the names of the tables in bench/cmd/pair.
var tableNames = map[bench.Table]string{bench.Bandwidth: "bandwidth", bench.Latency: "latency"}

// Case returns one case.
func (l *Lab) Case(ctx context.Context, t bench.Table, op string, size int) (bench.Case, error) {
	c, err := bench.WireCase(bench.Place{}, part, t, op, size)
	if err != nil {
		return c, err
	}
	c.Name = fmt.Sprintf("guest/%s-%s-%s", tableNames[t], strings.ToLower(op), bench.Size(size))
	tool := tools[t][op]
	c.Yards = append([]bench.Entry{{Name: "rxe", What: "Linux' Soft-RoCE, by " + tool.program + tool.note}}, c.Yards...)
	switch {
	case t == bench.Latency:
		c.Want = wantLatency
	case size >= wantFrom:
		c.Want = wantBandwidth
	}
	c.Warm = true // each round is a run of a program, which warms up by itself
	c.Open = func() (bench.Rig, error) { return &rig{l: l, ctx: ctx, table: t, op: op, size: size, tool: tool}, nil }
	return c, nil
}

// rig runs a program of the guest for each round. A run of bench/cmd/pair is a round of ours and of all yardsticks
// except rxe.
type rig struct {
	l     *Lab
	ctx   context.Context
	table bench.Table
	op    string
	size  int
	tool  tool
	pair  []bench.Figures // of the last run: ours, then all yardsticks except rxe
}

func (r *rig) Close() error { return nil }

// Run runs a round of an entry: 0 is ours, 1 is rxe.
func (r *rig) Run(entry int) (bench.Sample, error) {
	ctx, cancel := context.WithTimeout(r.ctx, oneRun)
	defer cancel()
	if entry == 1 {
		return r.l.rxe.Run(ctx, r.tool.program, r.table, r.size)
	}
	if entry > 1 {
		entry--
	} else if err := r.runPair(ctx); err != nil {
		return bench.Sample{}, err
	}
	f := r.pair[entry]
	if r.table == bench.Latency {
		return bench.Sample{Ops: 1, Median: time.Duration(f.NS[0]), P99: time.Duration(f.P99[0])}, nil
	}
	return bench.Sample{Ops: 1000, Time: time.Duration(1000 * f.NS[0])}, nil
}

func (r *rig) runPair(ctx context.Context) error {
	out, err := r.l.run(ctx, "ip", "netns", "exec", "a", "pair", "-here", oursAddr[0].String(), "-there",
		oursAddr[1].String(), "-enter", "ip netns exec b",
		"-table", tableNames[r.table], "-op", r.op, "-part", itoa(part), "-size", itoa(r.size))
	if err != nil {
		return err
	}
	r.pair = nil
	if err := json.Unmarshal([]byte(out), &r.pair); err != nil {
		return fmt.Errorf("output of bench/cmd/pair: %w: %s", err, out)
	}
	for _, f := range r.pair {
		if len(f.NS) == 0 || r.table == bench.Latency && len(f.P99) == 0 {
			return fmt.Errorf("output of bench/cmd/pair lacks a round: %s", out)
		}
	}
	return nil
}
