package bench

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// perftest is a program of Debian's package perftest, with its arguments.
type perftest struct {
	args  []string
	bytes int
	flags []string // of ddkrun
}

// MissingPerftest returns the reason why the cases of unmodified verbs programs cannot run, "" if they can.
func MissingPerftest() string {
	for _, name := range []string{"ib_send_lat", "ib_write_bw", "cc"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed (Debian: perftest, gcc)"
		}
	}
	return ""
}

// errClock is the error of a program that could not tell the time: perftest compares the counter of the processor
// with the clock for a moment as it starts, takes the frequency for 0 if they disagree (as on a busy machine), and
// prints inf, nan or 0.
var errClock = errors.New("perftest could not find the frequency of the processor")

// clockTries is how often a measurement is made until its program can tell the time.
const clockTries = 10

func (p perftest) run(at surroundings, ops int, timed bool) (s Sample, err error) {
	for range clockTries {
		if s, err = p.try(at, ops, timed); !errors.Is(err, errClock) {
			break
		}
	}
	return s, err
}

func (p perftest) try(at surroundings, ops int, timed bool) (s Sample, err error) {
	args := append(slices.Clip(p.args), "-F", "-s", strconv.Itoa(p.bytes), "-n", strconv.Itoa(ops))
	at.prefix = slices.Concat(at.prefix, p.flags)
	text, err := at.runPrograms(args, "ouldn't connect")
	if err != nil {
		return s, err
	}
	f, err := perftestLine(text, p.bytes, ops)
	if err != nil {
		return s, err
	}
	s.Ops = ops
	if timed {
		if len(f) < 8 {
			return s, fmt.Errorf("%s: a line without times: %q", p.args[0], f)
		}
		s.Median, err = microseconds(f[4])
		p99, e := microseconds(f[7])
		s.P99 = p99
		return s, errors.Join(err, e)
	}
	rate, err := figure(f[len(f)-1]) // millions of messages a second
	if err != nil {
		return s, err
	}
	s.Time = time.Duration(float64(ops) * 1000 / rate)
	return s, nil
}

// perftestLine returns the fields of the line with the figures: size, number of operations, and those of the program.
func perftestLine(text string, bytes, ops int) ([]string, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 5 && f[0] == strconv.Itoa(bytes) && f[1] == strconv.Itoa(ops) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("perftest: no figures in %q", text)
}

func microseconds(text string) (time.Duration, error) {
	v, err := figure(text)
	return time.Duration(v * 1000), err
}

// figure returns a measured value, which is positive. See errClock.
func figure(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.Replace(text, "-nan", "nan", 1), 64) // C prints a sign, Go reads none
	switch {
	case err != nil:
		return 0, fmt.Errorf("perftest: a figure of %q: %w", text, err)
	case !(v > 0) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%w: a figure of %q", errClock, text)
	}
	return v, nil
}
