package main

import (
	"fmt"
	"io"
	"strings"
)

// Limits of what the summary repeats. It stays short, because some places show only the last lines of a log.
const (
	maxEnd  = 500 // bytes of an end
	maxEnds = 4
)

// ends holds lines that failed programs and tests printed. The summary repeats them.
type ends []string

// addEnd notes the last lines that a program printed.
func (e *ends) addEnd(name, text string) {
	lines := shortened(text, func(string) bool { return false })
	if cut := len(lines) - maxEnd; cut > 0 {
		lines = lines[cut:]
		lines = lines[strings.IndexByte(lines, '\n')+1:]
	}
	*e = append(*e, "the end of "+name+":\n"+lines)
}

// addStart notes the first lines that a failed test printed. A test without lines of its own has subtests, which are
// noted.
func (e *ends) addStart(name, text string) {
	lines := shortened(text, isRunnerLine)
	if lines == "" {
		return
	}
	if len(lines) > maxEnd {
		lines = lines[:maxEnd]
		lines = lines[:strings.LastIndexByte(lines, '\n')+1]
	}
	*e = append(*e, name+":\n"+lines)
}

// shortened returns the lines of text that are not empty and that skip does not select.
func shortened(text string, skip func(line string) bool) string {
	const longest = 200 // bytes of a line
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !skip(line) {
			b.WriteString("    " + strings.ToValidUTF8(line[:min(len(line), longest)], "?") + "\n")
		}
	}
	return b.String()
}

func (e ends) report(w io.Writer) {
	for _, s := range e[:min(len(e), maxEnds)] {
		fmt.Fprint(w, s)
	}
	if more := len(e) - maxEnds; more > 0 {
		fmt.Fprintf(w, "%d more failures: see above\n", more)
	}
}

// isRunnerLine reports whether a line is one of the test runner, which repeats names.
func isRunnerLine(line string) bool {
	for _, p := range []string{"=== ", "--- ", "FAIL", "exit status", "Test:", "Error Trace:"} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// tail keeps the last bytes that were written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 * maxEnd
	t.b = append(t.b, p...)
	if cut := len(t.b) - most; cut > 0 {
		t.b = append(t.b[:0], t.b[cut:]...)
	}
	return len(p), nil
}
