package ladder

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// kindNames are the names of notes in the legend; kindClasses are their classes in the style sheet.
var (
	kindNames = [kinds]string{Event: "event", Call: "call of the consumer", ConnState: "state of the connection",
		QPState: "state of the QP"}
	kindClasses = [kinds]string{Event: "ev", Call: "call", ConnState: "cm", QPState: "qp"}
)

// style is dark on white, so that the chart looks the same on every page.
const style = `<style>
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",Arial,sans-serif;font-size:11.5px;fill:#1b1f24}
.title{font-size:15px;font-weight:600}.end{font-size:13px;font-weight:600}.time{font-size:11px;fill:#57606a}.more{font-size:11px;fill:#57606a}
.name{font-weight:700}.life{stroke:#57606a;stroke-width:1.5}.gap{stroke:#8c959f;stroke-width:1.5;stroke-dasharray:1.5 4}
.row{stroke:#e3e7eb;stroke-width:1}
.arrow{stroke:#1b1f24;stroke-width:1.4}.head{fill:#1b1f24}.alt .arrow{stroke:#7a5bd0;stroke-dasharray:7 3}.alt .head{fill:#7a5bd0}
.lost .arrow,.cross{stroke:#c62828;stroke-width:1.6;fill:none}.lost .name,.lostword{fill:#c62828;font-weight:700}
.chip rect{stroke-width:1}.ev rect{fill:#fff6e0;stroke:#d9b45b}.call rect{fill:#fff;stroke:#fff}.call text{font-style:italic}
.cm rect{fill:#eaf7ee;stroke:#7fbf95}.qp rect{fill:#eef4ff;stroke:#8fb0ea}
</style>
`

// lostPart is the drawn part of a lost packet's arrow, in percent.
const lostPart = 80

// SVG draws a chart. Equal charts produce equal text.
func SVG(c *Chart) string {
	p := layout(c)
	h := p.height + legendGap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		width,
		h, html.EscapeString(c.Title))
	b.WriteString("<!-- Written by internal/ladder from a run: go generate ./internal/ladder -->\n" + style)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, h)
	put(&b, "title", width/2, 20, "middle", c.Title)
	put(&b, "end", leftX, 44, "middle", c.Ends[Left])
	put(&b, "end", rightX, 44, "middle", c.Ends[Right])
	put(&b, "time", timeX, 44, "end", "ms")
	p.lines(&b)
	for _, a := range p.arrows {
		a.draw(&b)
	}
	for _, n := range p.chips {
		n.draw(&b)
	}
	legend(&b, p.height+legendGap/2, p)
	b.WriteString("</svg>\n")
	return b.String()
}

func put(b *strings.Builder, class string, x, y int, anchor, text string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor,
		html.EscapeString(text))
}

// lines draws the time axis and the life lines.
func (p *plan) lines(b *strings.Builder) {
	for _, r := range p.rows {
		fmt.Fprintf(b, `<path class="row" d="M%d %dH%d"/>`, timeX+6, r.y, width-10)
		put(b, "time", timeX, r.y+4, "end", stamp(r.at))
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
			fmt.Fprintf(b, `<path class="life" d="M%d %dV%d"/><path class="gap" d="M%d %dV%d"/>`+"\n", x, y,
				from, x, from+2, to)
			y = to
		}
		fmt.Fprintf(b, `<path class="life" d="M%d %dV%d"/>`+"\n", x, y, p.height-12)
	}
}

// draw draws the arrow with its text along it.
func (a *arrow) draw(b *strings.Builder) {
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
	fmt.Fprintf(b, `<g class="%s">`, class)
	if a.Lost {
		xe := x0 + dir*(rightX-leftX)*lostPart/100
		ye := a.at(xe)
		fmt.Fprintf(b, `<path class="arrow" d="M%d %dL%d %.1f"/><path class="cross" d="M%d %.1fl10 10m0 -10l-10 10"/>`,
			x0,
			y0, xe, ye, xe-5, ye-5)
		fmt.Fprintf(b, `<text class="lostword" x="%d" y="%.1f" text-anchor="%s">lost</text>`, xe+dir*12,
			ye+4, anchor(dir))
	} else {
		angle := math.Atan2(float64(y1-y0), float64(x1-x0)) * 180 / math.Pi
		fmt.Fprintf(b, `<path class="arrow" d="M%d %dL%d %d"/>`, x0, y0, x1-dir*7,
			y1-int(math.Round(slope*float64(dir*7))))
		fmt.Fprintf(b, `<path class="head" d="M0 0l-9 -4.5v9z" transform="translate(%d %d) rotate(%.2f)"/>`,
			x1-dir, y1, angle)
	}
	// The text is set along the line, rotated as for a line that is read from left to right.
	turn := math.Atan(slope) * 180 / math.Pi
	x, at := a.textX(), "middle"
	if a.crossing {
		x, at = x0+dir*16, anchor(dir)
	}
	y := a.at(x)
	name := a.Name
	if a.Again {
		name += " again"
	}
	fmt.Fprintf(b, `<g transform="translate(%d %.1f) rotate(%.2f)">`, x, y, turn)
	over, under := a.lines()
	fmt.Fprintf(b, `<text y="%d" text-anchor="%s"><tspan class="name">%s</tspan>`, -5-textLine*len(over), at,
		html.EscapeString(name))
	if a.Fields != "" {
		b.WriteString(" " + html.EscapeString(a.Fields))
	}
	b.WriteString("</text>")
	for i, s := range over {
		fmt.Fprintf(b, `<text class="more" y="%d" text-anchor="%s">%s</text>`, -5-textLine*(len(over)-1-i), at,
			html.EscapeString(s))
	}
	if under != "" {
		fmt.Fprintf(b, `<text class="more" y="%d" text-anchor="%s">%s</text>`, textLine-2, at, html.EscapeString(under))
	}
	b.WriteString("</g></g>\n")
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

func (c *chip) draw(b *strings.Builder) {
	fmt.Fprintf(b, `<g class="chip %s"><rect x="%d" y="%d" width="%d" height="17" rx="4"/>`, kindClasses[c.Kind],
		c.x, c.y-8, c.w)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text></g>`+"\n", c.x+c.w/2, c.y+5,
		html.EscapeString(c.Text))
}

// legend explains the kinds of notes that the chart has.
func legend(b *strings.Builder, y int, p *plan) {
	x := timeX + 6
	for k := range kinds {
		if !slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Kind == k }) {
			continue
		}
		w := 2*chipPad + textWidth(kindNames[k])
		(&chip{Note: &Note{Kind: k, Text: kindNames[k]}, x: x, y: y, w: w}).draw(b)
		x += w + 14
	}
	if slices.ContainsFunc(p.Messages, func(m Message) bool { return m.Alternate }) {
		fmt.Fprintf(b, `<g class="alt"><path class="arrow" d="M%d %dh34"/></g>`, x, y)
		put(b, "time", x+42, y+4, "start", "by the second ports")
	}
}
