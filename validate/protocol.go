package validate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ProtocolVersion is that of the worker stream. Parent and worker are the same binary, so a mismatch means that something else answered.
const ProtocolVersion = 1

// EventKind says what an Event of the worker stream reports.
type EventKind string

const (
	EventHello    EventKind = "hello"    // first: Version
	EventIdentity EventKind = "identity" // the target is open: Identity
	EventStart    EventKind = "start"    // Case begins
	EventLog      EventKind = "log"      // a line of evidence: Text
	EventStep     EventKind = "step"     // what the case does from now on: Text
	EventResult   EventKind = "result"   // a case is over: Result
	EventHang     EventKind = "hang"     // Case passed its deadline: Text has all stacks; the worker ends itself after it
	EventFatal    EventKind = "fatal"    // the worker cannot go on: Text says why
)

// Event is one line of a worker's output.
type Event struct {
	Kind     EventKind `json:"kind"`
	Version  int       `json:"version,omitempty"`
	Case     string    `json:"case,omitempty"`
	Text     string    `json:"text,omitempty"`
	Identity *Identity `json:"identity,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Elapsed  Elapsed   `json:"elapsed,omitempty"`
	// Conditions of the attempt, in a result.
	Conditions Conditions `json:"conditions,omitzero"`
}

// command is one line of a worker's input.
type command struct {
	Case    string  `json:"case"`
	Attempt int     `json:"attempt,omitempty"`
	Rerun   int     `json:"rerun,omitempty"`
	Stretch float64 `json:"stretch,omitempty"`
}

// maxLine bounds a line of the stream: stacks of a hang, escaped.
const maxLine = 4 << 20

// eventWriter writes events; it may be used from several goroutines.
type eventWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *eventWriter) write(e Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(append([]byte{mark}, b...), '\n'))
	return err
}

// mark begins each line of the stream, so that what a driver prints to the same descriptor is told apart. It is the ASCII record
// separator, as in RFC 7464.
const mark = 0x1e

// EventReader reads a worker's output. Lines that are no events (the driver or the test framework printed them) go to Stray.
type EventReader struct {
	sc    *bufio.Scanner
	Stray func(line string) // may be nil
}

// NewEventReader reads from r.
func NewEventReader(r io.Reader) *EventReader {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	return &EventReader{sc: sc}
}

// Next gives the next event, io.EOF at the end. A line that claims to be an event and is not is an error.
func (r *EventReader) Next() (Event, error) {
	for r.sc.Scan() {
		line := r.sc.Bytes()
		i := bytes.IndexByte(line, mark) // a driver may have printed without a newline before
		if i != 0 && r.Stray != nil {
			if i < 0 {
				r.Stray(string(line))
			} else {
				r.Stray(string(line[:i]))
			}
		}
		if i < 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(line[i+1:], &e); err != nil {
			return Event{}, fmt.Errorf("worker stream: %w", err)
		}
		if err := e.check(); err != nil {
			return Event{}, fmt.Errorf("worker stream: %w", err)
		}
		return e, nil
	}
	if err := r.sc.Err(); err != nil {
		return Event{}, fmt.Errorf("worker stream: %w", err)
	}
	return Event{}, io.EOF
}

// check refuses events that lack what their kind promises, so that the parent need not look twice.
func (e Event) check() error {
	switch e.Kind {
	case EventHello:
		if e.Version != ProtocolVersion {
			return fmt.Errorf("version %d, this is %d", e.Version, ProtocolVersion)
		}
	case EventIdentity:
		if e.Identity == nil {
			return errors.New("identity event without identity")
		}
	case EventResult:
		if e.Result == nil || e.Result.Case == "" {
			return errors.New("result event without result")
		}
		switch e.Result.Status {
		case Pass, Fail, Inconclusive, Skip, Error:
		default:
			return fmt.Errorf("result of %s with status %q", e.Result.Case, e.Result.Status)
		}
	case EventStart, EventHang:
		if e.Case == "" {
			return fmt.Errorf("%s event without case", e.Kind)
		}
	case EventLog, EventStep, EventFatal:
	default:
		return fmt.Errorf("unknown event %q", e.Kind)
	}
	return nil
}
