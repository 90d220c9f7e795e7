package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOrders measures each package that has a declared order.
func TestOrders(t *testing.T) {
	orders, err := filepath.Glob("orders/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, orders)
	for _, name := range orders {
		folder := strings.TrimSuffix(filepath.Base(name), ".txt")
		t.Run(folder, func(t *testing.T) {
			g, o, err := measure(folder)
			require.NoError(t, err)
			require.NotEmpty(t, g, "no arrows found")
			up := g.up(o)
			var list []string
			for _, a := range up {
				list = append(list, g.describe(a))
			}
			t.Log(g.summary(o))
			assert.LessOrEqual(t, percent(len(up), len(g)), o.maxUp, "calls point up (move the function, or pass an "+
				"interface "+
				"down):\n%s",
				strings.Join(list, "\n"))
		})
	}
}

// TestArrows counts in a module made for it: calls of functions and methods, method values, interfaces, generic types
// and a sub-package.
func TestArrows(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"p/low.go": `package p

type low struct{ top sink }

type sink interface{ take() }

func (l *low) run() { l.top.take() }

func (l *low) again() { l.run() }
`,
		"p/high.go": `package p

import "m/p/q"

type high struct{ low low }

func (h *high) take() { h.low.run(); h.low.run(); f := h.low.again; f() }

func start() { var b q.Box[int]; b.Put(1); helper() }
`,
		"p/wrong.go": `package p

func helper() {}

func early() { start() }
`,
		"p/q/box.go":     "package q\n\ntype Box[T any] struct{ v T }\n\nfunc (b *Box[T]) Put(v T) { b.v = v }\n",
		"p/high_test.go": "package p\n\nfunc inTest() { early() }\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	pkgs, err := load(dir, "p")
	require.NoError(t, err)
	g := arrowsOf(pkgs)
	assert.Equal(t, graph{
		{"high.go", "low.go"}:   {"low.again", "low.run"},
		{"high.go", "q/box.go"}: {"Box.Put"},
		{"high.go", "wrong.go"}: {"helper"},
		{"wrong.go", "high.go"}: {"start"},
	}, g)

	o, err := parseOrder(strings.NewReader("max-up: 20%\nq/box.go\nlow.go\nwrong.go\nhigh.go\n"))
	require.NoError(t, err)
	assert.Equal(t, []arrow{{"wrong.go", "high.go"}}, g.up(o))
	assert.Equal(t, "4 files, 4 arrows, 1 point up (25.0%, limit 20%)", g.summary(o))
}

func TestParseOrder(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no limit":     {"a.go\n", "max-up: is missing"},
		"limit":        {"max-up: many\n", `max-up is "many"`},
		"out of range": {"max-up: 101%\n", "want 0% to 100%"},
		"twice":        {"max-up: 1%\na.go\na.go\n", "line 3: a.go is listed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseOrder(strings.NewReader(tt.text))
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOrderHoldsAllFiles(t *testing.T) {
	o, err := parseOrder(strings.NewReader("# comment\nmax-up: 1.5%\n\na.go\nb.go\n"))
	require.NoError(t, err)
	assert.Equal(t, 1.5, o.maxUp)
	assert.NoError(t, o.check([]string{"b.go", "a.go"}))
	assert.ErrorContains(t, o.check([]string{"a.go", "b.go", "c.go"}), "not in the list")
	assert.ErrorContains(t, o.check([]string{"a.go"}), "b.go is in the list and does not exist")
}
