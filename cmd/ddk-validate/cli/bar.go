package cli

import (
	"fmt"
	"io"
	"strings"
)

// bar is the live line of a terminal: how many cases are done, and which one runs. One goroutine uses it at a time.
type bar struct {
	out         io.Writer
	total, done int
	text        string
	width       func() int // columns of the terminal; 0 if unknown
	cells       int        // columns that the line takes now
}

// barWidth is the number of columns of the bar itself.
const barWidth = 20

// describe sets the text behind the bar.
func (b *bar) describe(text string) {
	b.text = text
	b.draw()
}

// set sets how many cases are done.
func (b *bar) set(done int) {
	b.done = done
	b.draw()
}

// draw replaces the line. It is cut where the terminal would wrap it, since clear reaches one row only.
func (b *bar) draw() {
	full := 0
	if b.total > 0 {
		full = barWidth * min(b.done, b.total) / b.total
	}
	line := []rune(fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("█", full), strings.Repeat(" ", barWidth-full), b.done, b.total, b.text))
	if w := b.width(); w > 1 && len(line) >= w {
		line = append(line[:w-2], '…')
	}
	// Spaces rather than escape sequences: not every terminal of Windows takes those.
	fmt.Fprintf(b.out, "\r%s%s", string(line), strings.Repeat(" ", max(0, b.cells-len(line))))
	b.cells = len(line)
}

// clear removes the line.
func (b *bar) clear() {
	if b.cells > 0 {
		fmt.Fprintf(b.out, "\r%s\r", strings.Repeat(" ", b.cells))
		b.cells = 0
	}
}
