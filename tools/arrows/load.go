package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// source is a package that has been read from its source files.
type source struct {
	root  string // the folder that file names are relative to
	fset  *token.FileSet
	files []string
	pkg   *types.Package
	info  *types.Info
}

// file returns the name of the file that holds pos, relative to the root.
func (s *source) file(pos token.Pos) string { return relative(s.root, s.fset.Position(pos).Filename) }

func relative(root, name string) string {
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return name
	}
	return filepath.ToSlash(rel)
}

// listed is what go list reports of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load reads the packages in a folder and below it, without tests. The folder is relative to dir, which is in the
// module.
func load(dir, folder string) ([]*source, error) {
	list := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly",
		"./"+folder+"/...")
	list.Dir = dir
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	l := loader{root: filepath.Join(dir, folder), fset: token.NewFileSet(), exports: make(map[string]string),
		read: make(map[string]*types.Package)}
	l.compiled = importer.ForCompiler(l.fset, "gc", l.open)
	var pkgs []*source
	for dec := json.NewDecoder(bytes.NewReader(out)); ; { // go list names a package after those that it imports
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.DepOnly {
			l.exports[p.ImportPath] = p.Export
			continue
		}
		s, err := l.check(&p)
		if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, s)
	}
}

// loader type-checks packages. The packages of the folder are read from source, so that each function has one object;
// all others are read from the compiler's export data.
type loader struct {
	root     string
	fset     *token.FileSet
	exports  map[string]string
	compiled types.Importer
	read     map[string]*types.Package
}

// Import implements types.Importer.
func (l *loader) Import(path string) (*types.Package, error) {
	if p := l.read[path]; p != nil {
		return p, nil
	}
	return l.compiled.Import(path)
}

func (l *loader) open(path string) (io.ReadCloser, error) {
	name := l.exports[path]
	if name == "" {
		return nil, fmt.Errorf("no export data of package %s", path)
	}
	return os.Open(name)
}

func (l *loader) check(p *listed) (*source, error) {
	s := &source{root: l.root, fset: l.fset}
	s.info = &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
	var files []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		f, err := parser.ParseFile(l.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		s.files = append(s.files, relative(l.root, path))
	}
	conf := types.Config{Importer: l}
	var err error
	if s.pkg, err = conf.Check(p.ImportPath, l.fset, files, s.info); err != nil {
		return nil, err
	}
	l.read[p.ImportPath] = s.pkg
	return s, nil
}
