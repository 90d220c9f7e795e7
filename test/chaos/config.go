package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes a run.
type Config struct {
	// Seed determines the choices of all actors.
	Seed uint64
	// Duration is the total time of all rounds.
	Duration time.Duration
	// Round is the length of a round; 0 is 10 s.
	Round time.Duration
	// Stall is the longest time that an actor may make no progress; 0 is 90 s.
	Stall time.Duration
	// Log receives a line for each round; nil discards them.
	Log func(format string, args ...any)
}

// Report counts the events of a run.
type Report struct {
	Rounds int
	Counts map[string]uint64
}

// String formats the counts, one per line.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds\n", r.Rounds)
	for _, k := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, "%10d %s\n", r.Counts[k], k)
	}
	return b.String()
}

// tally counts events by name. All methods may be called concurrently.
type tally struct{ m sync.Map }

func (t *tally) add(name string, n int) {
	c, ok := t.m.Load(name)
	if !ok {
		c, _ = t.m.LoadOrStore(name, new(atomic.Uint64))
	}
	c.(*atomic.Uint64).Add(uint64(n))
}

func (t *tally) snapshot() map[string]uint64 {
	m := map[string]uint64{}
	t.m.Range(func(k, v any) bool {
		m[k.(string)] = v.(*atomic.Uint64).Load()
		return true
	})
	return m
}
