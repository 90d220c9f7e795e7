package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

func TestListingsAreFresh(t *testing.T) {
	t.Parallel()
	root, err := modroot.Find()
	require.NoError(t, err)
	lists, err := listings(root)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, l := range lists {
		names[l.file()] = true
		have, err := os.ReadFile(filepath.Join(root, folder, l.file()))
		if err != nil {
			t.Errorf("%s: package %s has no listing: run go generate ./tools/apilist", l.file(), l.path)
			continue
		}
		for _, line := range difference(have, l.text()) {
			t.Errorf("%s/%s: %s", folder, l.file(), line)
		}
	}
	old, err := filepath.Glob(filepath.Join(root, folder, "*.txt"))
	require.NoError(t, err)
	for _, o := range old {
		assert.True(t, names[filepath.Base(o)], "%s: no such package", filepath.Base(o))
	}
	if t.Failed() {
		t.Log("the exported API has changed: run go generate ./tools/apilist, and read its diff before you commit " +
			"it; docs/compatibility.md")
	}
}

// TestCompatibilityPage compares the table of covered packages in docs/compatibility.md with the listings.
func TestCompatibilityPage(t *testing.T) {
	t.Parallel()
	root, err := modroot.Find()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "compatibility.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| packages | |\n")
	require.True(t, found, "the table of packages")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		packages := strings.Split(line, "|")[1]
		for i, p := range strings.Split(packages, "`") {
			if i%2 == 1 { // between backquotes
				rows = append(rows, p)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*.txt"))
	require.NoError(t, err)
	var listed []string
	for _, f := range files {
		listed = append(listed, strings.ReplaceAll(strings.TrimSuffix(filepath.Base(f), ".txt"), ".", "/"))
	}
	assert.ElementsMatch(t, listed, rows)
}

// difference returns the lines that only one of two listings has.
func difference(have, want []byte) (lines []string) {
	in := func(b []byte) map[string]bool {
		m := map[string]bool{}
		for l := range strings.Lines(string(b)) {
			m[strings.TrimSuffix(l, "\n")] = true
		}
		return m
	}
	if bytes.Equal(have, want) {
		return nil
	}
	old, now := in(have), in(want)
	for l := range strings.Lines(string(have)) {
		if l = strings.TrimSuffix(l, "\n"); !now[l] {
			lines = append(lines, "removed: "+l)
		}
	}
	for l := range strings.Lines(string(want)) {
		if l = strings.TrimSuffix(l, "\n"); !old[l] {
			lines = append(lines, "added: "+l)
		}
	}
	if lines == nil {
		lines = []string{"lines are out of order or doubled"}
	}
	return lines
}

const sample = `package sample

import "io"

const Limit Size = 1 << 4
const word = "unexported"

var Default, other = Size(2), 1

type Size uint8

func (Size) String() string { return "" }

type base struct{ Depth int }

func (*base) Close() error { return nil }

type Queue struct {
	base
	io.Reader
	Name string
	secret int
}

type Source interface {
	io.Reader
	Next(limit Size) (n int, err error)
	hidden()
}

type Number interface{ ~int | ~uint }

type List[T any] struct{ Items []T }

func (l *List[T]) Add(t T) {}

type Alias = Queue

func Make[T Number](n T, opts ...func(*Queue)) *Queue { return nil }
func local() {}
`

// exported imports packages of the standard library. Unlike the default importer, it works with -trimpath, too.
type exported struct{}

func (exported) Import(path string) (*types.Package, error) {
	packages, err := goList(".", path)
	if err != nil {
		return nil, err
	}
	return load(packages[0])
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "sample.go", sample, parser.SkipObjectResolution)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: exported{}}).Check("m/sample", fset, []*ast.File{f}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"const Limit Size = 16",
		"func Make[T Number](n T, opts ...func(*Queue)) *Queue",
		"method (*List) Add(t T)",
		"method (*Queue) Close() error",
		"method (Queue) Read(p []byte) (n int, err error)",
		"method (Size) String() string",
		"type Alias = Queue",
		"type List struct, Items []T",
		"type List[T any] struct",
		"type Number interface",
		"type Number interface, of ~int | ~uint",
		"type Queue struct",
		"type Queue struct, Depth int",
		"type Queue struct, Name string",
		"type Queue struct, embeds io.Reader",
		"type Queue struct, has unexported fields",
		"type Size uint8",
		"type Source interface",
		"type Source interface, Next(limit Size) (n int, err error)",
		"type Source interface, Read(p []byte) (n int, err error)",
		"type Source interface, has unexported methods",
		"var Default Size",
	}, describe(pkg, "m"))
}

func TestDifference(t *testing.T) {
	t.Parallel()
	assert.Nil(t, difference([]byte("a\nb\n"), []byte("a\nb\n")))
	assert.Equal(t, []string{"removed: b", "added: c"}, difference([]byte("a\nb\n"), []byte("a\nc\n")))
	assert.Equal(t, []string{"lines are out of order or doubled"}, difference([]byte("b\na\n"), []byte("a\nb\n")))
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"ci": true, "accesslayer/cm": true, "cmd/ddk-validate": false,
		"tools/check": false, "ci/ciwrap/internal/x": false,
		"testing": true, "test/storm": false, "validate": true, "validate/suite/cmsuite": false} {
		assert.Equal(t, want, isPublic(path), path)
	}
}
