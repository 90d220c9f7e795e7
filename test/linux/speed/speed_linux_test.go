package speed

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bench"
	"ciddk/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmoke runs one round of everything at one size. It does not check ratios, because other tests may run at the same
// time.
func TestSmoke(t *testing.T) {
	if testenv.Race {
		t.Skip("what it runs are programs of their own, without the race detector")
	}
	testenv.OnlyWhole(t)
	testenv.Linux(t, Available())
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	l, err := New(ctx, 1500)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "idempotent")
	}()
	require.Contains(t, l.Machine(), "TCG")

	crossed := func() (n [2]int) {
		for i, args := range [][]string{{"agent"}, {"ip", "netns", "exec", "a", "agent"}} {
			dev := []string{"v0", "a0"}[i]
			out, err := l.run(ctx, append(args, "cat", "/sys/class/net/"+dev+"/statistics/tx_bytes")...)
			require.NoError(t, err)
			n[i], err = strconv.Atoi(strings.TrimSpace(out))
			require.NoError(t, err)
		}
		return n
	}
	const size = 4096
	cases, err := l.Cases(ctx)
	require.NoError(t, err)
	require.Len(t, cases, 2*3*len(bench.WireSizes))
	var results []bench.Result
	for _, c := range cases {
		if c.Bytes != size {
			continue
		}
		before := crossed()
		start := time.Now()
		r, err := c.Run(1)
		if errors.Is(err, errNoFrequency) {
			t.Skip(err)
		}
		require.NoError(t, err)
		require.Len(t, r.Entries, 1+len(c.Yards))
		for i, f := range r.Entries {
			require.Len(t, f.NS, 1, "%s: entry %d", c.Name, i)
			require.Positive(t, f.NS[0], "%s: entry %d", c.Name, i)
			require.Equal(t, c.Table == bench.Latency, len(f.P99) == 1, "%s: entry %d", c.Name, i)
		}
		t.Logf("%s: %v", c.Name, time.Since(start))
		after := crossed()
		// Ops of rxe, and of ours, of which latency has the fewest: each way, or one way with READ's requests in the
		// other.
		least := iterations(c.Table, size) * 60
		require.Greater(t, after[0]-before[0], least, "%s: what rxe sends does not cross its interfaces", c.Name)
		require.Greater(t, after[1]-before[1], least, "%s: what we send does not cross its interfaces", c.Name)
		results = append(results, r)
	}
	require.Len(t, results, 6)
	var b strings.Builder
	require.NoError(t, bench.WriteTables(&b, results))
	t.Log("\n" + b.String())
	require.Contains(t, b.String(), "| 4 KiB | WRITE |")
	require.Contains(t, b.String(), "ib_read_lat")

	_, err = l.Case(ctx, bench.Latency, "DANCE", size)
	require.ErrorContains(t, err, `unknown operation "DANCE"`)
	_, err = l.run(ctx, "sh", "-c", "echo why; exit 3")
	require.ErrorContains(t, err, "exit code 3: why")
	gone, stop := context.WithCancelCause(ctx)
	stop(errors.New("enough"))
	c, err := l.Case(gone, bench.Latency, bench.OpSend, size)
	require.NoError(t, err)
	_, err = c.Run(1)
	require.ErrorContains(t, err, "enough")
}
