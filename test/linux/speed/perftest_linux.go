package speed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ciddk/bench"
)

// tool is a program of perftest.
type tool struct {
	program string
	note    string // remark for the comparison
}

var tools = map[bench.Table]map[string]tool{
	bench.Bandwidth: {
		bench.OpSend: {"ib_send_bw", ""}, bench.OpWrite: {"ib_write_bw", ""}, bench.OpRead: {"ib_read_bw", ""},
	},
	bench.Latency: {
		bench.OpSend: {"ib_send_lat", ""}, bench.OpWrite: {"ib_write_lat", ", whose passive side polls memory"},
		bench.OpRead: {"ib_read_lat", ""},
	},
}

// perftest lists the programs.
func perftest() []string {
	var list []string
	for _, t := range tools {
		for _, p := range t {
			list = append(list, p.program)
		}
	}
	return list
}

// iterations returns the number of iterations for about half a second in the guest.
func iterations(t bench.Table, size int) int {
	if t == bench.Latency {
		return max(50, min(500, 4<<20/size))
	}
	return max(64, min(5000, 16<<20/size))
}

// errNoFrequency means that perftest could not measure the processor's frequency, as happens on a busy machine: it
// prints inf and nan then.
var errNoFrequency = errors.New("perftest could not measure the processor's frequency; the machine is too busy")

// perftestTries is the number of tries for a run until perftest can measure the processor's frequency.
const perftestTries = 5

// perftest runs one measurement between the two rxe devices. The client on device 1 sends messages to the server.
func (l *Lab) perftest(ctx context.Context, t tool, table bench.Table, size int) (s bench.Sample, err error) {
	for range perftestTries {
		if s, err = l.perftestOnce(ctx, t, table, size); !errors.Is(err, errNoFrequency) {
			break
		}
	}
	return s, err
}

func (l *Lab) perftestOnce(ctx context.Context, t tool, table bench.Table, size int) (bench.Sample, error) {
	l.port++ // the last one may be in time-wait
	args := func(i int) []string {
		return []string{t.program, "-d", fmt.Sprintf(device, i), "-x", itoa(l.gid[i]), "-s", itoa(size), "-n",
			itoa(iterations(table, size)), "-p", itoa(int(l.port)), "-F"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := l.vm.Start(ctx, args(0)...)
	if err != nil {
		return bench.Sample{}, err
	}
	if err := l.vm.WaitListen(ctx, l.port); err != nil {
		cancel()
		_, why := server.Wait()
		return bench.Sample{}, fmt.Errorf("%w: %w", err, why)
	}
	out, err := l.run(ctx, append(args(1), "127.0.0.1")...)
	if err != nil {
		cancel()
	}
	r, serr := server.Wait()
	switch {
	case err != nil:
		return bench.Sample{}, err
	case serr != nil:
		return bench.Sample{}, serr
	case r.Code != 0:
		return bench.Sample{}, fmt.Errorf("%s, server: exit code %d: %s%s", t.program, r.Code, r.Stdout, r.Stderr)
	}
	s, err := parsePerftest(out, table, size)
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", t.program, err, out)
	}
	return s, nil
}

// parsePerftest finds the line of figures of version 4: it begins with the size. For bandwidth the columns are size,
// iterations, peak and average in MiB a second, and messages a second in millions; for latency size, iterations, least,
// most, typical (the median), mean, deviation and 99th percentile, in microseconds.
func parsePerftest(out string, t bench.Table, size int) (bench.Sample, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] != strconv.Itoa(size) {
			continue
		}
		v := make([]float64, len(f))
		for i := range f {
			var err error
			// A C library writes the sign of a NaN, which ParseFloat does not accept.
			if v[i], err = strconv.ParseFloat(strings.Replace(f[i], "-nan", "nan", 1), 64); err != nil {
				return bench.Sample{}, err
			}
			if math.IsInf(v[i], 0) || math.IsNaN(v[i]) {
				return bench.Sample{}, errNoFrequency
			}
		}
		micros := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
		s := bench.Sample{Ops: int(v[1])}
		switch {
		case t == bench.Latency && len(v) >= 8:
			s.Median, s.P99 = micros(v[4]), micros(v[7])
		case t == bench.Bandwidth && v[4] > 0:
			s.Time = micros(v[1] / v[4])
		case t == bench.Bandwidth && v[3] > 0: // fewer than one message a second
			s.Time = micros(v[1] * float64(size) / v[3] / (1 << 20) * 1e6)
		default:
			return s, fmt.Errorf("figures are missing in %q", line)
		}
		return s, nil
	}
	return bench.Sample{}, fmt.Errorf("no line of figures for %d bytes", size)
}
