package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// Statements and expressions that have no mutants, because no requirement says anything about them. docs/mutation.md
// has the rules.

// figures are the names of the fields that hold counters for operators.
var figures = []string{"count", "counters", "stats", "Stats", "yields", "refused"}

// isFigure reports whether an expression is a field of a set of counters for operators, such as o.count.WrongEntropy.
// A field count of a list is none.
func isFigure(x ast.Expr) bool {
	s, ok := x.(*ast.SelectorExpr)
	return ok && isFigures(s.X)
}

// isFigures reports whether an expression is a set of counters, or one in it.
func isFigures(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return slices.Contains(figures, x.Sel.Name) || isFigures(x.X)
	case *ast.IndexExpr:
		return isFigures(x.X)
	case *ast.Ident:
		return slices.Contains(figures, x.Name)
	}
	return false
}

// isCounting reports whether an expression is a call that adds to a counter for operators. The counters of performance
// management, which cases read, have other names.
func isCounting(x ast.Expr) bool {
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"add", "Add", "drop"}, f.Sel.Name) && isFigures(f.X)
}

// onlyCount reports whether statements only change counters for operators, and there is one.
func onlyCount(list []ast.Stmt) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s ast.Stmt) bool {
		switch s := s.(type) {
		case *ast.ExprStmt:
			return !isCounting(s.X)
		case *ast.IncDecStmt:
			return !isFigure(s.X)
		case *ast.AssignStmt:
			return len(s.Lhs) != 1 || !isFigure(s.Lhs[0])
		}
		return true
	})
}

// failing are the names of the functions that make an error.
var failing = []string{"Errorf", "fail", "failf", "bad"}

// isBesideError reports whether an expression is a result that a function returns together with an error. Callers do
// not use such a result.
func isBesideError(x ast.Expr, stack []ast.Node) bool {
	if len(stack) < 2 {
		return false
	}
	r, ok := stack[len(stack)-1].(*ast.ReturnStmt)
	if !ok || len(r.Results) < 2 || r.Results[len(r.Results)-1] == x {
		return false
	}
	switch e := r.Results[len(r.Results)-1].(type) {
	case *ast.UnaryExpr:
		l, ok := e.X.(*ast.CompositeLit)
		return ok && e.Op == token.AND && strings.HasSuffix(lastName(l.Type), "Error")
	case *ast.CallExpr:
		return slices.Contains(failing, lastName(e.Fun))
	case *ast.Ident:
		return isErrorVariable(e.Name) || e.Name == "err" && isAfterError(stack)
	case *ast.SelectorExpr:
		return isErrorVariable(e.Sel.Name)
	}
	return false
}

// isErrorVariable reports whether a name is that of an error of a package, such as errClosed or ErrClosed.
func isErrorVariable(name string) bool {
	return len(name) > 3 && strings.EqualFold(name[:3], "err") && unicode.IsUpper(rune(name[3]))
}

// isAfterError reports whether the innermost if of a stack has the condition err != nil.
func isAfterError(stack []ast.Node) bool {
	for _, n := range slices.Backward(stack) {
		s, ok := n.(*ast.IfStmt)
		if !ok {
			continue
		}
		b, ok := s.Cond.(*ast.BinaryExpr)
		return ok && b.Op == token.NEQ && lastName(b.X) == "err" && lastName(b.Y) == "nil"
	}
	return false
}

// lastName returns the name at the end of an expression, or "".
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}
