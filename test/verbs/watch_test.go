package verbs

import (
	"bytes"
	"strings"
	"sync"
)

// watch is an output that reports when it contains a text.
type watch struct {
	out  *bytes.Buffer
	text string
	once sync.Once
	seen chan struct{}
}

func newWatch(out *bytes.Buffer, text string) *watch {
	return &watch{out: out, text: text, seen: make(chan struct{})}
}

// Write appends output.
func (w *watch) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if strings.Contains(w.out.String(), w.text) {
		w.once.Do(func() { close(w.seen) })
	}
	return n, err
}
