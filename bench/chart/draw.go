package chart

import (
	"fmt"
	"math"
	"strconv"

	"ciddk/bench"
	"ciddk/internal/svg"
)

// Sizes of a picture, in points: about the width of a text page.
const (
	width       = 672
	panelHeight = 176
	headHeight  = 48
	margin      = 8
	columns     = 2
)

// Margins around the bars of a panel.
const (
	axisWidth  = 44 // left of the bars: the axis, its figures and its name
	axisHeight = 30 // below the bars: the names of the groups and of the panel
	panelGap   = 14
	headRoom   = 1.1 // above the highest bar, for its figure
)

// titles are the titles of the pictures.
var titles = map[bench.Table]string{
	bench.Bandwidth: "Bandwidth by message size, best round: more is better",
	bench.Latency:   "Latency by message size, median of the best round: less is better",
}

// Colours of the series, distinguishable with colour blindness (from Okabe and Ito's set). A yardstick has the same
// colour in all pictures.
var (
	oursColour = "#0072B2"
	colours    = map[string]string{"rxe": "#D55E00", "UDP": "#9A9A9A", "UDP in trains": "#56B4E9", "TCP": "#E69F00"}
	others     = []string{"#009E73", "#CC79A7", "#F0E442"}
)

// Classes of lines: axes and what helps the eye.
const (
	ink  = "ink"
	rule = "rule"

	style = "path{stroke-width:.5}.ink{stroke:#000}.rule{stroke:#ddd}\n"
	dark  = ".ink{stroke:#8b949e}.rule{stroke:#30363d}\n"
)

func colourOf(series []string, i int) string {
	if i == 0 {
		return oursColour
	}
	if c, ok := colours[series[i]]; ok {
		return c
	}
	return others[i%len(others)]
}

// Draw returns the picture of a table, bench.Bandwidth or bench.Latency, as SVG: on white, or on black for readers who
// prefer dark pages. Equal results produce equal bytes. It fails if results has none of the table, or one without
// figures.
func Draw(t bench.Table, results []bench.Result) ([]byte, error) {
	d, err := collect(t, results)
	if err != nil {
		return nil, err
	}
	return d.draw(t), nil
}

func (d data) draw(t bench.Table) []byte {
	rows := (len(d.panels) + columns - 1) / columns
	height := float64(headHeight + rows*panelHeight)
	s := canvas{svg.New(svg.Head{Width: width, Height: height, Label: titles[t], Style: style, Dark: dark})}
	d.head(s, titles[t])
	each := (width - 2*margin - (columns-1)*panelGap) / float64(columns)
	for i, p := range d.panels {
		x := margin + float64(i%columns)*(each+panelGap)
		y := headHeight + float64(i/columns)*panelHeight
		d.panel(s, t, p, area{x, y, each, panelHeight - margin})
	}
	return s.Bytes()
}

// head draws the title and, below it, the legend.
func (d data) head(s canvas, title string) {
	const square, gap, size = 8, 4, 9
	s.text(margin, margin+12, 12, "start", title)
	x, y := float64(margin), float64(headHeight-2*gap-square)
	for i, name := range d.series {
		s.rect(x, y, square, square, colourOf(d.series, i))
		x += square + gap
		s.text(x, y+square, size, "start", name)
		x += textWidth(name, size) + 4*gap
	}
}

// An area is a rectangle of the picture.
type area struct{ x, y, w, h float64 }

// panel draws the bars of one message size with their axes.
func (d data) panel(s canvas, t bench.Table, p panel, a area) {
	u := unitOf(t, p.most())
	most := p.most() / u.size * headRoom
	left, bottom := a.x+axisWidth, a.y+a.h-axisHeight
	plotWidth, plotHeight := a.w-axisWidth, a.h-axisHeight
	at := func(v float64) float64 { return bottom - v/most*plotHeight }

	s.text(left+plotWidth/2, a.y+a.h-4, 9, "middle", "messages of "+bench.SizeText(p.size))
	each := plotWidth / float64(len(p.groups))
	for i, g := range p.groups {
		s.text(left+(float64(i)+0.5)*each, bottom+11, 8, "middle", g.name)
	}
	s.vertical(a.x+9, bottom-plotHeight/2, 9, fmt.Sprintf("%v, %s", t, u.name))
	for _, k := range ticks(most) {
		s.line(left, at(k.value), left+plotWidth, at(k.value), rule)
		s.text(left-3, at(k.value)+3, 8, "end", k.label)
	}
	s.line(left, bottom, left, at(most), ink)
	s.line(left, bottom, left+plotWidth, bottom, ink)
	for i, g := range p.groups {
		d.bars(s, g, u.size, left+float64(i)*each, each, at)
	}
}

// bars draws the bars of a group, each with its figure on top.
func (d data) bars(s canvas, g group, unit, left, room float64, at func(float64) float64) {
	const share = 0.88 // fraction of the available width
	each := room * share / float64(len(d.series))
	left += room * (1 - share) / 2
	for k, v := range g.bars {
		if v == 0 {
			continue
		}
		v /= unit
		x := left + float64(k)*each
		s.rect(x, at(v), each-1, at(0)-at(v), colourOf(d.series, k))
		s.text(x+(each-1)/2, at(v)-1, 7, "middle", label(v))
	}
}

// A tick is a mark on an axis.
type tick struct {
	value float64
	label string
}

// ticks returns five to ten multiples of 1, 2 or 5 times a power of ten, from 0 to most.
func ticks(most float64) []tick {
	step := math.Pow(10, math.Floor(math.Log10(most/4)))
	switch n := most / 4 / step; {
	case n >= 5:
		step *= 5
	case n >= 2:
		step *= 2
	}
	var l []tick
	for i := 0; float64(i)*step <= most; i++ {
		v := float64(i) * step
		l = append(l, tick{v, strconv.FormatFloat(v, 'g', 4, 64)})
	}
	return l
}

// label formats a figure as in the tables. Below 1, where the tables use a smaller unit, it has two digits.
func label(v float64) string {
	if v < 0.995 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return bench.Digits3(v)
}
