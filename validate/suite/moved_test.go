package suite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/suite"
)

// TestMoved checks that each test that succeeds a case exists.
func TestMoved(t *testing.T) {
	list := validate.MustCatalog(suite.All()...).MovedCases("*")
	require.NotEmpty(t, list)
	sources := map[string]string{} // of the tests of a folder
	for _, m := range list {
		for _, to := range m.To {
			folder, name, isTest := strings.Cut(to, ".Test")
			if !isTest {
				continue // NewCatalog checks cases
			}
			if sources[folder] == "" {
				files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(folder), "*_test.go"))
				require.NoError(t, err)
				for _, f := range files {
					b, err := os.ReadFile(f)
					require.NoError(t, err)
					sources[folder] += string(b)
				}
			}
			assert.Regexp(t, `(?m)^func Test`+name+`\(`, sources[folder], m.ID)
		}
	}
}
