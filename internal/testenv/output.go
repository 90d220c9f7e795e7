package testenv

import (
	"bytes"
	"strings"
	"sync"
)

// Output collects what a program writes while it runs. Its methods may be called concurrently. The zero value is empty.
type Output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	awaited map[string]chan struct{} // by text; those that were seen are removed
}

// Write appends b.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.b.Write(b)
	for text, seen := range o.awaited {
		if o.contains(text) {
			close(seen)
			delete(o.awaited, text)
		}
	}
	return n, err
}

// contains is called with mu locked.
func (o *Output) contains(text string) bool { return strings.Contains(o.b.String(), text) }

// String returns what has been written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Seen returns a channel that is closed when the output contains text.
func (o *Output) Seen(text string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seen, ok := o.awaited[text]; ok {
		return seen
	}
	seen := make(chan struct{})
	if o.contains(text) {
		close(seen)
		return seen
	}
	if o.awaited == nil {
		o.awaited = map[string]chan struct{}{}
	}
	o.awaited[text] = seen
	return seen
}
