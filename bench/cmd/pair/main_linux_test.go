package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bench"
)

// TestMain also runs the peer process, because the program under test starts itself again.
func TestMain(m *testing.M) {
	bench.RunRole()
	m.Run()
}

func TestRun(t *testing.T) {
	for _, table := range []string{"bandwidth", "latency"} {
		var out bytes.Buffer
		require.NoError(t, run([]string{"-table", table, "-op", "READ", "-size", "4096", "-part", "100"}, &out))
		var f []bench.Figures
		require.NoError(t, json.Unmarshal(out.Bytes(), &f))
		require.GreaterOrEqual(t, len(f), 3)
		for _, x := range f {
			require.Len(t, x.NS, 1)
			require.Positive(t, x.NS[0])
			require.Equal(t, table == "latency", len(x.P99) == 1)
		}
	}
	for _, tt := range []struct{ flag, value, want string }{
		{"-table", "ratios", `-table "ratios"`},
		{"-op", "DANCE", `unknown operation "DANCE"`},
		{"-size", "0", "messages of 0 bytes"},
		{"-part", "0", "part 0"},
		{"-here", "127.0.0.1", "give both"},
		{"-here", "somewhere", "invalid value"},
	} {
		require.ErrorContains(t, run([]string{tt.flag, tt.value}, &bytes.Buffer{}), tt.want)
	}
}
