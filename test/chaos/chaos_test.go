package chaos

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	duration = flag.Duration("chaos.duration", 3*time.Second, "how long to run")
	roundLen = flag.Duration("chaos.round", 0, "length of a round; 0 is 10 s, or half of the duration")
	seed     = flag.Uint64("chaos.seed", 1, "of all choices")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestChaos runs everything, logs the counts, and checks that every kind of event occurred.
func TestChaos(t *testing.T) {
	t.Logf("seed %d: go test -race ./test/chaos -run TestChaos -chaos.duration=%v -chaos.seed=%d", *seed,
		*duration, *seed)
	r := *roundLen
	if r == 0 {
		r = min(10*time.Second, *duration/2)
	}
	report, err := Run(Config{Seed: *seed, Duration: *duration, Round: r, Log: t.Logf})
	if report != nil {
		t.Log(report)
	}
	require.NoError(t, err, "seed %d", *seed)
	require.Positive(t, report.Counts["messages received"])
	if *duration < 30*time.Second {
		return
	}
	for _, what := range []string{"connections", "messages received", "reads checked",
		"atomics checked", "HCAs removed",
		"objects destroyed",
		"datagrams received", "CAs opened", "RMPP transactions"} {
		require.Positive(t, report.Counts[what], what)
	}
}
