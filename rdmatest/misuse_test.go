package rdmatest_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/rdmatest"
)

// recorder is a test that records its failures and its log, and runs its cleanups when end is called.
type recorder struct {
	testing.TB
	failures, log []string
	cleanups      []func()
}

func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, a ...any) { r.failures = append(r.failures, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Logf(f string, a ...any)   { r.log = append(r.log, fmt.Sprintf(f, a...)) }
func (r *recorder) Failed() bool              { return len(r.failures) > 0 }

func (r *recorder) end() {
	for _, v := range slices.Backward(r.cleanups) {
		v()
	}
}

// TestOutsideOfBubble calls New in the wrong places.
func TestOutsideOfBubble(t *testing.T) {
	out := testenv.Try(t, func(t testing.TB) { rdmatest.New(t, rdmatest.Config{}, "a") })
	const outside = "rdmatest.New: not in a testing/synctest bubble: call it in the function that synctest.Test runs"
	assert.Equal(t, []string{outside}, out.Errors)
	type withDeadline struct {
		testing.TB
		deadline
	}
	synctest.Test(t, func(t *testing.T) {
		out := testenv.Try(t, func(t testing.TB) { rdmatest.New(withDeadline{TB: t}, rdmatest.Config{}, "a") })
		const other = "rdmatest.New: t is not the bubble's: pass the t of the function that synctest.Test runs"
		assert.Equal(t, []string{other}, out.Errors)
	})
}

// deadline has the method of a *testing.T outside of a bubble.
type deadline struct{}

func (deadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// TestMisuseOfNew checks the texts for wrong arguments of New.
func TestMisuseOfNew(t *testing.T) {
	const prefix = "rdmatest.New: "
	for _, tt := range []struct {
		want  string
		cfg   rdmatest.Config
		hosts []string
	}{
		{prefix + `no host given: give at least one name, such as "server"`, rdmatest.Config{}, nil},
		{prefix + `255 hosts given: at most 254`, rdmatest.Config{}, make([]string, 255)},
		{prefix + `the name "" of host 1 is empty or given twice`, rdmatest.Config{}, []string{"a", ""}},
		{prefix + `the name "a" of host 1 is empty or given twice`, rdmatest.Config{}, []string{"a", "a"}},
		{prefix + `Config.Latency is -1ns: give a positive duration, or 0 for 10µs`,
			rdmatest.Config{Latency: -1}, []string{"a"}},
		{prefix + `Config.TraceMemory is -1: give bytes, or 0 for 16777216`,
			rdmatest.Config{TraceMemory: -1}, []string{"a"}},
		{`the probability of "dropped" is 2: want 0 to 1`,
			rdmatest.Config{Faults: impair.Model{Drop: 2}}, []string{"a"}},
	} {
		checkMisuse(t, tt.want, func(t testing.TB) { rdmatest.New(t, tt.cfg, tt.hosts...) })
	}
}

// TestMisuse checks the texts for wrong arguments of the methods of a Network.
func TestMisuse(t *testing.T) {
	const unknown = `: there is no host "x": New was given a, b`
	for want, f := range map[string]func(*rdmatest.Network){
		`Host` + unknown:      func(n *rdmatest.Network) { n.Host("x") },
		`Kill` + unknown:      func(n *rdmatest.Network) { n.Kill("x") },
		`Restart` + unknown:   func(n *rdmatest.Network) { n.Restart("x") },
		`Partition` + unknown: func(n *rdmatest.Network) { n.Partition("a", "x") },
		`Heal` + unknown:      func(n *rdmatest.Network) { n.Heal("x", "b") },
		`Restart: the host "a" is running: Kill it first`: func(n *rdmatest.Network) { n.Restart("a") },
		`Partition: "a" is given twice: give two hosts`:   func(n *rdmatest.Network) { n.Partition("a", "a") },
		`BreakQP: the connection is nil`:                  func(n *rdmatest.Network) { n.BreakQP(nil) },
		`Kill: the host "a" is killed already: Restart starts it again`: func(n *rdmatest.Network) {
			n.Kill("a")
			n.Kill("a")
		},
	} {
		checkMisuse(t, "rdmatest: Network."+want, func(t testing.TB) {
			f(rdmatest.New(t, rdmatest.Config{}, "a", "b"))
		})
	}
}

// checkMisuse checks that f fails its test, with one text, and leaves nothing behind.
func checkMisuse(t *testing.T, want string, f func(testing.TB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); f(r) }()
		<-done
		r.end()
		if assert.Len(t, r.failures, 1, want) {
			assert.Contains(t, r.failures[0], want)
		}
	})
}

// TestBreakQPAfterTheEnd breaks a connection that is closed.
func TestBreakQPAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		n := rdmatest.New(r, rdmatest.Config{}, "a", "b")
		c, _ := connect(t, n.Host("a"), n.Host("b"))
		require.NoError(t, c.Close())
		done := make(chan struct{})
		go func() { defer close(done); n.BreakQP(c) }()
		<-done
		require.Len(t, r.failures, 1)
		assert.Contains(t, r.failures[0], "rdmatest: Network.BreakQP: the connection from 10.0.0.1:")
		assert.Contains(t, r.failures[0], "disconnected here")
		r.end()
	})
}

// TestLogOfAFailure fails a test: its log has the seed, the hash of the trace and the last packets.
func TestLogOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		n := rdmatest.New(r, rdmatest.Config{Seed: 77}, "a", "b")
		for range 5 {
			connect(t, n.Host("a"), n.Host("b"))
		}
		r.Errorf("failed")
		r.end()
		require.Equal(t, []string{"failed"}, r.failures)
		require.Len(t, r.log, 1)
		lines := strings.Split(r.log[0], "\n")
		assert.Equal(t, "rdmatest: seed 77, trace "+n.TraceHash(), lines[0])
		assert.Len(t, lines, 21)
	})
}

// TestConfigure sees the configuration of each host, and the error of one that cannot be opened.
func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("closed as told")
		var names []string
		r := &recorder{TB: t}
		n := rdmatest.New(r, rdmatest.Config{Configure: func(host string, c *rdmatest.HostConfig) {
			names = append(names, host)
			c.HCA.NodeDescription = host
			c.Manager.OnClose = func() error { return bad }
		}}, "a", "b")
		assert.Equal(t, []string{"a", "b"}, names)
		assert.NotNil(t, n)
		r.end()
		require.Len(t, r.failures, 2)
		assert.Contains(t, r.failures[0], `closing the host "b": closed as told`)
	})
	synctest.Test(t, func(t *testing.T) {
		out := testenv.Try(t, func(t testing.TB) {
			rdmatest.New(t, rdmatest.Config{Configure: func(_ string, c *rdmatest.HostConfig) {
				c.HCA.NodeDescription = strings.Repeat("x", 65)
			}}, "a")
		})
		require.Len(t, out.Errors, 1)
		assert.Contains(t, out.Errors[0], `rdmatest.New: opening the host "a": `)
		assert.Contains(t, out.Errors[0], "at most 64")
	})
}
