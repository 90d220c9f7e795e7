package ladder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Measures, in pixels.
const (
	width      = 940
	timeX      = 58 // right edge of the times
	leftX      = 284
	rightX     = 704
	sideRoom   = leftX - timeX - 8 // width of the notes of a side
	heading    = 50                // below the names of the ends
	top        = 64                // top of the time axis
	textLine   = 15                // between lines of text
	drop       = 26                // minimum slope of an arrow
	crossDrop  = 90                // slope of arrows that cross, since each has its text beside the other
	chipLine   = 20                // between lines of notes
	chipPad    = 5                 // beside the text of a note
	chipGap    = 4                 // between notes
	chipOffset = 10                // between note and life line
	rowStep    = 15                // minimum distance between two times
	pauseStep  = 36                // minimum distance across a pause
	mostStep   = 200               // maximum height of a text
	aside      = 60                // between the texts of two arrows, where one arrow ends and the next begins
	endGap     = 30                // after the last line
	legendGap  = 26                // height of the legend
)

// pause is the duration from which the life lines are dotted instead of drawn.
const pause = 5 * time.Millisecond

// A row is one time on the axis.
type row struct {
	at   time.Duration
	y    int
	long bool // a pause lies between the previous row and this one
}

// An arrow is a message between the life lines. to is nil if the message is lost.
type arrow struct {
	*Message
	from, to *row
	crossing bool
	shift    int // offset of the text from the middle of the line, to the right
}

// endY returns the height at which the arrow ends. A lost arrow ends halfway.
func (a *arrow) endY() int {
	if a.to == nil {
		return a.from.y + a.drop()
	}
	return a.to.y
}

func (a *arrow) drop() int {
	if a.crossing {
		return crossDrop
	}
	return drop
}

// above and below return the space that the text needs above and below the line.
func (a *arrow) above() int {
	if a.crossing {
		return (1+len(a.More))*textLine + 4
	}
	return textLine + 4
}

func (a *arrow) below() int {
	if a.crossing || len(a.More) == 0 {
		return 3
	}
	return textLine + 3
}

// ends returns the start of the arrow and the end that it would have if it were not lost.
func (a *arrow) ends() (x0, x1, dir int) {
	if a.From == Left {
		return leftX, rightX, 1
	}
	return rightX, leftX, -1
}

// at returns the height of the line at x.
func (a *arrow) at(x int) float64 {
	x0, x1, _ := a.ends()
	return float64(a.from.y) + float64(a.endY()-a.from.y)*float64(x-x0)/float64(x1-x0)
}

// textX returns the middle of the text.
func (a *arrow) textX() int {
	x0, x1, dir := a.ends()
	if a.Lost { // the text does not touch the cross
		return x0 + dir*(rightX-leftX)*lostPart*43/10000
	}
	return (x0+x1)/2 + a.shift
}

// widths returns the widths of the text above the line and of the text below it.
func (a *arrow) widths() (over, under int) {
	over = textWidth(a.Name + " " + a.Fields)
	if a.Again {
		over += textWidth(" again")
	}
	return over, textWidth(strings.Join(a.More, ", "))
}

// clear reports whether the texts of this arrow and the previous one are legible: neither overlaps the other or the
// other's line.
func (a *arrow) clear(before *arrow) bool {
	mine, _ := a.widths()
	_, theirs := before.widths()
	free := func(x, w int, above, below int) bool {
		for _, end := range []int{x - w/2, x + w/2} {
			if before.at(end)+float64(below) > a.at(end)-float64(above) {
				return false
			}
		}
		return true
	}
	if !free(a.textX(), mine, a.above(), 2) {
		return false
	}
	if len(before.More) == 0 || before.crossing {
		return true
	}
	lo, hi := max(a.textX()-mine/2, before.textX()-theirs/2), min(a.textX()+mine/2, before.textX()+theirs/2)
	if lo < hi && !free((lo+hi)/2, hi-lo, a.above(), before.below()) {
		return false
	}
	return free(before.textX(), theirs, 2, before.below())
}

// A chip is a placed note.
type chip struct {
	*Note
	x, y, w int // left edge, middle, width
}

// A plan is a chart with positions.
type plan struct {
	*Chart
	rows   []*row
	arrows []*arrow
	chips  []*chip
	height int // bottom of the time axis
}

