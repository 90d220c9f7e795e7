package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// bar is the live line of a terminal: how many cases are done, an estimate of the time that is left, and which case runs. One goroutine uses it at
// a time.
type bar struct {
	out         io.Writer
	total, done int
	now         func() time.Duration // since the start of the run
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
	line := []rune(fmt.Sprintf("[%s%s] %d/%d%s %s", strings.Repeat("█", full), strings.Repeat(" ", barWidth-full), b.done, b.total, b.left(), b.text))
	if w := b.width(); w > 1 && len(line) >= w {
		line = append(line[:w-2], '…')
	}
	// Spaces rather than escape sequences: not every terminal of Windows takes those.
	fmt.Fprintf(b.out, "\r%s%s", string(line), strings.Repeat(" ", max(0, b.cells-len(line))))
	b.cells = len(line)
}

// minEstimate is the number of cases after which the bar estimates the time that is left.
const minEstimate = 20

// left returns the estimate of the time that is left: the cases so far took as long, each, as the others will.
func (b *bar) left() string {
	if b.now == nil || b.done < min(minEstimate, b.total/4) || b.done == 0 || b.done >= b.total {
		return ""
	}
	d := b.now() * time.Duration(b.total-b.done) / time.Duration(b.done)
	if d < time.Minute {
		return fmt.Sprintf(", %ds left", int(d.Round(time.Second).Seconds()))
	}
	return fmt.Sprintf(", %dm%02ds left", int(d.Minutes()), int(d.Seconds())%60)
}

// clear removes the line.
func (b *bar) clear() {
	if b.cells > 0 {
		fmt.Fprintf(b.out, "\r%s\r", strings.Repeat(" ", b.cells))
		b.cells = 0
	}
}
