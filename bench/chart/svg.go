package chart

import (
	"math"

	"ciddk/internal/svg"
)

// canvas draws with coordinates from the left and from the top, rounded to a tenth.
type canvas struct{ *svg.Picture }

func round(v float64) float64 { return math.Round(v*10) / 10 }

func (c canvas) rect(x, y, w, h float64, fill string) {
	c.Put("rect", "", "x", round(x), "y", round(y), "width", round(w), "height", round(h), "fill", fill)
}

func (c canvas) line(x1, y1, x2, y2 float64, class string) {
	c.Put("path", "", "class", class, "d", svg.Path("M", round(x1), round(y1), "L", round(x2), round(y2)))
}

func (c canvas) text(x, y, size float64, anchor, text string) {
	c.Put("text", text, "x", round(x), "y", round(y), "font-size", size, "text-anchor", anchor)
}

// vertical draws text that reads upwards, centred at its coordinates.
func (c canvas) vertical(x, y, size float64, text string) {
	c.Put("text", text, "font-size", size, "text-anchor", "middle",
		"transform", "translate("+svg.Path(round(x), round(y))+") rotate(-90)")
}

// textWidth returns the approximate width of a text. Letters of these fonts are slightly wider than half their height.
func textWidth(text string, size float64) float64 { return 0.55 * size * float64(len([]rune(text))) }
