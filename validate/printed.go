package validate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// tailBuffer keeps the first quarter and the end of what is written to it, so that it has both the first lines of a
// panic and the last output. Write never blocks, and the memory is bounded.
type tailBuffer struct {
	mark string        // marks the end of a worker's output for a case; it is not kept
	seen chan struct{} // has one token for each mark that has been read

	mu      sync.Mutex
	max     int
	head    []byte
	rest    []byte
	numLost int // bytes dropped between head and rest
}

func newTailBuffer(max int, mark string) *tailBuffer {
	return &tailBuffer{max: max, mark: mark, seen: make(chan struct{}, 1)}
}

// written returns the number of bytes written so far.
func (t *tailBuffer) written() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.head) + t.numLost + len(t.rest)
}

// awaitMark waits until the mark has been read, or for the time d, since a driver may have closed standard error.
func (t *tailBuffer) awaitMark(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.seen:
	case <-timer.C:
	}
}

// Limits of a driver's output in the evidence of a case, in lines and in bytes.
const (
	maxPrinted      = 50
	maxPrintedBytes = 16 << 10
)

// since returns what was written after the first n bytes, without the part that was dropped.
func (t *tailBuffer) since(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	all := string(t.head) + string(t.rest)
	skip := n
	if n > len(t.head) {
		skip = max(n-t.numLost, len(t.head))
	}
	return all[min(skip, len(all)):]
}

// linesSince returns the last lines that were written after the first n bytes.
func (t *tailBuffer) linesSince(n int) []string { return lastPrinted(t.since(n)) }

// lastPrinted returns the last lines of a text, at most maxPrinted.
func lastPrinted(text string) []string {
	text = strings.TrimRight(tailBytes(text, maxPrintedBytes), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-maxPrinted):]
}

// Write implements io.Writer. It never returns an error.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, p...)
	t.takeMark(len(p))
	if t.head == nil && len(t.rest) > t.max {
		t.head = slices.Clone(t.rest[:t.max/4])
		t.rest = slices.Clone(t.rest[t.max/4:])
	}
	if len(t.rest) > 2*t.max { // not at each write, so that a flood is read quickly
		t.trim()
	}
	return len(p), nil
}

// trim drops the bytes between head and the end that are over the limit.
func (t *tailBuffer) trim() {
	if over := len(t.rest) - t.max*3/4; t.head != nil && over > 0 {
		t.numLost += over
		t.rest = append(t.rest[:0], t.rest[over:]...)
	}
}

// takeMark removes the mark if it ends within the last n bytes.
func (t *tailBuffer) takeMark(n int) {
	from := max(0, len(t.rest)-n-len(t.mark))
	i := bytes.Index(t.rest[from:], []byte(t.mark))
	if i < 0 || t.mark == "" {
		return
	}
	t.rest = append(t.rest[:from+i], t.rest[from+i+len(t.mark):]...)
	select {
	case t.seen <- struct{}{}:
	default:
	}
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	if t.numLost > 0 {
		return fmt.Sprintf("%s\n[%d bytes left out]\n%s", t.head, t.numLost, t.rest)
	}
	return string(t.head) + string(t.rest)
}

// last returns at most n bytes from the end.
func (t *tailBuffer) last(n int) string { return tail(t.String(), n) }

func tail(s string, n int) string { return tailBytes(strings.TrimSpace(s), n) }

// tailBytes returns at most n bytes from the end of s. If it cuts s, the result begins with an ellipsis.
func tailBytes(s string, n int) string {
	if len(s) > n {
		return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}
