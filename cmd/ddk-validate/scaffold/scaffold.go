// Package scaffold writes a new module with a driver, from the kit's template.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"text/template"

	"ciddk/templates"
)

//go:embed files
var files embed.FS

// Options describes the new module.
type Options struct {
	Dir    string   // folder to write to; it must be empty or not exist
	Module string   // module path, such as example.com/acme/hca
	Name   string   // package name; the default is made from the last element of Module
	Kit    string   // folder of the kit's source; the default is where this program was built, or else its version
	With   []string // names of Features
}

// Write writes the module and returns the package's name.
func Write(o Options) (name string, err error) {
	if err := checkModule(o.Module); err != nil {
		return "", err
	}
	kit, err := findKit(o.Kit)
	if err != nil {
		return "", err
	}
	source, err := fs.Sub(templates.RCHCA, "rchca")
	if err != nil {
		return "", err
	}
	r := renamer{kit: kit.module, module: o.Module, name: o.Name}
	if r.name == "" {
		r.name = packageName(o.Module)
	}
	if err := r.check(source); err != nil {
		return "", err
	}
	without, err := unchosen(o.With)
	if err != nil {
		return "", err
	}
	out, err := r.rename(source, without)
	if err != nil {
		return "", err
	}
	if out["go.mod"], err = kit.goMod(o.Module); err != nil {
		return "", err
	}
	if kit.dir != "" {
		if out["go.sum"], err = os.ReadFile(filepath.Join(kit.dir, "go.sum")); err != nil {
			return "", err
		}
	}
	data := map[string]any{"Kit": kit.module, "Module": o.Module, "Name": r.name, "Replace": kit.dir,
		"User": !slices.Contains(without, "user"), "SMA": !slices.Contains(without, "sma")}
	for from, to := range map[string]string{
		"main.go.tmpl":   "cmd/validate/main.go",
		"ddkd.go.tmpl":   "cmd/ddkd/main.go",
		"README.md.tmpl": "README.md",
		"test.yml.tmpl":  ".github/workflows/test.yml",
	} {
		t, err := template.ParseFS(files, path.Join("files", from))
		if err != nil {
			return "", err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, data); err != nil {
			return "", err
		}
		out[to] = b.Bytes()
	}
	return r.name, write(o.Dir, out)
}

// write writes files to an empty folder, which it creates if necessary.
func write(dir string, out map[string][]byte) error {
	if dir == "" {
		return errors.New("the name of the folder is empty")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range old {
		if e.Name() != ".git" {
			return fmt.Errorf("%s is not empty: it has %s", dir, e.Name())
		}
	}
	for name, b := range out {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(p, b, 0o666); err != nil {
			return err
		}
	}
	return nil
}
