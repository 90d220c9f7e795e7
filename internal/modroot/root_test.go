package modroot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	root, err := Find()
	require.NoError(t, err)
	assert.Equal(t, filepath.Dir(filepath.Dir(here)), root)

	t.Chdir(t.TempDir())
	_, err = Find()
	assert.EqualError(t, err, "no go.mod in this folder or above")
}
