package bench

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ucxKind is the kind of turns that two processes of UCX's ucx_perftest run, with shared memory between them.
const ucxKind = "ucx"

// ucxProgram is in Debian's package ucx-utils.
const ucxProgram = "ucx_perftest"

// MissingUCX returns the reason why the cases have no figures of UCX, "" if they have.
func MissingUCX() string {
	if _, err := exec.LookPath(ucxProgram); err != nil {
		return ucxProgram + " is not installed (Debian: ucx-utils)"
	}
	return ""
}

// ucxTest is a test of ucx_perftest.
type ucxTest struct {
	transports string // UCX_TLS
	args       []string
}

// newUCXTest returns a test with messages of a size.
func newUCXTest(transports string, bytes int, args ...string) ucxTest {
	return ucxTest{transports, append([]string{"-s", strconv.Itoa(bytes)}, args...)}
}

// run runs the test for ops operations. With timed, it does so twice: the program computes one percentile in a run.
func (u ucxTest) run(at surroundings, ops int, timed bool) (s Sample, err error) {
	s.Ops = ops
	if !timed {
		l, err := u.once(at, ops, 50)
		s.Time = time.Duration(float64(ops) * l.overall * 1000)
		return s, err
	}
	for _, p := range []struct {
		percentile int
		to         *time.Duration
	}{{50, &s.Median}, {99, &s.P99}} {
		l, err := u.once(at, ops, p.percentile)
		if err != nil {
			return s, err
		}
		*p.to = time.Duration(l.percentile * 1000)
	}
	return s, nil
}

// ucxTimes are the times of an operation in microseconds.
type ucxTimes struct{ percentile, overall float64 }

func (u ucxTest) once(at surroundings, ops, percentile int) (t ucxTimes, err error) {
	args := append([]string{ucxProgram, "-f", "-n", strconv.Itoa(ops), "-w", strconv.Itoa(ops / 10), "-R",
		strconv.Itoa(percentile)}, u.args...)
	at.prefix = nil
	at.env = append(slices.Clip(at.env), "UCX_TLS="+u.transports, "UCX_LOG_LEVEL=error")
	text, err := at.runPrograms(args, "refused")
	if err != nil {
		return t, err
	}
	return parseUCX(text)
}

// parseUCX returns the times in the last line: iterations, percentile, average and overall time.
func parseUCX(text string) (t ucxTimes, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	f := strings.Fields(lines[len(lines)-1])
	if len(f) < 4 {
		return t, fmt.Errorf("%s: no figures in %q", ucxProgram, text)
	}
	if t.percentile, err = strconv.ParseFloat(f[1], 64); err == nil {
		t.overall, err = strconv.ParseFloat(f[3], 64)
	}
	if err == nil && (t.percentile <= 0 || t.overall <= 0) {
		err = errors.New("times of 0")
	}
	if err != nil {
		return t, fmt.Errorf("%s: %q: %w", ucxProgram, lines[len(lines)-1], err)
	}
	return t, nil
}

// freePort returns a TCP port on which nothing listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// ucxHalf does nothing: userRig.Run runs the programs.
type ucxHalf struct{}

func newUCXHalf(*host, role) (half, error) { return ucxHalf{}, nil }

func (ucxHalf) address() address      { return address{} }
func (ucxHalf) join(address) error    { return nil }
func (ucxHalf) run(int, *watch) error { return errors.New("not run by halves") }
func (ucxHalf) end() error            { return nil }
func (ucxHalf) close() error          { return nil }
