package kit

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// Events collects the asynchronous events of one object. Its Add is what is given to create verbs as callback.
type Events struct {
	t    *validate.T
	mu   sync.Mutex
	all  []ci.Event
	read map[ci.EventType]int // how many of a type Wait has given out
	more chan struct{}        // closed and replaced at each event
}

// NewEvents makes an empty collection.
func NewEvents(t *validate.T) *Events {
	return &Events{t: t, read: map[ci.EventType]int{}, more: make(chan struct{})}
}

// Add is the callback.
func (e *Events) Add(ev ci.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
	close(e.more)
	e.more = make(chan struct{})
}

// All gives what has come so far, in order.
func (e *Events) All() []ci.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Count of events of a type so far.
func (e *Events) Count(typ ci.EventType) int {
	n := 0
	for _, ev := range e.All() {
		if ev.Type == typ {
			n++
		}
	}
	return n
}

// Wait gives the next event of the type that no earlier Wait gave; the case fails at its deadline.
func (e *Events) Wait(typ ci.EventType) ci.Event {
	timer := time.NewTimer(e.t.Remaining())
	defer timer.Stop()
	for {
		e.mu.Lock()
		n := 0
		for _, ev := range e.all {
			if ev.Type == typ {
				if n++; n > e.read[typ] {
					e.read[typ]++
					e.mu.Unlock()
					return ev
				}
			}
		}
		more := e.more
		e.mu.Unlock()
		select {
		case <-more:
		case <-timer.C:
			e.t.Fail(validate.Failure{Where: "asynchronous events", Expected: fmt.Sprintf("the event %q", typ), Got: e.summary(),
				Doubt: validate.DoubtTime})
		}
	}
}

// Comes tells whether an event of the type has come, or comes within d: for events that a driver may leave out.
func (e *Events) Comes(typ ci.EventType, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		e.mu.Lock()
		more := e.more
		e.mu.Unlock()
		if e.Count(typ) > 0 {
			return true
		}
		select {
		case <-more:
		case <-timer.C:
			return false
		}
	}
}

// Only expects that nothing but events of these types has come so far. Call it when everything that might raise one is over.
func (e *Events) Only(types ...ci.EventType) {
	for _, ev := range e.All() {
		if !slices.Contains(types, ev.Type) {
			e.t.Fail(validate.Failure{Where: "asynchronous events", Expected: "no event" + but(types), Got: e.summary()})
		}
	}
}

func but(types []ci.EventType) string {
	if len(types) == 0 {
		return ""
	}
	return " but " + oneOf(types)
}

func (e *Events) summary() string {
	all := e.All()
	if len(all) == 0 {
		return "no event"
	}
	s := ""
	for i, ev := range all {
		if i > 0 {
			s += ", "
		}
		s += ev.Type.String()
		if ev.Port != 0 {
			s += fmt.Sprintf(" (port %d)", ev.Port)
		}
	}
	return s
}
