package validate

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
)

// goRunFolder matches the folder of a program that go run or go test has built: one of a build, or one of the cache.
var goRunFolder = regexp.MustCompile(`(^|[/\\])(go-build[^/\\]*|[0-9a-f]{64}-d)([/\\]|$)`)

// Program returns the words by which this program was started, as far as a user can type them: the command go run or
// go test with the package and the flags of its build, or the program's name.
func Program() []string {
	exe, err := os.Executable()
	if err != nil || !goRunFolder.MatchString(filepath.Dir(exe)) {
		return []string{os.Args[0]}
	}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return []string{os.Args[0]}
	}
	return goCommand(b)
}

// goCommand returns the command go run or go test that builds and runs a program.
func goCommand(b *buildinfo.BuildInfo) []string {
	name, isTest := strings.CutSuffix(b.Path, ".test")
	command := []string{"go", "run"}
	if isTest {
		command[1] = "test"
	}
	for _, s := range b.Settings {
		switch {
		case s.Key == "-race" || s.Key == "-msan" || s.Key == "-asan":
			if s.Value == "true" {
				command = append(command, s.Key)
			}
		case s.Key == "-tags":
			command = append(command, "-tags", s.Value)
		}
	}
	if name == "command-line-arguments" { // go run main.go; the build does not tell the files
		name = "."
	}
	return append(command, name)
}

// Again returns the command that runs a case of the report again: with the program that made the report and the
// settings of its run, or with go test if a test made it. It is quoted for a POSIX shell. It returns "" if the plan did
// not name its program (Plan.Again).
func (r *Report) Again(id string) string {
	if len(r.Run.Again) == 0 {
		return r.TestCommand(id)
	}
	words := append(append([]string(nil), r.Run.Again...), "--case", id)
	if r.Run.Test != "" {
		words = append(append([]string(nil), r.Run.Again...), r.testFlag(id)...)
	}
	return Quote(words)
}

// plain matches a word that a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote returns words as a command line for a shell. Words with control characters have the form $'…'.
func Quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		switch {
		case plain.MatchString(w):
			out[i] = w
		case strconv.CanBackquote(strings.ReplaceAll(w, "`", "")):
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		default:
			q := strconv.QuoteToASCII(w)
			q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
			out[i] = "$'" + strings.ReplaceAll(q, "'", `\'`) + "'"
		}
	}
	return strings.Join(out, " ")
}
