package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// kit describes how the new module refers to the kit: by dir or by version.
type kit struct {
	module  string
	dir     string // folder of its source
	version string
}

// kitModule returns the kit's module path, from this package's import path.
func kitModule() string {
	return strings.TrimSuffix(reflect.TypeFor[Options]().PkgPath(), "/cmd/ddk-validate/scaffold")
}

// findKit returns the kit in dir. If dir is "", it returns the source that this program was built from, or the version
// of the module.
func findKit(dir string) (kit, error) {
	k := kit{module: kitModule()}
	if dir != "" {
		if !k.isAt(dir) {
			return k, fmt.Errorf("--kit %s: its go.mod is not that of module %s", dir, k.module)
		}
		abs, err := filepath.Abs(dir)
		k.dir = abs
		return k, err
	}
	// Sources in the module cache have their version in their path. The new module requires that version.
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) && !strings.Contains(file, "@") {
		for d := filepath.Dir(file); d != filepath.Dir(d); d = filepath.Dir(d) {
			if k.isAt(d) {
				k.dir = d
				return k, nil
			}
		}
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return k, errors.New("this program has no build information (give the folder of the kit's source with --kit)")
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == k.module && strings.HasPrefix(m.Version, "v") && !strings.Contains(m.Version, "+") {
			k.version = m.Version
			return k, nil
		}
	}
	return k, errors.New("this program was not built from a published version " +
		"(give the folder of the kit's source with --kit)")
}

// isAt reports whether the kit's source is in dir.
func (k kit) isAt(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(b, []byte("module "+k.module+"\n"))
}

var toolLine = regexp.MustCompile(`(?m)^tool .*\n`)

// goMod returns the go.mod of a module that uses the kit. If it refers to the kit's source, it requires all that the
// kit requires, so that it builds without the network and without go mod tidy.
func (k kit) goMod(module string) ([]byte, error) {
	if k.dir == "" {
		return fmt.Appendf(nil, "module %s\n\ngo 1.26.0\n\nrequire %s %s\n", module, k.module, k.version), nil
	}
	b, err := os.ReadFile(filepath.Join(k.dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	_, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%s: go.mod has one line", k.dir)
	}
	rest = toolLine.ReplaceAll(rest, nil)
	dir := filepath.ToSlash(k.dir)
	if strings.ContainsAny(dir, " \t'`\"") {
		dir = strconv.Quote(dir)
	}
	return fmt.Appendf(nil, "module %s\n%s\nrequire %s v0.0.0\n\nreplace %s => %s\n",
		module, rest, k.module, k.module, dir), nil
}
