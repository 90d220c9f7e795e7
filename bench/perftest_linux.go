package bench

import (
	"errors"
	"fmt"
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

func (p perftest) run(at surroundings, ops int, timed bool) (s Sample, err error) {
	args := append(p.args[:len(p.args):len(p.args)], "-F", "-s", strconv.Itoa(p.bytes), "-n", strconv.Itoa(ops))
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
	rate, err := strconv.ParseFloat(f[len(f)-1], 64) // millions of messages a second
	if err == nil && rate <= 0 {
		err = fmt.Errorf("%s: a rate of %q", p.args[0], f[len(f)-1])
	}
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
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && v <= 0 {
		err = fmt.Errorf("a time of %q", text)
	}
	return time.Duration(v * 1000), err
}
