package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// benchRounds is how often a benchmark and its yardstick take turns at least; with -short, once will do.
const benchRounds = 7

// BenchmarkCases runs each case beside its yardstick. One iteration is one round of both, so the figures reported are the case's own: ns
// and allocations for one operation, and the ratio that is judged.
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
			b.ReportMetric(median(r.OursNS), "ns/op")
			b.ReportMetric(median(r.YardNS), "yardstick-ns/op")
			b.ReportMetric(r.AllocsPerOp, "allocs/op")
			b.ReportMetric(r.Ratio(), "ratio")
			b.ReportMetric(r.MedianRatio(), "median-ratio")
			if old, ok := results[c.Name]; ok { // a benchmark is called with growing N
				r.OursNS, r.YardNS = append(r.OursNS, old.OursNS...), append(r.YardNS, old.YardNS...)
			}
			results[c.Name] = r
		})
	}
}
