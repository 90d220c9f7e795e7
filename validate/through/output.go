package through

import (
	"regexp"
	"strings"
	"sync"
)

// output keeps the beginning and the end of what a process prints, so that it has both the first lines of a panic and
// the last output.
type output struct {
	mu         sync.Mutex
	head, tail []byte
}

// Limits of the output that is kept, in bytes.
const (
	maxHead = 64 << 10
	maxTail = 64 << 10
)

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(b), maxHead-len(o.head))
	o.head = append(o.head, b[:n]...)
	o.tail = append(o.tail, b[n:]...)
	if len(o.tail) > 2*maxTail {
		o.tail = append([]byte(nil), o.tail[len(o.tail)-maxTail:]...)
	}
	return len(b), nil
}

// text returns what is kept.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.head) + string(o.tail)
}

// reason matches the line in which the Go runtime reports why a process ends.
var reason = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|unexpected fault address .*)$`)

// last returns why the process ended: the line of a panic, or else the last line, after a colon.
func (o *output) last() string {
	text := strings.TrimSpace(o.text())
	if text == "" {
		return ""
	}
	if line := reason.FindString(text); line != "" {
		return ": " + line
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}
