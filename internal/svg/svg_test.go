package svg

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// decode returns the elements and their text in order, from bytes that must be well-formed XML.
func decode(t require.TestingT, b []byte) (elements []xml.StartElement, text string) {
	for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, text
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			elements = append(elements, e.Copy())
		case xml.CharData:
			text += string(e)
		}
	}
}

func TestPicture(t *testing.T) {
	draw := func(h Head) []byte {
		p := New(h)
		p.Open("g", "class", "a")
		p.Put("path", "", "d", Path("M", 1, 2.5, "V", 3.14159, "h4"))
		p.Put("text", "5 < 6", "x", -0.001, "y", 7)
		return p.Bytes() // ends the element that is open
	}
	b := draw(Head{Width: 10, Height: 2.5, Label: `"x" & y`, Note: "by hand", Style: ".a{x:y}\n", Dark: ".a{x:z}\n"})
	elements, _ := decode(t, b)
	var names []string
	for _, e := range elements {
		names = append(names, e.Name.Local)
	}
	assert.Equal(t, []string{"svg", "style", "rect", "g", "path", "text"}, names)
	for _, want := range []string{`viewBox="0 0 10 2.5"`, "<!-- by hand -->", "@media(prefers-color-scheme:dark)",
		`<rect class="paper" width="10" height="2.5"/>`, `d="M1 2.5V3.14h4"`, `<text x="0" y="7">5 &lt; 6</text>`} {
		assert.Contains(t, string(b), want)
	}
	plain := string(draw(Head{Width: 10, Height: 2.5}))
	for _, not := range []string{"<!--", "@media", "aria-label"} {
		assert.NotContains(t, plain, not)
	}
}

// TestAnyText draws texts and attributes with any characters that XML has.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		allowed := rapid.StringMatching(`[ -~ä…<>&"']*`)
		text, value := allowed.Draw(t, "text"), allowed.Draw(t, "value")
		x := rapid.Float64Range(-1e6, 1e6).Draw(t, "x")
		p := New(Head{Width: 1, Height: 1})
		p.Open("g")
		p.Put("text", text, "class", value, "x", x)
		elements, all := decode(t, p.Bytes())
		last := elements[len(elements)-1]
		require.Equal(t, value, last.Attr[0].Value)
		require.NotContains(t, last.Attr[1].Value, "e")
		require.Contains(t, all, text)
	})
}
