package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestAgain executes the command that a failed case prints: it fails in the same way, and prints the same command.
func TestAgain(t *testing.T) {
	testenv.Long(t)
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no POSIX shell")
	}
	const pkg = "./testdata/failing"
	dir := filepath.Join(t.TempDir(), "a folder")
	require.NoError(t, os.Mkdir(dir, 0o755))
	built, known := filepath.Join(dir, "it's built"), filepath.Join(dir, "known $failures")
	require.NoError(t, os.WriteFile(known, []byte(`{"schema": "ddk-validate/expectations/v1", "waivers": {}}`), 0o644))
	out, err := exec.Command("go", "build", "-o", built, pkg).CombinedOutput()
	require.NoError(t, err, "%s", out)
	line := regexp.MustCompile(`(?m)^  again     (.*)$`)
	for _, words := range [][]string{{"go", "run", pkg}, {built}} {
		words = append(words, "run", "--profile=minimal", "--case", "cq.create.*", "--expect="+known, "--set",
			"name=two  'words'", "--seed", "7", "-q")
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		require.Error(t, err)
		found := line.FindStringSubmatch(string(out))
		require.NotNil(t, found, "%s", out)
		repeated, err := exec.Command("sh", "-c", found[1]).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(repeated), "SELECTION FAILED: 1 failed, nothing passed, 1 of ", "%s", found[1])
		assert.Contains(t, string(repeated), found[0])
		assert.Contains(t, string(repeated), "seed 7)", "%s", repeated)
	}
}
