package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// module is a module that go.mod requires.
type module struct {
	path, version, license string
	use                    use
	by                     []string // packages of the kit that import it directly, or modules that do
}

// A use is the most demanding use of a module.
type use uint8

const (
	tool    use = iota // to generate code
	tests              // in tests
	tagged             // in packages and programs with a build tag
	shipped            // in packages and programs of the default build
)

var useNames = [...]string{"tools only", "tests only", "with build tag", "shipped"}

// tags are the build tags of the kit. Their packages need cgo.
const tags = "usb"

// systems are the systems whose builds are considered.
var systems = []string{"linux", "darwin", "windows"}

// listed is what go list reports of a package.
type listed struct {
	ImportPath string
	Imports    []string
	ForTest    string
	Module     *struct {
		Path, Version string
		Main          bool
	}
}

// modules returns the modules that go.mod requires, by path.
func modules(ctx context.Context, root string) ([]module, error) {
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := goJSON(ctx, root, "", func(d *json.Decoder) error { return d.Decode(&file) }, "mod", "edit",
		"-json"); err != nil {
		return nil, err
	}
	list := map[string]*module{}
	args := []string{"mod", "download", "-json"}
	for _, r := range file.Require {
		list[r.Path] = &module{path: r.Path, version: r.Version}
		args = append(args, r.Path+"@"+r.Version)
	}
	dirs := map[string]string{}
	err := goJSON(ctx, root, "", each(func(d struct{ Path, Dir string }) { dirs[d.Path] = d.Dir }), args...)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.license, err = license(dirs[m.path]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", m.path, m.version, err)
		}
	}
	users := map[string]map[string]bool{}
	for _, system := range systems {
		for _, as := range []use{tests, tagged, shipped} {
			if err := mark(ctx, root, system, as, list, users); err != nil {
				return nil, err
			}
		}
	}
	for path, m := range list {
		m.by = slices.Sorted(maps.Keys(users[path]))
	}
	return slices.SortedFunc(func(yield func(module) bool) {
		for _, m := range list {
			if !yield(*m) {
				return
			}
		}
	}, func(a, b module) int { return cmp.Compare(a.path, b.path) }), nil
}

// mark records the modules that the packages of a system have for a use.
func mark(ctx context.Context, root, system string, as use, list map[string]*module,
	users map[string]map[string]bool) error {
	args := []string{"list", "-deps", "-json=ImportPath,Imports,ForTest,Module"}
	switch as {
	case tests:
		args = append(args, "-test")
	case tagged:
		args = append(args, "-tags", tags)
	}
	owner := map[string]string{} // by package: its module, or the package itself if it is in the kit
	var all []listed
	err := goCommand(ctx, root, system, as == tagged, each(func(p listed) { all = append(all, p) }),
		append(args, "./...")...)
	if err != nil {
		return err
	}
	for _, p := range all {
		name, _, _ := strings.Cut(p.ImportPath, " ") // "p [p.test]"
		switch {
		case p.Module == nil:
		case p.Module.Main:
			owner[name] = "`" + strings.TrimSuffix(strings.TrimPrefix(name, p.Module.Path+"/"), "_test") + "`"
		default:
			owner[name] = p.Module.Path
			m := list[p.Module.Path]
			if m == nil {
				return fmt.Errorf("%s is used, but go.mod does not list its module %s (go mod tidy)",
					name, p.Module.Path)
			}
			m.use = max(m.use, as)
		}
	}
	for _, p := range all {
		name, _, _ := strings.Cut(p.ImportPath, " ")
		for _, i := range p.Imports {
			i, _, _ = strings.Cut(i, " ")
			to, from := owner[i], owner[name]
			if list[to] == nil || from == "" || from == to || strings.HasSuffix(name, ".test") {
				continue
			}
			if users[to] == nil {
				users[to] = map[string]bool{}
			}
			users[to][from] = true
		}
	}
	return nil
}

// each decodes one value after the other.
func each[T any](f func(T)) func(*json.Decoder) error {
	return func(d *json.Decoder) error {
		for {
			var v T
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			f(v)
		}
	}
}

// goJSON runs the go command without cgo and decodes what it prints. The default system is that of the machine.
func goJSON(ctx context.Context, root, system string, decode func(*json.Decoder) error, args ...string) error {
	return goCommand(ctx, root, system, false, decode, args...)
}

// goCommand runs the go command and decodes what it prints.
func goCommand(ctx context.Context, root, system string, hasC bool, decode func(*json.Decoder) error,
	args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if hasC {
		c.Env = append(c.Env, "CGO_ENABLED=1")
	}
	if system != "" {
		c.Env = append(c.Env, "GOOS="+system, "GOARCH=amd64")
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	b, err := c.Output()
	if err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	if err := decode(json.NewDecoder(bytes.NewReader(b))); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}