// layout places everything, with rows as close together as the texts permit.
func layout(c *Chart) *plan {
	p := &plan{Chart: c}
	at := map[time.Duration]*row{}
	add := func(t time.Duration) *row {
		if at[t] == nil {
			at[t] = &row{at: t}
			p.rows = append(p.rows, at[t])
		}
		return at[t]
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		a := &arrow{Message: m, from: add(m.Sent)}
		if !m.Lost {
			a.to = add(m.Arrived)
			for _, o := range c.Messages {
				a.crossing = a.crossing || o.From != m.From && !o.Lost && o.Sent < m.Arrived && m.Sent < o.Arrived
			}
		}
		p.arrows = append(p.arrows, a)
	}
	for k, a := range p.arrows {
		if k == 0 {
			continue
		}
		if before := p.arrows[k-1]; a.from == before.to && a.From != before.From {
			_, _, dir := a.ends()
			a.move(dir)
			before.move(dir)
		}
	}
	for i := range c.Notes {
		n := &c.Notes[i]
		p.chips = append(p.chips, &chip{Note: n, w: 2*chipPad + textWidth(n.Text)})
		add(n.At)
	}
	slices.SortFunc(p.rows, func(a, b *row) int { return cmp.Compare(a.at, b.at) })
	p.place()
	return p
}

// move moves the text to one side as far as there is space.
func (a *arrow) move(dir int) {
	over, under := a.widths()
	a.shift += dir * max(0, min(aside, (rightX-leftX-max(over, under))/2-chipOffset))
}

// place assigns heights to the rows from top to bottom, each as small as the rows above permit.
func (p *plan) place() {
	free := [2]int{} // first free height for notes of a side
	for i, r := range p.rows {
		r.y = top
		if i > 0 {
			before := p.rows[i-1]
			r.y = before.y + rowStep
			if r.long = r.at-before.at > pause; r.long {
				r.y = before.y + pauseStep
			}
		}
		for k, a := range p.arrows {
			if i == 0 && a.from == r {
				r.y = max(r.y, heading+a.above())
			}
			if a.to == r {
				r.y = max(r.y, a.from.y+a.drop())
			}
			if i > 0 && a.Lost && a.from.at < r.at && (a.from.at < p.rows[i-1].at || r.long) {
				r.y = max(r.y, a.endY()+pauseStep/2) // later entries do not overlap the lost arrow
			}
			// The row moves down until the text of the arrow that ends here does not overlap the previous one.
			if k > 0 && (a.to == r || a.Lost && a.from == r) && !(a.crossing && p.arrows[k-1].crossing) {
				for n := 0; n < mostStep && !a.clear(p.arrows[k-1]); n++ {
					r.y++
				}
			}
		}
		for s := range free {
			if used := p.chipsAt(r, Side(s), max(r.y, free[s]), false); used > 0 {
				r.y = max(r.y, free[s])
			}
		}
		for s := range free {
			if used := p.chipsAt(r, Side(s), r.y, true); used > 0 {
				free[s] = r.y + used*chipLine
			}
		}
		p.height = max(p.height, r.y, free[0]-chipLine, free[1]-chipLine)
	}
	for _, a := range p.arrows {
		p.height = max(p.height, a.endY())
	}
	p.height += endGap
}

// chipsAt places the notes of a row side by side, from the life line outwards, in as many lines as necessary. It
// returns the number of lines.
func (p *plan) chipsAt(r *row, s Side, y int, put bool) (lines int) {
	x := 0
	for _, c := range p.chips {
		if c.At != r.at || c.Side != s {
			continue
		}
		if lines == 0 || x+chipGap+c.w > sideRoom {
			x = chipOffset
			lines++
		} else {
			x += chipGap
		}
		if put {
			c.y = y + (lines-1)*chipLine
			if c.x = rightX + x; s == Left {
				c.x = leftX - x - c.w
			}
		}
		x += c.w
	}
	return lines
}

// textWidth returns the approximate width of a text in a wide font of the style sheet's size.
func textWidth(s string) int {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("ijl,.' |()", r):
			w += 4.2
		case unicode.IsUpper(r), strings.ContainsRune("mw", r):
			w += 8.7
		default:
			w += 6.9
		}
	}
	return int(w + 0.5)
}

// stamp formats a time for the axis, in milliseconds.
func stamp(t time.Duration) string { return fmt.Sprintf("%.2f", float64(t)/1e6) }
