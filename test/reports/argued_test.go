package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

// TestArgued checks that the findings of each published report name each case that did not pass, and that a failure
// without an argument is found.
func TestArgued(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	list, err := filepath.Glob(filepath.Join(root, "docs", "reports", "*", junitName))
	require.NoError(t, err)
	for _, file := range list {
		missing, err := unargued(filepath.Dir(file))
		require.NoError(t, err)
		assert.Empty(t, missing, file)
	}
	dir := t.TempDir()
	const junit = `<testsuites><testsuite><testcase name="a.b title"><failure/></testcase>` +
		`<testcase name="a.c"><error/></testcase><testcase name="a.d"></testcase></testsuite></testsuites>`
	require.NoError(t, os.WriteFile(filepath.Join(dir, junitName), compressed(junit), 0o600))
	missing, err := unargued(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"a.b", "a.c"}, missing)
	require.NoError(t, os.WriteFile(filepath.Join(dir, findings), []byte("`a.?`"), 0o600))
	missing, err = unargued(dir)
	require.NoError(t, err)
	assert.Empty(t, missing)
}
