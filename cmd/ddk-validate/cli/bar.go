package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// bar is the live line of a terminal: the number of cases done, an estimate of the remaining time, and the running
// case. It must be used by one goroutine at a time.
type bar struct {
	out      io.Writer
	numTotal int
	numDone  int
	now      func() time.Duration // time since the start of the run; nil: no estimate
	text     string
	width    func() int // columns of the terminal; 0 if unknown
	cells    int        // columns that the line takes
}

// barWidth is the number of columns of the bar itself.
const barWidth = 20

// describe sets the text after the bar.
func (b *bar) describe(text string) {
	b.text = text
	b.draw()
}

// set sets the number of cases done.
func (b *bar) set(done int) {
	b.numDone = done
	b.draw()
}

// draw replaces the line. It cuts the line at the width of the terminal, since clear removes only one row.
func (b *bar) draw() {
	full := 0
	if b.numTotal > 0 {
		full = barWidth * min(b.numDone, b.numTotal) / b.numTotal
	}
	cells := strings.Repeat("█", full) + strings.Repeat(" ", barWidth-full)
	line := []rune(fmt.Sprintf("[%s] %d/%d%s %s", cells, b.numDone, b.numTotal, b.left(), b.text))
	if w := b.width(); w > 1 && len(line) >= w {
		line = append(line[:w-2], '…')
	}
	// Spaces are used instead of escape sequences, because not every terminal of Windows supports those.
	fmt.Fprintf(b.out, "\r%s%s", string(line), strings.Repeat(" ", max(0, b.cells-len(line))))
	b.cells = len(line)
}

// minEstimate is the number of cases from which the bar estimates the remaining time.
const minEstimate = 20

// left returns an estimate of the remaining time. It assumes that the other cases take as long as those so far.
func (b *bar) left() string {
	hasBasis := b.now != nil && b.numDone > 0 && b.numDone >= min(minEstimate, b.numTotal/4)
	if !hasBasis || b.numDone >= b.numTotal {
		return ""
	}
	d := b.now() * time.Duration(b.numTotal-b.numDone) / time.Duration(b.numDone)
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
