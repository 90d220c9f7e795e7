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

// ProtocolVersion is that of the worker stream. Parent and worker are the same binary, so a mismatch means that something else answered.
const ProtocolVersion = 2

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

// Event is one line of a worker's results.
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

// command is one line of a worker's commands. The first line holds the nonce alone.
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
	nonce string

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
	_, err = w.w.Write(slices.Concat([]byte(w.nonce), []byte(" "), b, []byte("\n")))
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

// next returns the next event, io.EOF at the end. A line without the nonce, or that is no event, is an error: something other than the
// certifier wrote it.
func (r *eventReader) next() (Event, error) {
	if !r.sc.Scan() {
		if err := r.sc.Err(); err != nil {
			return Event{}, fmt.Errorf("worker stream: %w", err)
		}
		return Event{}, io.EOF
	}
	line, ok := bytes.CutPrefix(r.sc.Bytes(), r.nonce)
	if !ok {
		return Event{}, fmt.Errorf("worker stream: %q was written by something other than the certifier", shortText(r.sc.Bytes()))
	}
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("worker stream: %w", err)
	}
	if err := e.check(); err != nil {
		return Event{}, fmt.Errorf("worker stream: %w", err)
	}
	return e, nil
}

// shortText returns the beginning of a line for a message.
func shortText(b []byte) string {
	if len(b) > 80 {
		return strings.ToValidUTF8(string(b[:80]), "?") + "…"
	}
	return strings.ToValidUTF8(string(b), "?")
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
