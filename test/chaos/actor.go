package chaos

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// actor is a goroutine with random actions. The seed of the round and its name determine its choices.
type actor struct {
	w    *world
	name string
	rnd  *rand.Rand
	last atomic.Int64 // time of its last progress by the watchdog's clock, in ns
}

func (a *actor) beat() { a.last.Store(int64(a.w.dog.now())) }

// hash returns a number that depends on a name.
func hash(s string) uint64 {
	x := uint64(len(s))
	for _, c := range []byte(s) {
		x = mix(x ^ uint64(c))
	}
	return x
}

// start runs f as an actor.
func (w *world) start(name string, f func(*actor)) {
	a := &actor{w: w, name: name, rnd: rand.New(rand.NewPCG(w.seed, hash(name)))}
	w.dog.add(a)
	w.actors.Go(func() {
		defer w.dog.remove(a)
		f(a)
	})
}

// repeat runs f as an actor, repeatedly until the round ends.
func (w *world) repeat(name string, f func(*actor)) {
	w.start(name, func(a *actor) {
		for w.ctx.Err() == nil {
			a.beat()
			f(a)
		}
	})
}

// pause waits for a random time up to most, or until the round ends.
func (a *actor) pause(most time.Duration) {
	t := time.NewTimer(time.Duration(a.rnd.Int64N(int64(most))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.w.ctx.Done():
	}
	a.beat()
}

// patience is the timeout of calls that must return by themselves. It is shorter than that of the watchdog, so that
// most calls that hang are reported by name.
const patience = 40 * time.Second

// patient returns a context for a call that must return by itself. The context also ends with the round.
func (a *actor) patient() (context.Context, context.CancelFunc) {
	a.beat()
	return context.WithTimeout(a.w.ctx, patience)
}

// one returns a random element of a non-empty slice.
func one[T any](r *rand.Rand, s []T) T { return s[r.IntN(len(s))] }
