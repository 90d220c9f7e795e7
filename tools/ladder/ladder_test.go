package ladder_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/modroot"
	"ciddk/tools/ladder"
)

var update = flag.Bool("update", false, "write the charts of docs/connections.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCharts compares the committed charts with the code's behaviour. With -update, it writes them.
func TestCharts(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	for _, s := range scenes {
		t.Run(s.file, func(t *testing.T) {
			c, _, _ := run(t, s)
			file := filepath.Join(root, "docs", s.file)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(ladder.SVG(c)), 0o644))
				return
			}
			have, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, ladder.SVG(c), strings.ReplaceAll(string(have), "\r\n", "\n"),
				"%s is stale: run go generate ./tools/ladder", s.file)
		})
	}
}

// Runs are the same each time.
func TestDeterminism(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.file, func(t *testing.T) {
			first, _, _ := run(t, s)
			for range 5 {
				again, _, _ := run(t, s)
				require.Equal(t, first, again)
			}
			require.Equal(t, ladder.SVG(first), ladder.SVG(first))
		})
	}
}

// A picture is the content of an SVG as a reader sees it.
type picture struct {
	messages []string // text at each position
	lost     int
	texts    []string
}

func read(t *testing.T, svg string) (p picture) {
	d := xml.NewDecoder(strings.NewReader(svg))
	depth, from := 0, -1 // of the enclosing groups, and of the current message
	var text strings.Builder
	for {
		k, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		require.NoError(t, err)
		switch k := k.(type) {
		case xml.StartElement:
			if k.Name.Local == "g" {
				for _, a := range k.Attr {
					if a.Name.Local == "class" && strings.HasPrefix(a.Value, "msg") {
						from = depth
						text.Reset()
						if strings.Contains(a.Value, "lost") {
							p.lost++
						}
					}
				}
				depth++
			}
		case xml.EndElement:
			if k.Name.Local == "g" {
				if depth--; depth == from {
					p.messages, from = append(p.messages, text.String()), -1
				}
			}
		case xml.CharData:
			if s := string(k); strings.TrimSpace(s) != "" {
				p.texts = append(p.texts, s)
				text.WriteString(s)
			}
		}
	}
}

// The picture shows every packet of the network with its description. Exactly the lost packets are marked as lost.
// Every note is shown, and no two texts overlap.
func TestComplete(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.file, func(t *testing.T) {
			c, sent, lost := run(t, s)
			p := read(t, ladder.SVG(c))
			assert.Len(t, p.messages, sent)
			assert.Equal(t, s.lost, lost)
			assert.Equal(t, lost, p.lost)
			for i, m := range c.Messages {
				for _, want := range append([]string{m.Name, m.Fields}, m.More...) {
					assert.Contains(t, p.messages[i], want)
				}
				assert.Equal(t, m.Lost, strings.HasPrefix(p.messages[i], "lost"), p.messages[i])
				assert.Equal(t, m.Again, strings.Contains(p.messages[i], " again"), p.messages[i])
				if !m.Lost {
					assert.Equal(t, latency, m.Arrived-m.Sent)
				}
			}
			for _, n := range c.Notes {
				assert.Contains(t, p.texts, n.Text)
			}
			assert.Empty(t, ladder.Flaws(c))
		})
	}
}

// The pictures show the scenes that they are named for.
func TestStories(t *testing.T) {
	for _, s := range scenes {
		c, _, _ := run(t, s)
		var got []string
		for _, m := range c.Messages {
			x := m.Name
			if m.Again {
				x += " again"
			}
			if m.Lost {
				x += " lost"
			}
			if m.From == ladder.Right {
				x = "<" + x
			}
			got = append(got, x)
		}
		assert.Equal(t, s.story, strings.Join(got, ", "), s.file)
	}
}
