package validate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// ProtocolVersion is the version of the worker protocol. Parent and worker are the same binary, so another version is
// an error.
const ProtocolVersion = 2

// EventKind is the kind of an Event.
type EventKind string

const (
	EventHello    EventKind = "hello"    // first: Version
	EventIdentity EventKind = "identity" // the target is open: Identity
	EventStart    EventKind = "start"    // Case begins
	EventLog      EventKind = "log"      // a line of evidence: Text
	EventStep     EventKind = "step"     // the case begins a step (T.Step): Text
	EventResult   EventKind = "result"   // a case is over: Result
	EventHang     EventKind = "hang"     // Case has passed its deadline: Text has all stacks; the worker then exits
	EventFatal    EventKind = "fatal"    // the worker cannot continue: Text has the reason
)

// An Event is one line of a worker's results.
type Event struct {
	Kind     EventKind `json:"kind"`
	Version  int       `json:"version,omitempty"`
	Case     string    `json:"case,omitempty"`
	Text     string    `json:"text,omitempty"`
	Identity *Identity `json:"identity,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Elapsed  Elapsed   `json:"elapsed,omitempty"`
	// Conditions are those of the attempt, in a result.
	Conditions Conditions `json:"conditions,omitzero"`
}

// command is one line of a worker's commands. The first line on the channel is not a command but the nonce.
type command struct {
	Case    string  `json:"case"`
	Attempt int     `json:"attempt,omitempty"`
	Rerun   int     `json:"rerun,omitempty"`
	Stretch float64 `json:"stretch,omitempty"`
	// Spoiled is the case before, if it may have left state in the adapters.
	Spoiled string `json:"spoiled,omitempty"`
}

// maxLine limits the length of an event: the stacks of a hang, escaped.
const maxLine = 4 << 20

// eventWriter writes events. It may be used by several goroutines.
type eventWriter struct {
	nonce string

	mu sync.Mutex
	w  io.Writer
}

func (e *eventWriter) write(ev Event) error {
	b, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err = e.w.Write(slices.Concat([]byte(e.nonce), []byte(" "), b, []byte("\n")))
	return err
}

// eventReader reads the events of one worker.
type eventReader struct {
	nonce []byte
	sc    *bufio.Scanner
}

func newEventReader(r io.Reader, nonce string) *eventReader {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	return &eventReader{nonce: []byte(nonce + " "), sc: sc}
}

// next returns the next event, or io.EOF at the end. A line that has no nonce or is not an event is an error, because
// something other than the certifier wrote it.
func (e *eventReader) next() (Event, error) {
	if !e.sc.Scan() {
		if err := e.sc.Err(); err != nil {
			return Event{}, fmt.Errorf("worker stream: %w", err)
		}
		return Event{}, io.EOF
	}
	line, ok := bytes.CutPrefix(e.sc.Bytes(), e.nonce)
	if !ok {
		return Event{}, fmt.Errorf("worker stream: %q was written by something other than the certifier",
			shortText(e.sc.Bytes()))
	}
	var ev Event
	if err := json.Unmarshal(line, &ev); err != nil {
		return Event{}, fmt.Errorf("worker stream: %w", err)
	}
	if err := ev.check(); err != nil {
		return Event{}, fmt.Errorf("worker stream: %w", err)
	}
	return ev, nil
}

// shortText returns the first 80 bytes of a line, for a message.
func shortText(b []byte) string {
	if len(b) > 80 {
		return strings.ToValidUTF8(string(b[:80]), "?") + "…"
	}
	return strings.ToValidUTF8(string(b), "?")
}

// check returns an error if the event lacks a field that its kind requires.
func (e Event) check() error {
	switch e.Kind {
	case EventHello:
		if e.Version != ProtocolVersion {
			return fmt.Errorf("version %d, this is version %d", e.Version, ProtocolVersion)
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
