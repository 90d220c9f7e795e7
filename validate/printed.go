package validate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// tailBuffer keeps the first quarter and the end of what is written: a panic's first lines and what led to it. It takes whatever
// comes and never blocks, and its memory is bounded.
type tailBuffer struct {
	mark string        // ends what a worker has printed during a case; it is not kept
	seen chan struct{} // one token for a mark that has come

	mu   sync.Mutex
	max  int
	head []byte
	rest []byte
	lost int // bytes dropped between head and rest
}

func newTailBuffer(max int, mark string) *tailBuffer {
	return &tailBuffer{max: max, mark: mark, seen: make(chan struct{}, 1)}
}

// written returns how many bytes came so far.
func (b *tailBuffer) written() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.head) + b.lost + len(b.rest)
}

// awaitMark waits until the mark has come, or for the time d: a driver may have closed standard error.
func (b *tailBuffer) awaitMark(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.seen:
	case <-timer.C:
	}
}

// maxPrinted bounds what a driver's own output adds to the evidence of a case, in lines and in bytes.
const (
	maxPrinted      = 50
	maxPrintedBytes = 16 << 10
)

// since returns what came after the first n bytes, as far as it is still there.
func (b *tailBuffer) since(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim()
	all := string(b.head) + string(b.rest)
	skip := n
	if n > len(b.head) {
		skip = max(n-b.lost, len(b.head))
	}
	return all[min(skip, len(all)):]
}

// linesSince returns the last lines of what came after the first n bytes: what the driver printed during a case.
func (b *tailBuffer) linesSince(n int) []string { return lastPrinted(b.since(n)) }

// lastPrinted returns the last lines of a text.
func lastPrinted(text string) []string {
	text = strings.TrimRight(tailBytes(text, maxPrintedBytes), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-maxPrinted):]
}

// Write implements io.Writer. The head is cut off when there is too much for the first time.
func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = append(b.rest, p...)
	b.takeMark(len(p))
	if b.head == nil && len(b.rest) > b.max {
		b.head = slices.Clone(b.rest[:b.max/4])
		b.rest = slices.Clone(b.rest[b.max/4:])
	}
	if len(b.rest) > 2*b.max { // not at each write: a flood has to be drained quickly
		b.trim()
	}
	return len(p), nil
}

// trim drops what is too much between head and end.
func (b *tailBuffer) trim() {
	if over := len(b.rest) - b.max*3/4; b.head != nil && over > 0 {
		b.lost += over
		b.rest = append(b.rest[:0], b.rest[over:]...)
	}
}

// takeMark removes the mark, if it ends in the last n bytes.
func (b *tailBuffer) takeMark(n int) {
	from := max(0, len(b.rest)-n-len(b.mark))
	i := bytes.Index(b.rest[from:], []byte(b.mark))
	if i < 0 || b.mark == "" {
		return
	}
	b.rest = append(b.rest[:from+i], b.rest[from+i+len(b.mark):]...)
	select {
	case b.seen <- struct{}{}:
	default:
	}
}

func (b *tailBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim()
	if b.lost > 0 {
		return fmt.Sprintf("%s\n[%d bytes left out]\n%s", b.head, b.lost, b.rest)
	}
	return string(b.head) + string(b.rest)
}

// last returns at most n bytes from the end.
func (b *tailBuffer) last(n int) string { return tail(b.String(), n) }

func tail(s string, n int) string { return tailBytes(strings.TrimSpace(s), n) }

// tailBytes returns at most n bytes from the end, with a sign where something was cut.
func tailBytes(s string, n int) string {
	if len(s) > n {
		return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}
