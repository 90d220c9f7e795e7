package bench

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// userKinds are the kinds of work that only userRig has: see TestUserRig.
var userKinds = []string{"relay", "relay-ping", "memfd-copy", ucxKind}

// TestKinds runs one round of each kind of work in two processes, at one size below and one above the limit of a
// datagram.
func TestKinds(t *testing.T) {
	testenv.Measurement(t)
	const ops = 64
	for _, size := range []int{small, 200_000} {
		t.Run(Size(size), func(t *testing.T) {
			var turns []turn
			for kind := range kinds {
				if slices.Contains(userKinds, kind) {
					continue
				}
				r := role{Kind: kind, Size: size, Per: 1, Depth: 16}
				turns = append(turns, turn{role: r, ops: ops})
				if r.Depth = 1; strings.Contains(kind, "-") || kind == "read" {
					turns = append(turns, turn{role: r, ops: ops, timed: true})
				}
			}
			g, err := openTwo(Place{}, turns...)()
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			for i, tt := range turns {
				for range 2 {
					s, err := g.Run(i)
					require.NoError(t, err, tt.Kind)
					assert.Equal(t, ops, s.Ops, tt.Kind)
					assert.Positive(t, s.Time, tt.Kind)
					assert.Equal(t, tt.timed, s.Median > 0, tt.Kind)
					assert.GreaterOrEqual(t, s.P99, s.Median, tt.Kind)
				}
			}
		})
	}
}

// TestCasesRun checks that the rounds of every case fit its halves, and that case names are unique.
func TestCasesRun(t *testing.T) {
	testenv.Measurement(t)
	if testenv.Race {
		t.Skip("some seconds of measurement of the plain build")
	}
	seen := map[string]bool{}
	for _, c := range Cases() {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		if ok, err := filepath.Match("wire/*B", c.Name); err != nil || !ok {
			continue // the others are run by the table's test and by the benchmarks
		}
		r, err := c.Run(1)
		require.NoError(t, err)
		require.Len(t, r.Entries, len(c.Ours)+len(c.Yards))
		for i, f := range r.Entries {
			require.Len(t, f.NS, 1, c.entry(i).Name)
			require.Positive(t, f.NS[0], c.entry(i).Name)
			require.Equal(t, c.Table == Latency, len(f.P99) == 1, c.entry(i).Name)
		}
	}
}

func TestOrders(t *testing.T) {
	p := new(peer)
	for _, o := range []order{{Do: "make", Role: role{Kind: "send"}}, {Do: "run"}, {Do: "join", Half: -1},
		{Do: "dance"}} {
		_, work, err := p.prepare(o)
		require.Error(t, err, o.Do)
		require.Nil(t, work)
	}
	here, _ := addresses()
	_, _, err := p.prepare(order{Do: "open", Addr: here})
	require.NoError(t, err)
	_, _, err = p.prepare(order{Do: "make", Role: role{Kind: "dance"}})
	require.ErrorContains(t, err, `unknown kind of work "dance"`)
	_, _, err = p.prepare(order{Do: "make", Role: role{Kind: "send-ping", Size: bufBytes}})
	require.ErrorContains(t, err, "too large")
	_, _, err = p.prepare(order{Do: "make", Role: role{Kind: "udp", Size: small}})
	require.NoError(t, err)
	_, _, err = p.prepare(order{Do: "dance"})
	require.ErrorContains(t, err, `unknown order "dance"`)
	require.NoError(t, p.close())
	require.NoError(t, p.close(), "idempotent")

	_, err = openTwo(Place{Here: here, There: here, Enter: []string{"/no/such/program"}})()
	require.ErrorContains(t, err, "starting the peer")
}
