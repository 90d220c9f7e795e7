package ladder

import "fmt"

// Flaws returns the faults of the drawn chart that a reader would notice.
func Flaws(c *Chart) (flaws []string) {
	p := layout(c)
	flaw := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	for i, r := range p.rows {
		if i > 0 && (r.at <= p.rows[i-1].at || r.y-p.rows[i-1].y < rowStep) {
			flaw("%v stands on %v", r.at, p.rows[i-1].at)
		}
	}
	for i, a := range p.arrows {
		if over, under := a.widths(); max(over, under) > rightX-leftX-2*chipOffset {
			flaw("%s is too wide", a.Name)
		}
		if a.to != nil && a.to.y <= a.from.y || a.endY() > p.height-endGap {
			flaw("%s goes from %d to %d", a.Name, a.from.y, a.endY())
		}
		if i > 0 && !(a.crossing && p.arrows[i-1].crossing) && !a.clear(p.arrows[i-1]) {
			flaw("%s and %s stand on each other", p.arrows[i-1].Name, a.Name)
		}
	}
	for i, n := range p.chips {
		if n.x < timeX || n.x+n.w > width || n.x < rightX && n.x+n.w > leftX {
			flaw("%s is from %d to %d", n.Text, n.x, n.x+n.w)
		}
		for _, o := range p.chips[i+1:] {
			if n.x < o.x+o.w && o.x < n.x+n.w && max(n.y, o.y)-min(n.y, o.y) < 17 {
				flaw("%s and %s stand on each other", n.Text, o.Text)
			}
		}
	}
	return flaws
}
