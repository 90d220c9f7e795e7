package usersuite

import (
	"os"
	"sync"

	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// eventList is what a client has read from an event queue.
type eventList struct {
	t *validate.T
	f *os.File

	reader sync.WaitGroup

	mu    sync.Mutex
	list  []schema.Event
	wrong error
	ended bool
}

// queue creates an event queue. Nothing is read from it before start.
func (x *speaker) queue() (schema.Handle, *eventList) {
	h := x.made("CreateEventQueue", schema.CmdCreateEventQueue, &schema.CreateEventQueue{})
	l := &eventList{t: x.s.t, f: x.taken("CreateEventQueue")}
	l.t.Cleanup(func() {
		l.f.Close()
		l.reader.Wait()
	})
	return h, l
}

// started creates an event queue whose events are read.
func (x *speaker) started() (schema.Handle, *eventList) {
	h, l := x.queue()
	l.start()
	return h, l
}

// start reads the events until the queue ends.
func (l *eventList) start() {
	l.reader.Go(func() {
		b := make([]byte, 2*schema.EventSize)
		for {
			n, err := l.f.Read(b)
			l.mu.Lock()
			if err != nil {
				l.ended = true
				l.mu.Unlock()
				return
			}
			e, err := schema.ParseEvent(b[:n])
			if err != nil {
				l.wrong = err
			}
			l.list = append(l.list, e)
			l.mu.Unlock()
		}
	})
}

// all returns the events that were read.
func (l *eventList) all() []schema.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	kit.OK(l.t, l.wrong, "the form of an event")
	return append([]schema.Event(nil), l.list...)
}

// isEnded reports whether the queue has ended.
func (l *eventList) isEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// count returns the number of events that are like e, except for the fields of e that are 0.
func (l *eventList) count(e schema.Event) (n int) {
	for _, x := range l.all() {
		if isLike(x, e) {
			n++
		}
	}
	return n
}

// isLike reports whether x has the fields of e that are not 0.
func isLike(x, e schema.Event) bool {
	return (e.Token == 0 || x.Token == e.Token) && (e.Kind == 0 || x.Kind == e.Kind) &&
		(e.Type == 0 || x.Type == e.Type)
}
