package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// ringTables returns the tables of docs/abi/rings.md: the constants of internal/rings/layout.go, a table for each
// group.
func ringTables(root string) (string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(root, "internal", "rings", "layout.go"), nil,
		parser.ParseComments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		title, rest, _ := strings.Cut(strings.TrimSuffix(oneLine(g.Doc.Text()), "."), ". ")
		fmt.Fprintf(&b, "\n### %s\n\n", strings.TrimSuffix(title, ":"))
		if rest != "" {
			fmt.Fprintf(&b, "%s.\n\n", rest)
		}
		b.WriteString("| name | value | |\n|---|--:|---|\n")
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return "", fmt.Errorf("%s: want one value per constant", fset.Position(s.Pos()))
			}
			value, err := literal(v.Values[0])
			if err != nil {
				return "", fmt.Errorf("%s: %w", fset.Position(s.Pos()), err)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Names[0].Name, value, cell(oneLine(v.Comment.Text())))
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

// literal returns the source text of a number, or of a shift of numbers.
func literal(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value, nil
	case *ast.BinaryExpr:
		x, err := literal(e.X)
		if err != nil {
			return "", err
		}
		y, err := literal(e.Y)
		return x + " " + e.Op.String() + " " + y, err
	}
	return "", fmt.Errorf("%T is no number", e)
}
