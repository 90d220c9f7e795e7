package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"ciddk/clock"
)

// maxGrowth is the limit in bytes for the growth of the heap from the end of the first round to that of the last, in
// addition to maxGrowthRound per round. Pools and tables of the runtime grow less.
const (
	maxGrowth      = 3 << 20
	maxGrowthRound = 64 << 10
)

// Run runs rounds until the duration is over. The error lists all failures.
func Run(cfg Config) (*Report, error) {
	if cfg.Round <= 0 {
		cfg.Round = 10 * time.Second
	}
	if cfg.Stall <= 0 {
		cfg.Stall = 90 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	if cfg.Duration <= 0 {
		return nil, errors.New("chaos: Config.Duration is not positive")
	}
	t, v := &tally{}, &verdict{}
	r := &Report{}
	now := clock.Real().Elapsed // since this call
	first := now()
	var heap uint64
	if err := startPoller(); err != nil {
		return nil, err
	}
	for ; now()-first < cfg.Duration && !v.failed(); r.Rounds++ {
		left := cfg.Duration - (now() - first)
		seed := mix(cfg.Seed + uint64(r.Rounds))
		before := surroundings()
		if err := round(cfg, seed, min(left, cfg.Round), v, t); err != nil {
			return r, fmt.Errorf("round %d: %w", r.Rounds, err)
		}
		after, ok := before.settled()
		if !ok {
			v.failf("round %d: %s\n%s", r.Rounds, after.grown(before), stacks())
		}
		if r.Rounds == 0 {
			heap = after.heap
		} else if most := heap + maxGrowth + uint64(r.Rounds)*maxGrowthRound; after.heap > most {
			v.failf("round %d: the heap holds %d bytes after everything was closed; after the first round it held %d",
				r.Rounds,
				after.heap, heap)
		}
		cfg.Log("round %d: %d bytes of heap, %d goroutines, %d files", r.Rounds, after.heap,
			after.goroutines, after.files)
	}
	r.Counts = t.snapshot()
	return r, v.err()
}

// startPoller makes the Go runtime open the files of its network poller, which it keeps: those are no leak of a round.
func startPoller() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	return errors.Join(r.Close(), w.Close())
}

// round builds a world, waits for a time, and closes it.
func round(cfg Config, seed uint64, d time.Duration, v *verdict, t *tally) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	v.set(cancel)
	defer v.set(nil)
	dog := newWatchdog(clock.Real().Elapsed, cfg.Stall)
	w := newWorld(ctx, cfg, seed, v, t, dog)
	hung, done := make(chan string, 1), make(chan error, 1)
	stop := make(chan struct{})
	watching := make(chan struct{})
	go func() { dog.run(stop, func(name string) { hung <- name }); close(watching) }()
	defer func() { close(stop); <-watching }()
	go func() {
		err := w.build()
		if err != nil {
			cancel()
		}
		<-ctx.Done()
		w.actors.Wait()
		last := &actor{w: w, name: "teardown"}
		dog.add(last)
		w.close()
		dog.remove(last)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case name := <-hung:
		return fmt.Errorf("%q has made no progress for %v%s\n%s", name, cfg.Stall, also(v), stacks())
	}
}

// also returns the text for further failures.
func also(v *verdict) string {
	if err := v.err(); err != nil {
		return "; also: " + err.Error()
	}
	return ""
}

// state counts the resources of the process.
type state struct {
	goroutines, files int
	heap              uint64
}

func surroundings() state {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := state{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
	if l, err := os.ReadDir("/proc/self/fd"); err == nil { // Linux
		s.files = len(l)
	}
	return s
}

// settled waits until the process has no more goroutines and files than s.
func (s state) settled() (state, bool) {
	clk := clock.Real().Elapsed
	deadline := clk() + 20*time.Second
	for {
		now := surroundings()
		if now.goroutines <= s.goroutines && now.files <= s.files {
			return now, true
		}
		if clk() > deadline {
			return now, false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s state) grown(from state) string {
	return fmt.Sprintf("%d goroutines and %d files are left after everything was closed; before there were %d and %d",
		s.goroutines, s.files,
		from.goroutines, from.files)
}
