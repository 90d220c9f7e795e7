package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate/mutant"
)

// TestResultsFile goes on with a file whose last line was not written completely.
func TestResultsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.tsv")
	const first = "a.one\tCI-A-01\ta.case\t3\t-\n"
	require.NoError(t, os.WriteFile(name, []byte(first+"a.two\tCI-"), 0o600))
	f, err := openResults(name)
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"a.one": true}, f.names)
	require.NoError(t, f.add(mutant.Outcome{Mutant: mutant.Mutant{Name: "a.two", Breaks: "CI-A-02"}, Ran: 5,
		Elsewhere: map[string]int{"qp": 2, "cq": 1}}))
	require.NoError(t, f.Close())
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, first+"a.two\tCI-A-02\tESCAPED\t5\tcq:1 qp:2\t-\n", string(text))
	_, err = openResults(t.TempDir())
	assert.Error(t, err, "a directory")
}
