package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSanitizers runs a program that was compiled with sanitizers. The descriptor that close_range closes leaves a
// context of libibverbs, so that leaks of the program are not reported.
func TestSanitizers(t *testing.T) {
	for _, sanitizer := range []string{"address", "thread", "undefined"} {
		t.Run(sanitizer, func(t *testing.T) {
			flag := "-fsanitize=" + sanitizer
			probe := exec.Command("cc", flag, "-x", "c", "-o", filepath.Join(t.TempDir(), "probe"), "-")
			probe.Stdin = strings.NewReader("int main(void) { return 0; }\n")
			if out, err := probe.CombinedOutput(); err != nil {
				t.Skipf("the compiler has no %s: %s", flag, out)
			}
			program := compile(t, "sanitized.c", flag, "-g", "-l:libibverbs.so.1", "-pthread")
			r := newRig(t)
			r.env = append(r.env, "ASAN_OPTIONS=detect_leaks=0")
			assert.Equal(t, "success\n", r.run(program))
		})
	}
}

// TestOtherPrograms runs programs that do not use RDMA.
func TestOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	assert.NoError(t, os.WriteFile(file, []byte("text\n"), 0o600))
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"git", "init", "-q", filepath.Join(dir, "repository")}, ""},
		{[]string{"curl", "-s", "file://" + file}, "text\n"},
		{[]string{"python3", "-c", "import os, subprocess; os.closerange(3, 100); " +
			"print(subprocess.run(['cat', '" + file + "'], capture_output=True).stdout.decode(), end='')"}, "text\n"},
		{[]string{"find", dir, "-name", "file"}, file + "\n"},
		{[]string{"sh", "-c", "cd " + dir + " && cat file | tr t T"}, "TexT\n"},
	} {
		t.Run(x.args[0], func(t *testing.T) {
			if _, err := exec.LookPath(x.args[0]); err != nil {
				t.Skip(err)
			}
			assert.Equal(t, x.want, newRig(t).run(x.args...))
		})
	}
}
