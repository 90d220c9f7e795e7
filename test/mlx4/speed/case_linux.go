package speed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ciddk/bench"
)

// Required ratios: of bandwidth to rxe, and of latency to the round trip of a doorbell.
const (
	wantBandwidth = 1
	wantLatency   = 5
)

const (
	latencySize = 2               // bytes of a message: the default of ib_send_lat
	numBells    = "2000"          // doorbells of a round
	oneRun      = time.Minute * 3 // the time limit for a program in the guest
)

// Cases returns the cases. ctx applies to their rounds.
func (l *Lab) Cases(ctx context.Context) []bench.Case {
	links := func(what string) []bench.Entry {
		return []bench.Entry{{Name: "InfiniBand", What: what + ", a card with an InfiniBand port, MTU 4096"},
			{Name: "RoCE v2", What: what + ", a card with an Ethernet port, MTU 1024"}}
	}
	rxe := func(program string) bench.Entry {
		return bench.Entry{Name: "rxe", What: "Linux' Soft-RoCE over veth, by " + program}
	}
	var list []bench.Case
	for _, size := range []int{64 << 10, 1 << 20} {
		const program = "ib_write_bw"
		ours := func(e int) measurement {
			return func(ctx context.Context) (bench.Sample, error) {
				return l.ends[e].Run(ctx, program, bench.Bandwidth, size)
			}
		}
		list = append(list, bench.Case{Name: "model/write-" + bench.Size(size), Table: bench.Bandwidth, Op: "WRITE",
			Bytes: size, Want: wantBandwidth, AtLeast: true, Ours: links(program), Yards: []bench.Entry{rxe(program)},
			Warm: true, Open: l.open(ctx, ours(0), ours(1), ours(2))})
	}
	const program = "ib_send_lat"
	ours := func(e int) measurement {
		return func(ctx context.Context) (bench.Sample, error) {
			return l.ends[e].Run(ctx, program, bench.Latency, latencySize)
		}
	}
	return append(list, bench.Case{Name: "model/send-lat", Table: bench.Latency, Op: "SEND", Bytes: latencySize,
		Want: wantLatency, Ours: links(program), Yards: []bench.Entry{{Name: "doorbell",
			What: "round trip of a register write over vfio-user and of the device's write to memory"}, rxe(program)},
		Warm: true, Open: l.open(ctx, ours(0), ours(1), l.doorbells, ours(2))})
}

// A measurement runs a round of one entry.
type measurement func(context.Context) (bench.Sample, error)

// open returns a function that makes the rig of measurements.
func (l *Lab) open(ctx context.Context, list ...measurement) func() (bench.Rig, error) {
	return func() (bench.Rig, error) { return &rig{ctx, list}, nil }
}

// A rig runs a program of the guest for each round.
type rig struct {
	ctx  context.Context
	list []measurement
}

// Run runs a round of an entry.
func (r *rig) Run(entry int) (bench.Sample, error) {
	ctx, cancel := context.WithTimeout(r.ctx, oneRun)
	defer cancel()
	return r.list[entry](ctx)
}

// Close does nothing: the programs have ended.
func (r *rig) Close() error { return nil }

// doorbells measures round trips of doorbells.
func (l *Lab) doorbells(ctx context.Context) (bench.Sample, error) {
	out, err := l.run(ctx, "probe", "doorbell", l.bare, numBells)
	if err != nil {
		return bench.Sample{}, err
	}
	return parseDoorbells(out)
}

// parseDoorbells parses the output of the program probe: median and 99th percentile in nanoseconds.
func parseDoorbells(out string) (bench.Sample, error) {
	f := strings.Fields(out)
	if len(f) != 2 {
		return bench.Sample{}, fmt.Errorf("output of probe: %q", out)
	}
	var v [2]int64
	for i := range v {
		var err error
		if v[i], err = strconv.ParseInt(f[i], 10, 64); err != nil || v[i] <= 0 {
			return bench.Sample{}, fmt.Errorf("output of probe: %q", out)
		}
	}
	return bench.Sample{Ops: 1, Median: time.Duration(v[0]), P99: time.Duration(v[1])}, nil
}
