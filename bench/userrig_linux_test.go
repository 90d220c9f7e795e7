package bench

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestUserCases runs a round of each case of applications that share an adapter, and judges what it counts: system
// calls in cases with a limit, and allocations. It judges no times.
func TestUserCases(t *testing.T) {
	testenv.Measurement(t)
	if testenv.Race {
		t.Skip("under the race detector, pools forget at random")
	}
	seen := map[string]bool{}
	var results []Result
	for _, c := range userCases(10) {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		r, err := c.Run(2)
		require.NoError(t, err)
		require.Len(t, r.Entries, len(c.Ours)+len(c.Yards))
		for i, f := range r.Entries {
			require.Len(t, f.NS, 2, "%s: %s", c.Name, c.entry(i).Name)
			assert.Positive(t, f.Best(), "%s: %s", c.Name, c.entry(i).Name)
			assert.Equal(t, c.Table == Latency, len(f.P99) == 2)
		}
		// The rest are those of the beginning of a round.
		assert.Less(t, r.AllocsPerOp, 0.25, "%s: allocations per work request", c.Name)
		if c.Calls > 0 {
			assert.LessOrEqual(t, r.CallsPerOp(), c.Calls, "%s: system calls per message: %+v", c.Name, r.Calls)
		}
		results = append(results, r)
	}
	var b bytes.Buffer
	require.NoError(t, WriteTables(&b, results))
	for _, want := range []string{"| user/ping-64B | at most 2.5 |", "| user/send-64B | at most 0.05 |",
		"| 64 B | SEND |"} {
		assert.Contains(t, b.String(), want)
	}
}

func TestParseUCX(t *testing.T) {
	t.Parallel()
	l, err := parseUCX("+---+\n|   |\n   20000      0.606     0.632     0.640       96.55     1581831     1581831\n")
	require.NoError(t, err)
	require.Equal(t, ucxTimes{0.606, 0.64}, l)
	for _, text := range []string{"", "1 2 3", "1 0 0 0", "1 a 2 3", "1 2 3 a"} {
		_, err := parseUCX(text)
		require.ErrorContains(t, err, ucxProgram, text)
	}
}

// TestUCXFails checks that a test that ucx_perftest does not know is an error, not a wait.
func TestUCXFails(t *testing.T) {
	if why := MissingUCX(); why != "" {
		t.Skip(why)
	}
	_, err := ucxTest{"shm", []string{"-t", "dance"}}.run(surroundings{env: os.Environ()}, 100, false)
	require.ErrorContains(t, err, "ucx_perftest")
}
