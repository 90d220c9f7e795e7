package kit

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// Events collects the asynchronous events of one object. Its method Add is the callback for the create verbs.
type Events struct {
	t    *validate.T
	mu   sync.Mutex
	all  []ci.Event
	read map[ci.EventType]int // number of events of a type that Wait has returned
	more chan struct{}        // closed and replaced when an event is added
}

// NewEvents returns an empty collection.
func NewEvents(t *validate.T) *Events {
	return &Events{t: t, read: map[ci.EventType]int{}, more: make(chan struct{})}
}

// Add adds an event.
func (e *Events) Add(ev ci.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
	close(e.more)
	e.more = make(chan struct{})
}

// All returns the events so far, in order.
func (e *Events) All() []ci.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Count returns the number of events of a type so far.
func (e *Events) Count(typ ci.EventType) int {
	n := 0
	for _, ev := range e.All() {
		if ev.Type == typ {
			n++
		}
	}
	return n
}

// Wait returns the next event of the type that no earlier Wait has returned. The case fails at its deadline.
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
			e.t.Fail(validate.Failure{
				Where: "asynchronous events", Expected: fmt.Sprintf("the event %q", typ), Got: e.summary(),
				Doubt: validate.DoubtTime,
			})
		}
	}
}

// HasWithin reports whether there is an event of the type, or one comes within d. It is for events that are optional.
func (e *Events) HasWithin(typ ci.EventType, d time.Duration) bool {
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

// Only fails the case if events of other types have come. Call it when nothing can raise an event any more.
func (e *Events) Only(types ...ci.EventType) {
	for _, ev := range e.All() {
		if !slices.Contains(types, ev.Type) {
			e.t.Fail(validate.Failure{
				Where: "asynchronous events", Expected: "no event" + but(types), Got: e.summary(),
			})
		}
	}
}

// OnlyFor is Only after a wait of d, for events that a faulty driver raises after the completions of their cause.
func (e *Events) OnlyFor(d time.Duration, types ...ci.EventType) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	e.Only(types...)
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
