package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"ciddk/tools/layers"
)

// sources returns the Go files below the folders that a default build of this system has, without tests. Names are
// relative to root.
func sources(root string, folders []string) ([]string, error) {
	files, err := layers.Files(root, ".go")
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		if !slices.ContainsFunc(files, func(name string) bool { return isBelow(path.Dir(name), f) }) {
			return nil, fmt.Errorf("no Go file below %s", f)
		}
	}
	var list []string
	for _, name := range files {
		below := slices.ContainsFunc(folders, func(f string) bool { return isBelow(path.Dir(name), f) })
		if !below || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "mock") {
			continue
		}
		if ok, err := isBuilt(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return nil, err
		} else if ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, nil
}

// isBelow reports whether a folder is another one or below it.
func isBelow(folder, other string) bool {
	return folder == other || strings.HasPrefix(folder, other+"/")
}

// isBuilt reports whether a build for this system without tags and without cgo includes a file.
func isBuilt(name string) (bool, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	return isForSystem(filepath.Base(name), string(b), runtime.GOOS, runtime.GOARCH), nil
}

// otherSystems are the endings of file names that limit a file to a system or processor.
var otherSystems = []string{"linux", "darwin", "windows", "freebsd", "amd64", "arm64"}

func isForSystem(name, text, goos, goarch string) bool {
	for _, part := range strings.Split(strings.TrimSuffix(name, ".go"), "_")[1:] {
		if slices.Contains(otherSystems, part) && part != goos && part != goarch {
			return false
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "package ") {
			break
		}
		if !constraint.IsGoBuild(line) {
			continue
		}
		x, err := constraint.Parse(strings.TrimSpace(line))
		if err != nil {
			return false
		}
		unix := goos != "windows"
		return x.Eval(func(tag string) bool {
			return tag == goos || tag == goarch || tag == "unix" && unix || strings.HasPrefix(tag, "go1.")
		})
	}
	return true
}

// find returns the mutants of a file in the order of the source.
func find(name string, src []byte, statuses []string) ([]mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var list []mutant
	for _, d := range file.Decls {
		fd, ok := d.(*ast.FuncDecl)
		if !ok || fd.Body == nil {
			continue
		}
		o := operators{fset: fset, src: src, exchange: exchanges(file, statuses)}
		o.emit = func(operator string, start, end token.Pos, text string) {
			at := fset.Position(start)
			list = append(list, mutant{File: name, Line: at.Line, Function: path.Dir(name) + "." + functionName(fd),
				Operator: operator, Start: at.Offset, Old: string(src[at.Offset:fset.Position(end).Offset]), New: text,
				code: lineAt(src, at.Offset)})
		}
		ast.PreorderStack(fd.Body, nil, o.visit)
	}
	slices.SortStableFunc(list, func(a, b mutant) int { return cmp.Compare(a.Start, b.Start) })
	return list, nil
}

// lineAt returns the line of the source that has the byte at an offset, without its indentation.
func lineAt(src []byte, at int) string {
	first := bytes.LastIndexByte(src[:at], '\n') + 1
	line, _, _ := bytes.Cut(src[first:], []byte("\n"))
	return string(bytes.TrimSpace(line))
}

// functionName returns the name of a function with its receiver, without type parameters.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t, star := f.Recv.List[0].Type, false
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t, star = x.X, true
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.Ident:
			if star {
				return "(*" + x.Name + ")." + f.Name.Name
			}
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// statusNames returns the names of the statuses in the source of package ci: the constants of the group that begins
// with one of type Status.
func statusNames(src []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "status.go", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST || len(g.Specs) == 0 {
			continue
		}
		first := g.Specs[0].(*ast.ValueSpec)
		if t, ok := first.Type.(*ast.Ident); !ok || t.Name != "Status" {
			continue
		}
		var names []string
		for _, s := range g.Specs {
			for _, n := range s.(*ast.ValueSpec).Names {
				names = append(names, n.Name)
			}
		}
		return names, nil
	}
	return nil, errors.New("no constants of type Status")
}

// exchanges returns for each status that the file mentions another one: the next that it mentions, or for its only one
// a common one.
func exchanges(file *ast.File, statuses []string) map[string]string {
	var used []string
	ast.Inspect(file, func(n ast.Node) bool {
		if name, ok := ciName(n); ok && slices.Contains(statuses, name) && !slices.Contains(used, name) {
			used = append(used, name)
		}
		return true
	})
	slices.Sort(used)
	m := map[string]string{}
	for i, name := range used {
		m[name] = used[(i+1)%len(used)]
		if len(used) == 1 {
			m[name] = statuses[(slices.Index(statuses, name)+1)%len(statuses)]
		}
	}
	return m
}

// ciName returns the name in a selector of package ci.
func ciName(n ast.Node) (string, bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := s.X.(*ast.Ident)
	return s.Sel.Name, ok && x.Name == "ci"
}
