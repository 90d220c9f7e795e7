package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestDelayCases runs one round of each load and one without. QP B's messages are timed for as long as the load lasts.
func TestDelayCases(t *testing.T) {
	testenv.Measurement(t)
	if testenv.Race {
		t.Skip("all requests of the load share one buffer, which the race detector reports")
	}
	for _, c := range delayCases() {
		t.Run(c.Link, func(t *testing.T) {
			g, err := c.Open()
			require.NoError(t, err)
			for entry := range len(c.Ours) + len(c.Yards) {
				s, err := g.Run(entry)
				require.NoError(t, err)
				assert.GreaterOrEqual(t, s.Ops, 2*delayTrips)
				assert.Positive(t, s.Median)
				assert.GreaterOrEqual(t, s.P99, s.Median)
				assert.GreaterOrEqual(t, s.Max, s.P99)
			}
			require.NoError(t, g.Close())
			require.NoError(t, g.Close(), "idempotent")
		})
	}
}

func TestDelayTable(t *testing.T) {
	of := func(ns, p99 float64, most ...float64) Figures {
		return Figures{NS: []float64{ns}, P99: []float64{p99}, Max: most}
	}
	r := Result{
		Case: Case{Name: "e", Table: Delay, Want: 5e6, Link: "direct", Ours: []Entry{{"READ", "r"}, {"WRITEs", "w"}},
			Yards: []Entry{{"alone", "a"}}},
		Entries: []Figures{of(1000, 2000, 4e6, 5.05e6, 9e6), of(1500, 2500, 7e6), of(900, 1000, 50_000, 40_000, 1e6)},
	}
	require.InDelta(t, 5e6, r.Added(0), 0)
	require.True(t, r.Met(0))
	require.False(t, r.Met(1))
	var b strings.Builder
	require.NoError(t, WriteTables(&b, []Result{r}))
	require.Equal(t,
		`| link | load of QP A | QP B: median, 99 of 100, longest | longest of all rounds | alone | longest of all rounds | added | wanted | verdict |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| direct | READ | 1.00 us, 2.00 us, 5050 us | 9000 us | 0.90 us, 1.00 us, 50.0 us | 1000 us | **5000 us** | at most 5000 us | met |
| direct | WRITEs | 1.50 us, 2.50 us, 7000 us | 7000 us | 0.90 us, 1.00 us, 50.0 us | 1000 us | **6950 us** | at most 5000 us | missed |

* READ: r.
* WRITEs: w.
* alone: a.
`, b.String())
	r.Entries[2].Max = []float64{8e6}
	require.Zero(t, r.Added(0), "a round without load may be the slower one")
}
