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
	"ciddk/test/linux/guest"
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

// programs lists the programs.
func programs() []string {
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

// IsBusy reports whether an error of a case means that the machine was too busy for perftest.
func IsBusy(err error) bool { return errors.Is(err, errNoFrequency) }

// An End is a device of a guest at which a program of perftest runs.
type End struct {
	Device string
	GID    int // index of the GID to use; NoGID on InfiniBand
}

// NoGID is the GID index of an End that is addressed by LID.
const NoGID = -1

// A Perftest runs programs of perftest between two devices of a guest, which may be the same one.
type Perftest struct {
	VM   *guest.Guest
	Ends [2]End
	last uint16 // TCP port of the last server
}

// firstPort is the TCP port of the first server.
const firstPort = 18516

// perftestTries is the number of tries for a run until perftest can measure the processor's frequency.
const perftestTries = 5

// Run runs one measurement of a program that measures what the table shows, such as ib_write_bw for bench.Bandwidth.
// The client at the second end sends messages of size bytes to the server at the first end.
func (p *Perftest) Run(ctx context.Context, program string, table bench.Table, size int) (s bench.Sample, err error) {
	for range perftestTries {
		if s, err = p.once(ctx, program, table, size); !errors.Is(err, errNoFrequency) {
			break
		}
	}
	return s, err
}

func (p *Perftest) once(ctx context.Context, program string, table bench.Table, size int) (bench.Sample, error) {
	if p.last++; p.last < firstPort {
		p.last = firstPort
	}
	port := p.last // the previous one may be in time-wait
	args := func(e End) []string {
		list := []string{program, "-d", e.Device, "-s", itoa(size), "-n", itoa(iterations(table, size)), "-p",
			itoa(int(port)), "-F"}
		if e.GID != NoGID {
			list = append(list, "-x", itoa(e.GID))
		}
		return list
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := p.VM.Start(ctx, args(p.Ends[0])...)
	if err != nil {
		return bench.Sample{}, err
	}
	if err := p.VM.WaitListen(ctx, port); err != nil {
		cancel()
		_, why := server.Wait()
		return bench.Sample{}, fmt.Errorf("%w: %w", err, why)
	}
	out, err := run(ctx, p.VM, append(args(p.Ends[1]), "127.0.0.1")...)
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
		return bench.Sample{}, fmt.Errorf("%s, server: exit code %d: %s%s", program, r.Code, r.Stdout, r.Stderr)
	}
	s, err := parsePerftest(out, table, size)
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", program, err, out)
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
		case t == bench.Bandwidth: // all figures are 0
			return s, errNoFrequency
		default:
			return s, fmt.Errorf("figures are missing in %q", line)
		}
		return s, nil
	}
	return bench.Sample{}, fmt.Errorf("no line of figures for %d bytes", size)
}
