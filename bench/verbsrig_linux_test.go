package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestVerbsCases runs a round of each case of unmodified verbs programs. It judges no times.
func TestVerbsCases(t *testing.T) {
	testenv.Measurement(t)
	if why := MissingPerftest(); why != "" {
		t.Skip(why)
	}
	if testenv.Race {
		t.Skip("the programs are not those of the race detector")
	}
	var results []Result
	for _, c := range verbsCases(50) {
		r, err := c.Run(1)
		require.NoError(t, err)
		for i, f := range r.Entries {
			assert.Positive(t, f.Best(), "%s: %s", c.Name, c.entry(i).Name)
			assert.Equal(t, c.Table == Latency, len(f.P99) == 1)
		}
		results = append(results, r)
	}
	var b bytes.Buffer
	require.NoError(t, WriteTables(&b, results))
	for _, want := range []string{"| verbs/start | at most 20 ms more |", "| 64 B | ib_send_lat |",
		"| 64 KiB | ib_write_bw |",
		"| 64 KiB | ib_write_bw (copied) |"} {
		assert.Contains(t, b.String(), want)
	}
}

func TestPerftestLine(t *testing.T) {
	t.Parallel()
	const text = " #bytes #iterations    t_min[usec]\n" +
		" 64      5000          3.05   7.73   3.50   3.61   0.20   4.06   7.73 \n---\n"
	f, err := perftestLine(text, 64, 5000)
	require.NoError(t, err)
	median, err := microseconds(f[4])
	require.NoError(t, err)
	assert.Equal(t, 3500*time.Nanosecond, median)
	_, err = perftestLine(text, 65, 5000)
	require.ErrorContains(t, err, "no figures")
	for _, bad := range []string{"", "x"} {
		_, err := microseconds(bad)
		require.Error(t, err, bad)
		require.NotErrorIs(t, err, errClock, bad)
	}
	for _, bad := range []string{"0", "0.00", "-1", "inf", "-inf", "nan", "-nan"} {
		_, err := microseconds(bad)
		require.ErrorIs(t, err, errClock, bad)
	}
}

// TestPerftestClock checks that a program that could not tell the time runs again, but not for ever.
func TestPerftestClock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ bad, runs int }{
		{0, 1}, {3, 4}, {clockTries - 1, clockTries}, {clockTries, clockTries},
	} {
		count := filepath.Join(t.TempDir(), "count")
		// The server has no argument after the port, and does nothing.
		script := fmt.Sprintf(`case "$*" in *127.0.0.1) ;; *) exit 0 ;; esac
			echo >>%[1]s
			v=2.5; [ $(wc -l <%[1]s) -gt %[2]d ] || v=inf
			echo 64 10 $v $v $v $v $v $v $v`, count, tt.bad)
		at := surroundings{prefix: []string{"sh", "-c", script, "sh"}}
		s, err := perftest{args: []string{"lat"}, bytes: 64}.run(at, 10, true)
		if tt.bad < clockTries {
			require.NoError(t, err)
			assert.Equal(t, Sample{Ops: 10, Median: 2500, P99: 2500}, s)
		} else {
			require.ErrorIs(t, err, errClock)
		}
		runs, err := os.ReadFile(count)
		require.NoError(t, err)
		assert.Len(t, runs, tt.runs)
	}
}

// TestPerftestFails checks that a program that fails is an error, not a wait.
func TestPerftestFails(t *testing.T) {
	if why := MissingPerftest(); why != "" {
		t.Skip(why)
	}
	d, err := startVerbsDaemon()
	require.NoError(t, err)
	defer func() { require.NoError(t, d.close()) }()
	_, err = perftest{[]string{"ib_send_lat", "-d", "nothing"}, 64, nil}.run(d.surroundings, 100, true)
	require.ErrorContains(t, err, "ib_send_lat")
}
