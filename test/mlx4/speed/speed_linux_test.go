package speed

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bench"
	"ciddk/internal/testenv"
	"ciddk/test/linux/speed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseDoorbells(t *testing.T) {
	s, err := parseDoorbells("17900 280000\n")
	require.NoError(t, err)
	assert.Equal(t, bench.Sample{Ops: 1, Median: 17900, P99: 280000}, s)
	for _, out := range []string{"", "1", "1 x", "0 1", "1 2 3"} {
		_, err := parseDoorbells(out)
		assert.ErrorContains(t, err, "output of probe", out)
	}
}

// TestSmoke runs a round of every case. It does not check ratios, because other tests may run at the same time.
func TestSmoke(t *testing.T) {
	if testenv.Race {
		t.Skip("the figures are those of programs without the race detector")
	}
	testenv.OnlyWhole(t)
	testenv.Linux(t, Available())
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	l, err := New(ctx)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "idempotent")
	}()
	require.Contains(t, l.Machine(), "TCG")
	var results []bench.Result
	for _, c := range l.Cases(ctx) {
		r, err := c.Run(1)
		if speed.IsBusy(err) {
			t.Skip(err)
		}
		require.NoError(t, err, c.Name)
		require.Len(t, r.Entries, len(c.Ours)+len(c.Yards))
		for i, f := range r.Entries {
			require.Len(t, f.NS, 1, "%s: entry %d", c.Name, i)
			require.Positive(t, f.NS[0], "%s: entry %d", c.Name, i)
		}
		results = append(results, r)
	}
	require.Len(t, results, 3)
	var b strings.Builder
	require.NoError(t, bench.WriteTables(&b, results))
	t.Log("\n" + b.String())
	require.Contains(t, b.String(), "| 64 KiB | RoCE v2 |")
	require.Contains(t, b.String(), "at most 5")
}
