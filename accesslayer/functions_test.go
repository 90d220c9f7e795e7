package accesslayer_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page about functions of the access layer of 2003 has each function once, and names that exist.
func TestFunctionsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "access-layer.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join("..", "api", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	api := map[string]string{} // by the last element of the package's path
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		parts := strings.Split(strings.TrimSuffix(filepath.Base(f), ".txt"), ".")
		api[parts[len(parts)-1]] += string(b)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	goName := regexp.MustCompile(`^(?:(accesslayer|mads|cm|sa|rdmacm|mad)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?$`)
	functions := map[string]int{}
	checked := 0
	table, _, ok := strings.Cut(string(page), "## Not taken over")
	require.True(t, ok)
	for _, q := range quoted.FindAllStringSubmatch(table, -1) {
		if strings.HasPrefix(q[1], "ib_") && q[1] != "ib_al.h" || strings.HasPrefix(q[1], "mlnx_") {
			functions[q[1]]++
		}
	}
	for name, n := range functions {
		assert.Equal(t, 1, n, name)
	}
	assert.Len(t, functions, 113)
	for _, q := range quoted.FindAllStringSubmatch(string(page), -1) {
		m := goName.FindStringSubmatch(q[1])
		if m == nil {
			continue
		}
		pkg, typ, member := m[1], m[2], m[3]
		if pkg == "" {
			pkg = "accesslayer"
		}
		if q[1] == "AF_IB" {
			continue
		}
		checked++
		assert.Regexp(t, `\b`+typ+`\b`, api[pkg], q[1])
		if member != "" {
			assert.Regexp(t, `\b`+member+`\b`, api[pkg], q[1])
		}
	}
	assert.Greater(t, checked, 60)
}
