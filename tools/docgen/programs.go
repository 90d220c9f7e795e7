package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// programLine matches a command line of a program that test/verbs runs.
var programLine = regexp.MustCompile(`^(ib_(send|write|read|atomic)_(bw|lat)|ibv_[a-z_]+|rping|ucmatose|udaddy|mckey|` +
	`cmtime|r(io)?stream|rdma_x?(server|client))( |$)`)

// programTable returns the table of the tests of test/verbs, with the programs of the distribution that they run.
func programTable(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "test", "verbs", "*_test.go"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| test | what it does | programs |\n|---|---|---|\n")
	rows := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			if fn.Name.Name == "TestMain" {
				continue
			}
			programs := "–"
			if list := programsOf(fn); len(list) > 0 {
				programs = "`" + strings.Join(list, "`, `") + "`"
				rows++
			}
			what := new(doc.Package).Synopsis(strings.TrimPrefix(fn.Doc.Text(), fn.Name.Name+" "))
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", fn.Name.Name, strings.TrimSuffix(what, "."), programs)
		}
	}
	if rows == 0 {
		return "", errors.New("no test in test/verbs runs a program")
	}
	return out.String(), nil
}

// programsOf returns the command lines in a function.
func programsOf(fn *ast.FuncDecl) []string {
	var list []string
	ast.Inspect(fn, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && programLine.MatchString(s) {
			list = append(list, strings.TrimSpace(s))
		}
		return true
	})
	slices.Sort(list)
	return slices.Compact(list)
}
