// Package version says what a program was built from.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the version of a released program. tools/release sets it with the linker.
var release string

// Of returns the output of --version: the program, its release, or its module's version or commit, and the Go release
// that built it.
func Of(name string) string {
	what := "(unknown version)"
	if release != "" {
		what = release
	} else if info, ok := debug.ReadBuildInfo(); ok {
		what = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && info.Main.Version == "(devel)":
				what += " commit " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true" && info.Main.Version == "(devel)":
				what += " modified"
			}
		}
	}
	return fmt.Sprintf("%s %s, %s %s/%s", name, what, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
