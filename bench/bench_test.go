package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchRounds is the minimum number of rounds of a benchmark and its yardstick. With -short, it is 1.
const benchRounds = 7

// BenchmarkCases runs each case beside its yardstick. One iteration is one round of both. The reported figures are the
// case's own: ns and allocations per operation, and the ratio that is compared with the limit.
func BenchmarkCases(b *testing.B) {
	for _, c := range Cases() {
		b.Run(c.Name, func(b *testing.B) {
			b.ReportAllocs()
			rounds := max(b.N, benchRounds)
			if testing.Short() {
				rounds = 1
			}
			r, err := c.Run(rounds)
			require.NoError(b, err)
			b.ReportMetric(r.Entries[0].Median(), "ns/op")
			for i, y := range r.Yards {
				unit := strings.ReplaceAll(y.Name, " ", "-")
				b.ReportMetric(r.Entries[len(r.Ours)+i].Median(), unit+"-ns/op")
			}
			if r.Table == Delay {
				for i, o := range r.Ours {
					b.ReportMetric(r.Added(i)/1e3, strings.ReplaceAll(o.Name, " ", "-")+"-added-us")
				}
			}
			b.ReportMetric(r.AllocsPerOp, "allocs/op")
			b.ReportMetric(r.Ratio(0, 0), "ratio")
			b.ReportMetric(r.MedianRatio(0, 0), "median-ratio")
			if old, ok := results[c.Name]; ok { // a benchmark is called repeatedly, with increasing N
				for i, f := range old.Entries {
					e := &r.Entries[i]
					e.NS, e.P99 = append(e.NS, f.NS...), append(e.P99, f.P99...)
					e.Max = append(e.Max, f.Max...)
				}
			}
			results[c.Name] = r
		})
	}
}
