package mad_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fieldComments returns the comments behind the fields of all structs of the package, by struct and field.
func fieldComments(t *testing.T) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	comments := map[string]map[string]string{}
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				comments[spec.Name.Name] = map[string]string{}
				for _, f := range s.Fields.List {
					for _, id := range f.Names {
						comments[spec.Name.Name][id.Name] = strings.TrimSpace(f.Comment.Text())
					}
				}
			}
			return true
		})
	}
	return comments
}

// position returns the words with which the comment of a field begins.
func position(spans []span) string {
	if !slices.ContainsFunc(spans, func(s span) bool { return s.from%8 != 0 || s.n != 8 }) && len(spans) > 1 {
		var bytes []string
		for _, s := range spans {
			bytes = append(bytes, fmt.Sprint(s.from/8))
		}
		return "bytes " + strings.Join(bytes, ", ")
	}
	s := spans[0]
	end := s.from + s.n - 1
	switch {
	case s.from%8 == 0 && s.n == 8:
		return fmt.Sprintf("byte %d", s.from/8)
	case s.from%8 == 0 && s.n%8 == 0:
		return fmt.Sprintf("bytes %d-%d", s.from/8, end/8)
	case s.n == 1:
		return fmt.Sprintf("byte %d, bit %d", s.from/8, 7-s.from%8)
	case s.from/8 == end/8:
		return fmt.Sprintf("byte %d, bits %d-%d", s.from/8, 7-s.from%8, 7-end%8)
	}
	return fmt.Sprintf("byte %d, bit %d, to byte %d, bit %d", s.from/8, 7-s.from%8, end/8, 7-end%8)
}

// TestFieldComments checks that the comment of every field begins with the position that the tables of TestLayouts
// have.
func TestFieldComments(t *testing.T) {
	t.Parallel()
	comments := fieldComments(t)
	check := func(typ, table string) {
		require.Contains(t, comments, typ)
		words := strings.Fields(table)
		for i := 0; i+1 < len(words); i += 2 {
			comment, ok := comments[typ][words[i]]
			if !ok { // of an embedded or nested struct, which is checked by itself
				continue
			}
			spans := parseSpans(t, words[i+1])
			if typ == "SIDRREP" && words[i] == "VendorID" {
				spans = []span{{6 * 8, 8}, {7 * 8, 8}, {11 * 8, 8}}
			}
			at, _, _ := strings.Cut(comment, ": ")
			assert.Equal(t, position(spans), at, "%s.%s", typ, words[i])
		}
	}
	checked := 0
	for _, l := range layouts {
		check(reflect.TypeOf(l.make()).Elem().Name(), l.fields)
		checked++
	}
	require.Greater(t, checked, 20)
	check("CMPath", reqPath)
	check("ClassAddress", classAddress)
}
