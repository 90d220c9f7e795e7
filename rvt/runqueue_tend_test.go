package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A countedTurn is a turnTaker that counts its turns.
type countedTurn int

func (c *countedTurn) takeTurn() { *c++ }

// A takerFunc is a turnTaker that is a function.
type takerFunc func()

func (f takerFunc) takeTurn() { f() }

// TestTendedQueue checks when a QP that waits sets the timer of its run queue: unless a tender polls the queue and the
// QP waits alone, without a deadline that has passed.
func TestTendedQueue(t *testing.T) {
	enter := func(u *runQueue, w *waiter) {
		w.queued.Store(true)
		u.add(w)
	}
	tests := map[string]struct {
		do    func(u *runQueue, a, b *waiter)
		timed int // turns that the timer gives
	}{
		"no tender": {func(u *runQueue, a, _ *waiter) { enter(u, a) }, 1},
		"tended":    {func(u *runQueue, a, _ *waiter) { u.tend(1); enter(u, a) }, 0},
		"two wait":  {func(u *runQueue, a, b *waiter) { u.tend(1); enter(u, a); enter(u, b) }, 2},
		"late when it enters": {func(u *runQueue, a, _ *waiter) {
			u.tend(1)
			a.due.Store(true)
			enter(u, a)
		}, 1},
		"one enters while the timer gives turns to two": {func(u *runQueue, a, b *waiter) {
			u.tend(1)
			a.owner = takerFunc(func() { enter(u, a) })
			enter(u, a)
			enter(u, b)
		}, 1},
		"late afterwards": {func(u *runQueue, a, _ *waiter) {
			u.tend(1)
			enter(u, a)
			a.due.Store(true)
			u.one(true)
		}, 1},
		"the tender leaves": {func(u *runQueue, a, _ *waiter) { u.tend(1); enter(u, a); u.tend(-1) }, 1},
		"one of two tenders leaves": {func(u *runQueue, a, _ *waiter) {
			u.tend(1)
			u.tend(1)
			enter(u, a)
			u.tend(-1)
		}, 0},
		"the tender leaves an empty queue": {func(u *runQueue, _, _ *waiter) { u.tend(1); u.tend(-1) }, 0},
		"the tender has taken it": {func(u *runQueue, a, _ *waiter) {
			u.tend(1)
			enter(u, a)
			u.one(true)
			u.tend(-1)
		}, 0},
		"stopped": {func(u *runQueue, a, _ *waiter) { u.tend(1); enter(u, a); u.stop(); u.tend(-1) }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			u := &runQueue{clock: c}
			var turns countedTurn
			a, b := &waiter{owner: &turns}, &waiter{owner: &turns}
			tt.do(u, a, b)
			before := turns
			require.Equal(t, min(tt.timed, 1), c.Pending())
			for c.Step() {
			}
			require.EqualValues(t, tt.timed, turns-before)
			u.stop()
		})
	}
}
