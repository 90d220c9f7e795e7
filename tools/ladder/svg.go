package ladder

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ciddk/internal/svg"
)

// kindNames are the names of notes in the legend; kindClasses are their classes in the style sheet.
var (
	kindNames = [kinds]string{Event: "event", Call: "call of the consumer", ConnState: "state of the connection",
		QPState: "state of the QP"}
	kindClasses = [kinds]string{Event: "ev", Call: "call", ConnState: "cm", QPState: "qp"}
)

// style is dark on white, so that the chart looks the same on every page.
const style = `text{font-size:11.5px}
.title{font-size:15px;font-weight:600}.end{font-size:13px;font-weight:600}
.time{font-size:11px;fill:#57606a}.more{font-size:11px;fill:#57606a}
.name{font-weight:700}.life{stroke:#57606a;stroke-width:1.5}
.gap{stroke:#8c959f;stroke-width:1.5;stroke-dasharray:1.5 4}
.row{stroke:#e3e7eb;stroke-width:1}
.arrow{stroke:#1b1f24;stroke-width:1.4}.head{fill:#1b1f24}
.alt .arrow{stroke:#7a5bd0;stroke-dasharray:7 3}.alt .head{fill:#7a5bd0}
.lost .arrow,.cross{stroke:#c62828;stroke-width:1.6;fill:none}
.lost .name,.lostword{fill:#c62828;font-weight:700}
.chip rect{stroke-width:1}.ev rect{fill:#fff6e0;stroke:#d9b45b}.call rect{fill:#fff;stroke:#fff}
.call text{font-style:italic}
.cm rect{fill:#eaf7ee;stroke:#7fbf95}.qp rect{fill:#eef4ff;stroke:#8fb0ea}
`

// lostPart is the drawn part of a lost packet's arrow, in percent.
const lostPart = 80

// SVG draws a chart. Equal charts produce equal text.
func SVG(c *Chart) string {
	p := layout(c)
	h := p.height + legendGap
	s := svg.New(svg.Head{Width: width, Height: float64(h), Label: c.Title, Style: style,
		Note: "Written by tools/ladder from a run: go generate ./tools/ladder"})
	put(s, "title", width/2, 20, "middle", c.Title)
	put(s, "end", leftX, 44, "middle", c.Ends[Left])
	put(s, "end", rightX, 44, "middle", c.Ends[Right])
	put(s, "time", timeX, 44, "end", "ms")
	p.lines(s)
	for _, a := range p.arrows {
		a.draw(s)
	}
	for _, n := range p.chips {
		n.draw(s)
	}
	legend(s, p.height+legendGap/2, p)
	return string(s.Bytes())
}

func put(s *svg.Picture, class string, x, y int, anchor, text string) {
	s.Put("text", text, "class", class, "x", x, "y", y, "text-anchor", anchor)
}

func path(s *svg.Picture, class string, parts ...any) {
	s.Put("path", "", "class", class, "d", svg.Path(parts...))
}

// lines draws the time axis and the life lines.
func (p *plan) lines(s *svg.Picture) {
	for _, r := range p.rows {
		path(s, "row", "M", timeX+6, r.y, "H", width-10)
		put(s, "time", timeX, r.y+4, "end", stamp(r.at))
	}
	for _, x := range []int{leftX, rightX} {
		y := top - 12
		for i, r := range p.rows {
			if !r.long {
				continue
			}
			from, to := p.rows[i-1].y+6, r.y-6
			for _, a := range p.arrows {
				if a.Lost && a.from == p.rows[i-1] {
					from = max(from, min(a.endY(), to-8))
				}
			}
			path(s, "life", "M", x, y, "V", from)
			path(s, "gap", "M", x, from+2, "V", to)
			y = to
		}
		path(s, "life", "M", x, y, "V", p.height-12)
	}
}

// draw draws the arrow with its text along it.
func (a *arrow) draw(s *svg.Picture) {
	x0, x1, dir := a.ends()
	class := "msg"
	if a.Alternate {
		class += " alt"
	}
	y0, y1 := a.from.y, a.endY()
	if a.Lost {
		class += " lost"
	}
	slope := float64(y1-y0) / float64(x1-x0)
	s.Open("g", "class", class)
	if a.Lost {
		xe := x0 + dir*(rightX-leftX)*lostPart/100
		ye := a.at(xe)
		path(s, "arrow", "M", x0, y0, "L", xe, ye)
		path(s, "cross", "M", xe-5, ye-5, "l10 10m0 -10l-10 10")
		s.Put("text", "lost", "class", "lostword", "x", xe+dir*12, "y", ye+4, "text-anchor", anchor(dir))
	} else {
		angle := math.Atan2(float64(y1-y0), float64(x1-x0)) * 180 / math.Pi
		path(s, "arrow", "M", x0, y0, "L", x1-dir*7, y1-int(math.Round(slope*float64(dir*7))))
		s.Put("path", "", "class", "head", "d", "M0 0l-9 -4.5v9z", "transform", turned(x1-dir, float64(y1), angle))
	}
	// The text is set along the line, rotated as for a line that is read from left to right.
	x, at := a.textX(), "middle"
	if a.crossing {
		x, at = x0+dir*16, anchor(dir)
	}
	name := a.Name
	if a.Again {
		name += " again"
	}
	s.Open("g", "transform", turned(x, a.at(x), math.Atan(slope)*180/math.Pi))
	over, under := a.lines()
	s.Open("text", "y", -5-textLine*len(over), "text-anchor", at)
	s.Put("tspan", name, "class", "name")
	if a.Fields != "" {
		s.Text(" " + a.Fields)
	}
	s.Close()
	more := func(y int, text string) { s.Put("text", text, "class", "more", "y", y, "text-anchor", at) }
	for i, text := range over {
		more(-5-textLine*(len(over)-1-i), text)
	}
	if under != "" {
		more(textLine-2, under)
	}
	s.Close()
	s.Close()
}

// turned returns the transformation that moves to a point and rotates by degrees.
func turned(x int, y, angle float64) string {
	return fmt.Sprintf("translate(%d %s) rotate(%s)", x, svg.Value(y), svg.Value(angle))
}

// lines returns the position of the minor fields: below the line, or between name and line for arrows that cross, where
// there is less space.
func (a *arrow) lines() (over []string, under string) {
	if a.crossing {
		return a.More, ""
	}
	return nil, strings.Join(a.More, ", ")
}

// anchor returns the alignment of a text that begins at a life line and extends to the middle.
func anchor(dir int) string {
	if dir > 0 {
		return "start"
	}
	return "end"
}

func (c *chip) draw(s *svg.Picture) {
	s.Open("g", "class", "chip "+kindClasses[c.Kind])
	s.Put("rect", "", "x", c.x, "y", c.y-8, "width", c.w, "height", 17, "rx", 4)
	s.Put("text", c.Text, "x", c.x+c.w/2, "y", c.y+5, "text-anchor", "middle")
	s.Close()
}

// legend explains the kinds of notes that the chart has.
func legend(s *svg.Picture, y int, p *plan) {
	x := timeX + 6
	for k := range kinds {
		if !slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Kind == k }) {
			continue
		}
		w := 2*chipPad + textWidth(kindNames[k])
		(&chip{Note: &Note{Kind: k, Text: kindNames[k]}, x: x, y: y, w: w}).draw(s)
		x += w + 14
	}
	if slices.ContainsFunc(p.Messages, func(m Message) bool { return m.Alternate }) {
		s.Open("g", "class", "alt")
		path(s, "arrow", "M", x, y, "h34")
		s.Close()
		put(s, "time", x+42, y+4, "start", "by the second ports")
	}
}
