package bench

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteTables(t *testing.T) {
	one := func(ns ...float64) Figures { return Figures{NS: ns} }
	timed := func(ns, p99 float64) Figures { return Figures{NS: []float64{ns}, P99: []float64{p99}} }
	ours, yard := []Entry{{"ours", "what is ours"}}, []Entry{{"yardstick", "what is not"}}
	results := []Result{
		{Case: Case{Name: "a/big", Ours: ours, Yards: yard, Want: 0.7, AtLeast: true, Bytes: 1 << 20},
			Entries: []Figures{one(300_000, 262_144, 280_000), one(262_144)}},
		{Case: Case{Name: "a/small", Ours: ours, Yards: yard, Want: 2, Bytes: 64},
			Entries:     []Figures{one(301), one(100)},
			AllocsPerOp: 0.5},
		{Case: Case{Name: "a/none", Ours: ours, Yards: yard, Want: 1, AtLeast: true},
			Entries: []Figures{one(50_000), one(25_000)}},
		{Case: Case{Name: "b/big", Table: Bandwidth, AtLeast: true, Ours: []Entry{{"SEND", "s"}, {"WRITE", "w"}},
			Yards: []Entry{{"rxe", "r"}, {"TCP", "t"}}, Want: 3,
			Bytes: 64 << 10}, Entries: []Figures{one(65_536), one(32_768), one(163_840), one(65_536)}},
		{Case: Case{Name: "b/small", Table: Bandwidth, AtLeast: true, Ours: []Entry{{"SEND", "s"}},
			Yards: []Entry{{"TCP", "t"}}, Bytes: 64},
			Entries: []Figures{one(64), one(32)}},
		{Case: Case{Name: "c", Table: Latency, Ours: []Entry{{"READ", "f"}}, Yards: []Entry{{"UDP", "v"}, {"TCP", "u"}},
			Bytes: 4096},
			Entries: []Figures{timed(1500, 20_500), timed(3000, 450_000), timed(1000, 2000)}},
		{Case: Case{Name: "d", Table: Latency, Ours: []Entry{{"SEND", "s"}}, Yards: []Entry{{"TCP", "t"}}, Bytes: 4096},
			Entries: []Figures{timed(1500, 20_500), timed(3000, 450_000)}},
	}
	var b strings.Builder
	require.NoError(t, WriteTables(&b, results))
	require.Equal(t, `| case | wanted | ratio | median | verdict | ours | yardstick | allocations per op |
|---|---|---|---|---|---|---|---|
| a/big | at least 0.7 | **1.00** | 0.94 | met | 4.00 GB/s | 4.00 GB/s | 0.000 |
| a/small | at most 2 | **3.01** | 3.01 | missed | 301 ns | 100 ns | 0.500 |
| a/none | at least 1 | **0.50** | 0.50 | missed | 20000 /s | 40000 /s | 0.000 |

* `+"`a/big`"+`: what is ours. Against: what is not.
* `+"`a/small`"+`: what is ours. Against: what is not.
* `+"`a/none`"+`: what is ours. Against: what is not.

| size | operation | bandwidth | messages a second | rxe | ratio | TCP | ratio | wanted of rxe | verdict |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 64 B | SEND | 1.00 GB/s | 15.6 M/s |  |  | 2.00 GB/s | **0.50** |  |  |
| 64 KiB | SEND | 1.00 GB/s | 15.3 k/s | 400 MB/s | **2.50** | 1.00 GB/s | **1.00** | at least 3 | missed |
| 64 KiB | WRITE | 2.00 GB/s | 30.5 k/s | 400 MB/s | **5.00** | 1.00 GB/s | **2.00** | at least 3 | met |

* SEND: s.
* WRITE: w.
* rxe: r.
* TCP: t.

| size | operation | median | 99 of 100 | UDP | ratio | TCP | ratio |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 4 KiB | READ | 1.50 us | 20.5 us | 3.00 us, 450 us | **0.50** | 1.00 us, 2.00 us | **1.50** |
| 4 KiB | SEND | 1.50 us | 20.5 us |  |  | 3.00 us, 450 us | **0.50** |

* READ: f.
* SEND: s.
* UDP: v.
* TCP beside READ: u.
* TCP beside SEND: t.
`, b.String())
	require.ErrorContains(t, WriteTables(fails{}, results), "full")
}

func TestReport(t *testing.T) {
	results := []Result{
		{Case: Case{Name: "a", Ours: []Entry{{"ours", "o"}}, Yards: []Entry{{"yardstick", "y"}}, Bytes: 64},
			Entries: []Figures{{NS: []float64{2}}, {NS: []float64{1}}}},
		{Case: Case{Name: "b", Table: Bandwidth, AtLeast: true, Ours: []Entry{{"SEND", "s"}},
			Yards: []Entry{{"TCP", "t"}}, Bytes: 64},
			Entries: []Figures{{NS: []float64{64}}, {NS: []float64{32}}}},
	}
	var b strings.Builder
	require.NoError(t, Report(&b, "a machine", 3, results, map[Table]string{Bandwidth: "![picture](x.svg)",
		Latency: "none"}))
	require.True(t, strings.HasPrefix(b.String(), "a machine. 3 rounds.\n\n| case |"), b.String())
	require.Contains(t, b.String(), "\n* `a`: o. Against: y.\n\n![picture](x.svg)\n\n| size | operation | bandwidth |")
	require.NotContains(t, b.String(), "none")
	require.ErrorContains(t, Report(fails{}, "a machine", 3, results, nil), "full")

	require.Equal(t, results[1:], Of(results, Bandwidth))
	require.Empty(t, Of(results, Latency))
	require.Len(t, results, 2, "the argument stays as it is")
	require.Equal(t, "ratios bandwidth latency delay Table(9)", fmt.Sprint(Ratios, " ", Bandwidth, " ", Latency, " ",
		Delay, " ", Table(9)))
}

// fails is a writer that fails, like a full disk.
type fails struct{}

func (fails) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestPercentile(t *testing.T) {
	w := &watch{}
	for i := range 200 {
		w.times = append(w.times, time.Duration(199-i))
	}
	require.EqualValues(t, 99, w.percentile(50))
	require.EqualValues(t, 197, w.percentile(99))
	require.EqualValues(t, 199, w.percentile(100))
	w.times = w.times[:1]
	require.Equal(t, w.percentile(50), w.percentile(99))
}
