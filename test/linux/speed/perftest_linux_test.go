package speed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/bench"
)

func TestParsePerftest(t *testing.T) {
	const bandwidth = `---------------------------------------------------------------------------------------
 Dual-port       : OFF		Device         : rxev1
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              44.90              43.21  		   0.000691
---------------------------------------------------------------------------------------
`
	//nolint:lll // output of perftest
	const latency = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64      1000          21.13          812.63       37.05     	       41.72        	25.01		112.25  		812.63
`
	s, err := parsePerftest(bandwidth, bench.Bandwidth, 65536)
	require.NoError(t, err)
	require.Equal(t, bench.Sample{Ops: 500, Time: 723589 * time.Microsecond},
		bench.Sample{Ops: s.Ops, Time: s.Time.Truncate(time.Microsecond)})
	s, err = parsePerftest(" 1048576 5 0.00 0.50 0.000000\n", bench.Bandwidth, 1<<20)
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, s.Time)
	s, err = parsePerftest(latency, bench.Latency, 64)
	require.NoError(t, err)
	require.Equal(t, bench.Sample{Ops: 1000, Median: 37050, P99: 112250}, s)

	for _, tt := range []struct {
		out, want string
		table     bench.Table
	}{
		{"", "no line of figures for 64 bytes", bench.Bandwidth},
		{bandwidth, "no line of figures for 64 bytes", bench.Bandwidth},
		{"64 1 2 3 x\n", `parsing "x"`, bench.Bandwidth},
		{"64 1 0 0 0\n", errNoFrequency.Error(), bench.Bandwidth},
		{"64 1 2 3 4 5\n", "figures are missing", bench.Latency},
		{"64 500 inf inf inf inf -nan inf inf\n", errNoFrequency.Error(), bench.Latency},
		{"64 500 0.00 -nan 0.1\n", errNoFrequency.Error(), bench.Bandwidth},
	} {
		_, err := parsePerftest(tt.out, tt.table, 64)
		require.ErrorContains(t, err, tt.want)
	}
}
