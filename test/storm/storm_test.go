package storm

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
)

var (
	messages = flag.Int("storm.messages", fromEnv("CIDDK_STORM", scale(20000)),
		"messages of each IP version; also CIDDK_STORM")
	seed = flag.Uint64("storm.seed", 1, "seed of all random choices")
)

func fromEnv(name string, or int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return or
}

// scale reduces a number of messages under the race detector.
func scale(n int) int {
	if testenv.Race {
		return n / 10
	}
	return n
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var versions = map[string]bool{"IPv4": false, "IPv6": true}

// TestStorm runs a storm with each IP version.
func TestStorm(t *testing.T) {
	for name, v6 := range versions {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r, err := Run(Config{Seed: *seed, Messages: *messages, IPv6: v6})
			if err != nil {
				t.Fatalf("%v\nto repeat: go test ./test/storm -run '^TestStorm$/^%s$' -storm.seed=%d"+
					" -storm.messages=%d", err,
					name, *seed, *messages)
			}
			t.Log(r.String() + fmt.Sprintf("real time %v", time.Since(start).Round(time.Millisecond)))
			require.GreaterOrEqual(t, r.Messages, *messages)
		})
	}
}
