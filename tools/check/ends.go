package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of what the summary repeats. It stays short, because the pages of some CI systems have only the last 40 lines
// of a log.
const (
	maxEnds     = 8  // failures with lines
	maxEndLines = 12 // of one failure
	allEndLines = 32 // of all failures, if each has minEndLines
	minEndLines = 4
)

// An end holds lines that a failed program or test printed.
type end struct {
	name  string
	lines []string
	isEnd bool // the last lines count, not the first
}

// ends are repeated by the summary.
type ends []end

// addEnd notes the last lines that a program printed.
func (e *ends) addEnd(name, text string) {
	lines := shortened(text, func(string) bool { return false })
	*e = append(*e, end{"the end of " + name, lines[max(0, len(lines)-maxEndLines):], true})
}

// addStart notes the first lines that a failed test printed. A test without lines of its own has subtests, which are
// noted.
func (e *ends) addStart(name, text string) {
	if lines := shortened(text, isRunnerLine); len(lines) > 0 {
		*e = append(*e, end{name, lines[:min(len(lines), maxEndLines)], false})
	}
}

// shortened returns the lines of text that are not empty and that skip does not select.
func shortened(text string, skip func(line string) bool) (lines []string) {
	const longest = 200 // bytes of a line
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !skip(line) {
			lines = append(lines, strings.ToValidUTF8(line[:min(len(line), longest)], "?"))
		}
	}
	return lines
}

// report prints the failures. The fewer they are, the more lines each has.
func (e ends) report(w io.Writer) {
	shown := e[:min(len(e), maxEnds)]
	if more := len(e) - len(shown); more > 0 {
		fmt.Fprintf(w, "%d more failures: see above\n", more)
	}
	for _, f := range shown {
		most := max(minEndLines, min(maxEndLines, allEndLines/len(shown)))
		lines := f.lines[:min(len(f.lines), most)]
		if f.isEnd {
			lines = f.lines[max(0, len(f.lines)-most):]
		}
		fmt.Fprintf(w, "%s:\n", f.name)
		for _, line := range lines {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
}

// isRunnerLine reports whether a line is one of the test runner, which repeats names.
func isRunnerLine(line string) bool {
	return slices.ContainsFunc([]string{"=== ", "--- ", "FAIL", "exit status", "Test:", "Error Trace:"},
		func(p string) bool { return strings.HasPrefix(line, p) })
}

// tail keeps the last bytes that were written to it.
type tail struct{ b []byte }

// maxTail is the number of bytes that tail keeps.
const maxTail = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if cut := len(t.b) - maxTail; cut > 0 {
		t.b = append(t.b[:0], t.b[cut:]...)
	}
	return len(p), nil
}
