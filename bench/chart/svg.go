package chart

import (
	"bytes"
	"fmt"
	"html"
	"strconv"
)

// svg builds a picture. Coordinates are in points, from the left and from the top.
type svg struct{ b bytes.Buffer }

// fonts have about the same widths, and one of them is installed on nearly every system.
const fonts = "Liberation Sans,Arial,Helvetica,sans-serif"

// darkStyle replaces the colours of paper, text and lines where the reader prefers a dark page.
const darkStyle = "<style>@media (prefers-color-scheme: dark){" +
	`rect[fill="` + paper + `"]{fill:#0D1117}text{fill:#E6EDF3}` +
	`path[stroke="` + ink + `"]{stroke:#8B949E}path[stroke="` + rule + `"]{stroke:#30363D}` +
	"}</style>\n"

func newSVG(width, height float64) *svg {
	s := new(svg)
	fmt.Fprintf(&s.b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%spt" height="%spt" viewBox="0 0 %s %s" font-family="%s">`+"\n",
		number(width), number(height), number(width), number(height), fonts)
	s.b.WriteString(darkStyle)
	return s
}

// bytes completes the picture and returns it.
func (s *svg) bytes() []byte {
	s.b.WriteString("</svg>\n")
	return s.b.Bytes()
}

// number formats a number without trailing zeros.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// round formats a coordinate to a tenth of a point.
func round(v float64) string { return number(float64(int(v*10+0.5)) / 10) }

func (s *svg) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&s.b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", round(x), round(y),
		round(w), round(h), fill)
}

func (s *svg) line(x1, y1, x2, y2 float64, stroke string) {
	fmt.Fprintf(&s.b, `<path d="M%s %sL%s %s" stroke="%s" stroke-width="0.5"/>`+"\n", round(x1), round(y1), round(x2),
		round(y2), stroke)
}

// An anchor is the part of a text that is placed at its coordinate.
type anchor string

const (
	start  anchor = "start"
	middle anchor = "middle"
	end    anchor = "end"
)

func (s *svg) text(x, y, size float64, a anchor, text string) {
	fmt.Fprintf(&s.b, `<text x="%s" y="%s" font-size="%s" text-anchor="%s">%s</text>`+"\n", round(x), round(y),
		number(size), a, html.EscapeString(text))
}

// vertical draws text that reads upwards, centred at its coordinates.
func (s *svg) vertical(x, y, size float64, text string) {
	fmt.Fprintf(&s.b, `<text font-size="%s" text-anchor="middle" transform="translate(%s %s) rotate(-90)">%s</text>`+
		"\n",
		number(size), round(x), round(y),
		html.EscapeString(text))
}

// textWidth returns the approximate width of a text. Letters of these fonts are slightly wider than half their height.
func textWidth(text string, size float64) float64 { return 0.55 * size * float64(len([]rune(text))) }
