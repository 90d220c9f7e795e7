package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// folder holds the listings, below the module's root.
const folder = "api"

// private are the folders whose packages are not for other modules to import, or are generated from packages that are
// listed.
var private = []string{
	"bench", "cmd", "examples", "internal", "templates", "test", "tools",
	"ci/cimock", "accesslayer/mads/madsmock",
	"validate/fakehca", "validate/kit", "validate/mutant", "validate/suite",
}

// listing is the exported API of one package.
type listing struct {
	path  string // below the module's path
	lines []string
}

func (l listing) file() string { return strings.ReplaceAll(l.path, "/", ".") + ".txt" }

func (l listing) text() []byte { return []byte(strings.Join(l.lines, "\n") + "\n") }

// goPackage is what go list reports of a package.
type goPackage struct {
	ImportPath, Name, Export string
	Module                   *struct{ Path string }
}

// listings returns the API of the public packages of the module at root, sorted by path. It compiles them if need be.
func listings(root string) ([]listing, error) {
	packages, err := goList(root, "./...")
	if err != nil {
		return nil, err
	}
	var all []listing
	for _, p := range packages {
		if p.Module == nil {
			continue
		}
		path := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")
		if p.Name == "main" || !isPublic(path) {
			continue
		}
		pkg, err := load(p)
		if err != nil {
			return nil, err
		}
		all = append(all, listing{path, describe(pkg, p.Module.Path)})
	}
	slices.SortFunc(all, func(a, b listing) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

func isPublic(path string) bool {
	below := func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
	return !slices.ContainsFunc(private, below) && !slices.Contains(strings.Split(path, "/"), "internal")
}

// goList returns the packages that match a pattern in the module at root, each with its file of export data.
func goList(root, pattern string) ([]goPackage, error) {
	c := exec.Command("go", "list", "-export", "-json=ImportPath,Name,Export,Module", pattern)
	c.Dir = root
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w: %s", err, stderr.String())
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// load reads a package's export data, which holds all that other packages can see of it.
func load(p goPackage) (*types.Package, error) {
	open := func(path string) (io.ReadCloser, error) {
		if path != p.ImportPath {
			return nil, fmt.Errorf("export data of %s needs that of %s", p.ImportPath, path)
		}
		return os.Open(p.Export)
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", open).Import(p.ImportPath)
}
