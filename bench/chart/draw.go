package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"ciddk/bench"
)

// Sizes of a picture, in points: about as wide as the text of a page.
const (
	width       = 672
	panelHeight = 176
	headHeight  = 48
	margin      = 8
	columns     = 2
)

// titles say what is drawn, and what is better.
var titles = map[bench.Table]string{
	bench.Bandwidth: "Bandwidth by message size, best round: more is better",
	bench.Latency:   "Latency by message size, median of the best round: less is better",
}

// colours of the series, told apart by those who see few colours, too (a choice of Okabe and Ito's set). Yardsticks keep theirs from picture to picture.
var (
	oursColour = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	colours    = map[string]color.Color{
		"rxe":           color.RGBA{0xd5, 0x5e, 0x00, 0xff},
		"UDP":           color.RGBA{0x9a, 0x9a, 0x9a, 0xff},
		"UDP in trains": color.RGBA{0x56, 0xb4, 0xe9, 0xff},
		"TCP":           color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	}
	others = []color.Color{color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0xf0, 0xe4, 0x42, 0xff}}
	rule   = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

func colourOf(series []string, i int) color.Color {
	if i == 0 {
		return oursColour
	}
	if c, ok := colours[series[i]]; ok {
		return c
	}
	return others[i%len(others)]
}

// Draw gives the picture of a table, bench.Bandwidth or bench.Latency, as SVG on white, from those of the results that are of that table. The same results
// give the same bytes. Errors: no result of that table, or one without figures.
func Draw(t bench.Table, results []bench.Result) ([]byte, error) {
	d, err := collect(t, results)
	if err != nil {
		return nil, err
	}
	return d.draw(t)
}

func (d data) draw(t bench.Table) ([]byte, error) {
	rows := (len(d.panels) + columns - 1) / columns
	height := vg.Length(headHeight + rows*panelHeight)
	svg := vgsvg.NewWith(vgsvg.UseWH(width, height))
	all := draw.New(svg)
	all.FillPolygon(color.White, corners(all.Rectangle))
	d.head(draw.Crop(all, margin, -margin, height-headHeight, -margin), titles[t])

	plots := make([][]*plot.Plot, rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, columns)
	}
	for i, p := range d.panels {
		plots[i/columns][i%columns] = d.plot(t, p)
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 12, PadY: 10}
	body := draw.Crop(all, margin, -margin, margin, -headHeight)
	for i, row := range plot.Align(plots, tiles, body) {
		for k, c := range row {
			if p := plots[i][k]; p != nil {
				p.Draw(c)
			}
		}
	}
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte(fontDrawn), []byte(fontWanted)), nil
}

// The library names the one font that it measures text with. Where that is not installed, viewers would take one with serifs, of other widths.
const (
	fontDrawn  = "font-family:Liberation Sans;font-variant:normal;"
	fontWanted = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

// style is of text that is size points high.
func style(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	f := plot.DefaultFont
	f.Variant, f.Size = "Sans", size
	return text.Style{Color: color.Black, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// head writes the title, and below it the legend.
func (d data) head(c draw.Canvas, title string) {
	const square, gap = 8, 4
	heading := style(12, draw.XLeft, draw.YTop)
	c.FillText(heading, vg.Point{X: c.Min.X, Y: c.Max.Y}, title)
	entry := style(9, draw.XLeft, draw.YBottom)
	x, y := c.Min.X, c.Min.Y+2*gap
	for i, name := range d.series {
		c.FillPolygon(colourOf(d.series, i), corners(vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + square, Y: y + square}}))
		x += square + gap
		c.FillText(entry, vg.Point{X: x, Y: y}, name)
		x += entry.Width(name) + 4*gap
	}
}

// plot is one panel.
func (d data) plot(t bench.Table, p panel) *plot.Plot {
	u := unitOf(t, p.most())
	pl := plot.New()
	pl.X.Label.TextStyle.Font.Variant, pl.Y.Label.TextStyle.Font.Variant = "Sans", "Sans"
	pl.X.Label.TextStyle.Font.Size, pl.Y.Label.TextStyle.Font.Size = 9, 9
	pl.X.Tick.Label.Font.Variant, pl.Y.Tick.Label.Font.Variant = "Sans", "Sans"
	pl.X.Tick.Label.Font.Size, pl.Y.Tick.Label.Font.Size = 8, 8
	pl.X.Label.Text = "messages of " + bench.SizeText(p.size)
	pl.Y.Label.Text = fmt.Sprintf("%v, %s", t, u.name)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, rule
	names := make([]string, len(p.groups))
	for i, g := range p.groups {
		names[i] = g.name
	}
	pl.Add(grid, bars{d.series, p.groups, u.size})
	pl.NominalX(names...)
	pl.X.Min, pl.X.Max = -0.5, float64(len(names))-0.5
	pl.Y.Min, pl.Y.Max = 0, p.most()/u.size*1.1 // with room for the figure on the highest bar
	pl.Y.Padding, pl.X.Label.Padding = 0, 3
	pl.Y.Tick.Marker = plot.TickerFunc(ticks)
	return pl
}

// ticks are multiples of 1, 2 or 5 times a power of ten, from 0 on, five to ten of them. The library's own may be two, at multiples of three.
func ticks(_, most float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(most/4)))
	switch n := most / 4 / step; {
	case n >= 5:
		step *= 5
	case n >= 2:
		step *= 2
	}
	var l []plot.Tick
	for i := 0; float64(i)*step <= most; i++ {
		v := float64(i) * step
		l = append(l, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 4, 64)})
	}
	return l
}

// bars are those of a panel, each with its figure on top. Group i is centred at x = i.
type bars struct {
	series []string
	groups []group
	unit   float64
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	const share = 0.88 // of the room for a group
	x, y := p.Transforms(&c)
	figure := style(7, draw.XCenter, draw.YBottom)
	each := share / float64(len(b.series))
	for i, g := range b.groups {
		for k, v := range g.bars {
			if v == 0 {
				continue
			}
			v /= b.unit
			left := float64(i) - share/2 + float64(k)*each
			r := vg.Rectangle{Min: vg.Point{X: x(left), Y: y(0)}, Max: vg.Point{X: x(left+each) - 1, Y: y(v)}}
			c.FillPolygon(colourOf(b.series, k), corners(r))
			c.FillText(figure, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: r.Max.Y + 1}, label(v))
		}
	}
}

// label is a figure as the tables have it; below 1, where they would take a smaller unit, with two digits that say something.
func label(v float64) string {
	if v < 0.995 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return bench.Digits3(v)
}

func corners(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Min.X, Y: r.Max.Y}, r.Max, {X: r.Max.X, Y: r.Min.Y}}
}
