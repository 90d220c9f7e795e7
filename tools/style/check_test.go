package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTree checks every package.
func TestTree(t *testing.T) {
	var out strings.Builder
	n, err := run(&out, nil)
	require.NoError(t, err)
	assert.Zero(t, n, out.String())
}

func TestCheckFile(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		want         []string
	}{
		{"good", "// Package p holds x.\npackage p\n\n// F returns x, and tells nothing.\nfunc F() {\n\ta, b, c := " +
			"1, 2, 3\n\tw, x, y, z := g()\n}\n", nil},
		{"verbs", "// Package p holds x.\npackage p\n\n// F gives x.\nfunc F() {}\n\n// tells x.\ntype T struct " +
			"{\n\t// A " +
			"says x.\n\tA int\n}\n\n// V knows x.\nvar V int\n",
			[]string{"a/p/f.go:4: the comment of F opens with \"gives\"", "a/p/f.go:7: the comment of T opens with " +
				"\"tells\"",
				"a/p/f.go:9: the comment of A opens with \"says\"",
				"a/p/f.go:13: the comment of V opens with \"knows\""}},
		{"subject", "package p\n\n// TestA checks x.\nfunc TestB() {}\n\n// ZeroOf returns 0.\nfunc None() {}\n\n" +
			"// RoCE sends x.\nfunc f() {}\n\n// Each of them returns.\nfunc g() {}\n\n" +
			"// find searches x.\nfunc findGroup() {}\n\n// close ends x.\nfunc close() {}\n\n" +
			"// tool runs x.\nfunc TestTool() {}\n",
			[]string{"a/p/f.go:3: the comment of TestB is about TestA",
				"a/p/f.go:6: the comment of None is about ZeroOf",
				"a/p/f.go:15: the comment of findGroup is about find"}},
		{"targets", "package p\n\nfunc f() {\n\ta, b, c, d := 1, 2, 3, 4\n}\n",
			[]string{"a/p/f.go:4: 4 targets in one " +
				"assignment, want at most 3"}},
		{"orphan", "package p\n\n// " + strings.Repeat("word ", 20) + "\n// the\n// end.\nvar x int\n",
			[]string{"a/p/f.go:4: the word \"the\" has a line of its own"}},
		{"short lines", "package p\n\n// Output:\n// one\n// two\nvar x int\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, "f.go", tt.source, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			found := checkFile(fset, f, "a/p/f.go")
			require.Len(t, found, len(tt.want), "%v", found)
			for i, want := range tt.want {
				assert.True(t, strings.HasPrefix(found[i].String(), want), found[i].String())
			}
		})
	}
}
