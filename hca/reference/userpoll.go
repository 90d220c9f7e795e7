package reference

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/clock"
	"ciddk/hca/reference/arena"
	"ciddk/rvt"
)

// A userPoller looks for new work of all processes that have a user library, and runs the engine of the QPs that have
// some. One goroutine does so for all of them, so that two processes and the daemon can share two processors. It exists
// while there are such processes. After a round without work it yields the processor. After Config.UserIdle without
// work it sleeps until a doorbell is rung.
type userPoller struct {
	hca       *rvt.HCA
	idle      time.Duration
	maxRounds int // without work
	time      clock.Clock

	mu       sync.Mutex // held during a round
	contexts []*userContext
	runner   *userRunner // nil: there is no process

	doorbells atomic.Uint64 // that were rung
	sleeps    atomic.Uint64
	yields    atomic.Uint64
}

// minIdleRounds and roundTime limit the rounds without work before run sleeps, whatever the clock says, which may be
// virtual. A round takes longer than roundTime.
const (
	minIdleRounds = 1 << 16
	roundTime     = 50 * time.Nanosecond
)

// Rounds between two readings of the clock, and between two calls of the Go scheduler, which may have other goroutines
// to run.
const (
	roundsPerClock    = 8
	roundsPerSchedule = 4096 // a call wakes a thread that looks for goroutines
)

// userRunner is the goroutine of a userPoller.
type userRunner struct {
	wake  chan struct{} // one token: a doorbell was rung, or a process has come or gone
	ended chan struct{}
}

func newUserPoller(h *rvt.HCA, idle time.Duration, c clock.Clock) *userPoller {
	return &userPoller{hca: h, idle: idle, maxRounds: max(minIdleRounds, int(min(idle/roundTime, 1<<30))), time: c}
}

// add begins to look for work of a process.
func (p *userPoller) add(u *userContext) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contexts = append(p.contexts, u)
	if p.runner == nil {
		p.runner = &userRunner{wake: make(chan struct{}, 1), ended: make(chan struct{})}
		go p.run(p.runner)
	}
	p.runner.rouse()
}

// remove returns when the goroutine does not use the memory of u any more, and, if there is no other process, has
// ended.
func (p *userPoller) remove(u *userContext) {
	p.mu.Lock()
	p.contexts = slices.DeleteFunc(p.contexts, func(o *userContext) bool { return o == u })
	r := p.runner
	last := r != nil && len(p.contexts) == 0
	if last {
		p.runner = nil // a process that comes now starts another one
	}
	p.mu.Unlock()
	if last {
		r.rouse()
		<-r.ended
	}
}

// rouse ends the sleep of the goroutine.
func (r *userRunner) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// rouse ends the sleep of the goroutine, if there is one.
func (p *userPoller) rouse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runner != nil {
		p.runner.rouse()
	}
}

// run looks for work until there is no process.
func (p *userPoller) run(r *userRunner) {
	defer close(r.ended)
	p.hca.Tend()
	defer p.hca.Untend()
	var since time.Duration // the beginning of the idle time
	var l lull
	for n := 1; ; n++ {
		if n%roundsPerSchedule == 0 {
			runtime.Gosched()
		}
		from, ok := p.round(r)
		if !ok {
			return
		}
		if p.hca.Progress() || from != nil {
			l.end(from)
			continue
		}
		idle := l.add()
		if idle == 0 {
			continue
		}
		if idle%roundsPerClock != 0 || idle < p.maxRounds && p.isAwake(idle, &since) {
			p.yields.Add(1)
			arena.Yield()
			continue
		}
		if p.fallAsleep(r) {
			p.sleeps.Add(1)
			p.hca.Untend()
			p.hca.Attend()
			<-r.wake
			p.hca.Tend()
		}
		p.awake(r)
		l = lull{}
	}
}

// isAwake reports whether the engine stays awake after a number of rounds without work, a multiple of roundsPerClock.
// since is the time of the first call for these rounds.
func (p *userPoller) isAwake(rounds int, since *time.Duration) bool {
	now := p.time.Elapsed()
	if rounds <= roundsPerClock {
		*since = now
	}
	return now-*since < p.idle
}

// round looks for work once. It returns the patience of a process that had work, or nil. ok is false if the goroutine
// must end.
func (p *userPoller) round(r *userRunner) (from *patience, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runner != r {
		return nil, false
	}
	return p.take(), true
}

// take runs the engine for processes with new work. It returns the patience of one of them, or nil if there were none.
// The caller holds mu.
func (p *userPoller) take() (from *patience) {
	for _, u := range p.contexts {
		if u.head.Take(u.kick) {
			from = &u.patience
		}
	}
	return from
}

// takeOf runs the engine for a process with new work, as round does. It reports whether there was any.
func (p *userPoller) takeOf(u *userContext) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.contexts, u) && u.head.Take(u.kick)
}

// fallAsleep announces to all processes that the engine sleeps, and looks once more. It reports false if there was work
// or the goroutine must end.
func (p *userPoller) fallAsleep(r *userRunner) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runner != r {
		return false
	}
	for _, u := range p.contexts {
		u.head.Sleep()
	}
	return p.take() == nil
}

// awake announces to all processes that the engine is awake.
func (p *userPoller) awake(r *userRunner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runner != r {
		return
	}
	for _, u := range p.contexts {
		u.head.Wake()
	}
}

// addCounters adds the counters of user mode.
func (p *userPoller) addCounters(m map[string]uint64) {
	m["user_doorbells"] = p.doorbells.Load()
	m["user_sleeps"] = p.sleeps.Load()
	m["user_yields"] = p.yields.Load()
}

// await waits for doorbells of the process until its context is closed.
func (u *userContext) await() {
	defer close(u.done)
	for u.bell.Wait() == nil {
		u.poller.doorbells.Add(1)
		u.poller.rouse()
	}
}

// kick runs the engine of the QP with an index. The index comes from the process.
func (u *userContext) kick(i uint32) {
	if f := u.kicks.get(i); f != nil {
		(*f)()
	}
}
