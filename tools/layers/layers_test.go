package layers

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

func TestCheck(t *testing.T) {
	rows, err := parse(`
low       | -     | -                | bottom
low/mock  | low   | example.org/mock | generated
high      | low   | example.org/a    | upper
other     | low   | -                | beside
top       | *     | *                | programs`)
	require.NoError(t, err)
	tests := []struct {
		name, folder, path string
		test               bool
		want               string // part of the error; "" = allowed
	}{
		{"std", "low", "encoding/binary", false, ""},
		{"own package", "high", "m/low", false, ""},
		{"own sub-package", "high/x", "m/high/y", false, ""},
		{"upwards", "low", "m/high", false, "low may not import high"},
		{"sideways", "other", "m/high", false, "other may not import high"},
		{"a row's child is another row", "high", "m/low/mock", false, "high may not import low/mock"},
		{"a test may look at all rows above", "other", "m/high", true, ""},
		{"but not below", "low", "m/high", true, "low may not import high"},
		{"module of the row", "high", "example.org/a/b", false, ""},
		{"prefix of a name is no path prefix", "high", "example.org/ab", false, "high may not import example.org/ab"},
		{"module of another row", "low", "example.org/a", false, "may import nothing"},
		{"test module in a test", "low", "github.com/stretchr/testify/require", true, ""},
		{"test module in a program", "low", "github.com/stretchr/testify/require", false, "low may not import"},
		{"any", "top/x", "m/high", false, ""},
		{"any module", "top/x", "example.org/zzz", false, ""},
		{"unknown importer", "nowhere", "fmt", false, "nowhere has no row"},
		{"unknown imported", "top", "m/nowhere", false, "nowhere has no row"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(rows, "m", tt.folder, tt.path, tt.test)
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{"columns": "a | b | c", "two rows": "a|-|-|x\na|-|-|y"} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(text)
			assert.ErrorContains(t, err, "layers.txt:")
		})
	}
}

// TestRowsPointUp checks the table itself.
func TestRowsPointUp(t *testing.T) {
	rows, err := Rows()
	require.NoError(t, err)
	for i, r := range rows {
		for _, o := range r.Own {
			if o == Any {
				continue
			}
			if to := Find(rows, o); assert.GreaterOrEqual(t, to, 0, "%s names unknown row %s", r.Folder, o) {
				assert.True(t, to < i || within(r.Folder, rows[to].Folder) || within(o, r.Folder),
					"%s names %s, which is below it in the table", r.Folder, o)
			}
		}
	}
}

// TestRowsHavePackages checks that every row has a package.
func TestRowsHavePackages(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	files, err := Files(root, ".go")
	require.NoError(t, err)
	rows, err := Rows()
	require.NoError(t, err)
	for _, r := range rows {
		assert.True(t, slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, r.Folder+"/") }),
			"%s has no package", r.Folder)
	}
}
