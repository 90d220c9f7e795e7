// Package svg writes pictures as SVG text: elements with attributes, escaped, in the order of the calls. Equal calls
// produce equal bytes. A picture has a background of its own, because the page around it may be light or dark.
package svg

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
)

// Head describes a picture.
type Head struct {
	Width, Height float64 // the size of the coordinate system; viewers scale it
	Label         string  // what the picture shows, for readers who do not see it; "" = none
	Note          string  // a comment, such as the command that writes the picture; "" = none
	Style         string  // rules of a style sheet
	Dark          string  // rules for readers who prefer dark pages; "" = the picture is light for all
}

// Colours of text and background, on light and on dark pages.
const (
	light = "text{fill:#1b1f24}.paper{fill:#fff}\n"
	dark  = "text{fill:#e6edf3}.paper{fill:#0d1117}\n"
	// fonts have about the same widths, and one of them is installed on nearly every system.
	fonts = "system-ui,-apple-system,Segoe UI,Liberation Sans,DejaVu Sans,Arial,sans-serif"
)

// Picture is a picture in the making.
type Picture struct {
	b    bytes.Buffer
	open []string
}

// New begins a picture with its style sheet and its background.
func New(h Head) *Picture {
	p := new(Picture)
	attrs := []any{"xmlns", "http://www.w3.org/2000/svg", "viewBox", "0 0 " + number(h.Width) + " " + number(h.Height),
		"font-family", fonts}
	if h.Label != "" {
		attrs = append(attrs, "role", "img", "aria-label", h.Label)
	}
	p.Open("svg", attrs...)
	if h.Note != "" {
		fmt.Fprintf(&p.b, "\n<!-- %s -->", h.Note)
	}
	p.b.WriteString("\n<style>\n" + light + h.Style)
	if h.Dark != "" {
		p.b.WriteString("@media(prefers-color-scheme:dark){\n" + dark + h.Dark + "}\n")
	}
	p.b.WriteString("</style>\n")
	p.Put("rect", "", "class", "paper", "width", h.Width, "height", h.Height)
	return p
}

// Open begins an element. Attributes are names and values in turn. A value is text, an int or a float64.
func (p *Picture) Open(name string, attrs ...any) {
	p.start(name, attrs)
	p.b.WriteByte('>')
	p.open = append(p.open, name)
}

// Close ends the element that was opened last.
func (p *Picture) Close() {
	last := len(p.open) - 1
	p.b.WriteString("</" + p.open[last] + ">")
	p.open = p.open[:last]
	p.newline()
}

// Put writes a whole element with its text.
func (p *Picture) Put(name, text string, attrs ...any) {
	if text == "" {
		p.start(name, attrs)
		p.b.WriteString("/>")
		p.newline()
		return
	}
	p.Open(name, attrs...)
	p.Text(text)
	p.Close()
}

// Text writes text into the open element.
func (p *Picture) Text(text string) { p.b.WriteString(html.EscapeString(text)) }

// Bytes ends the picture and returns it.
func (p *Picture) Bytes() []byte {
	for len(p.open) > 0 {
		p.Close()
	}
	return p.b.Bytes()
}

func (p *Picture) start(name string, attrs []any) {
	p.b.WriteString("<" + name)
	for i := 0; i+1 < len(attrs); i += 2 {
		fmt.Fprintf(&p.b, ` %s="%s"`, attrs[i], html.EscapeString(Value(attrs[i+1])))
	}
}

// newline separates the elements of the root, and ends the picture.
func (p *Picture) newline() {
	if len(p.open) <= 1 {
		p.b.WriteByte('\n')
	}
}

// Value formats the value of an attribute. Coordinates have at most two decimals.
func Value(v any) string {
	if f, ok := v.(float64); ok {
		return number(f)
	}
	return fmt.Sprint(v)
}

func number(f float64) string {
	return strconv.FormatFloat(math.Round(f*100)/100+0, 'f', -1, 64) // +0: no "-0"
}

// Path returns the data of a path: letters and coordinates in turn, as in Path("M", 1, 2.5, "V", 3).
func Path(parts ...any) string {
	var b bytes.Buffer
	after := false // a number
	for _, v := range parts {
		_, isLetter := v.(string)
		if after && !isLetter {
			b.WriteByte(' ')
		}
		b.WriteString(Value(v))
		after = !isLetter
	}
	return b.String()
}
