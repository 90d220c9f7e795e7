package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Names of the operators.
const (
	opNegate     = "negate"     // the condition of an if or a for, negated
	opOperand    = "operand"    // one side of && or || alone
	opBoundary   = "boundary"   // < and <=, > and >= exchanged
	opComparison = "comparison" // == and != exchanged, outside of conditions
	opArithmetic = "arithmetic" // + and -, * and /, & and |, << and >>, ++ and -- exchanged
	opConstant   = "constant"   // an integer plus or minus one
	opDelete     = "delete"     // an assignment or a call removed
	opStatus     = "status"     // a returned status replaced by another one
	opBranch     = "branch"     // the body of a branch removed
)

var boundaries = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

var arithmetic = map[token.Token]string{
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*", token.AND: "|", token.OR: "&",
	token.XOR: "&", token.AND_NOT: "&", token.SHL: ">>", token.SHR: "<<",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.MUL_ASSIGN: "/=", token.QUO_ASSIGN: "*=",
	token.REM_ASSIGN: "*=", token.AND_ASSIGN: "|=", token.OR_ASSIGN: "&=", token.XOR_ASSIGN: "&=",
	token.AND_NOT_ASSIGN: "&=", token.SHL_ASSIGN: ">>=", token.SHR_ASSIGN: "<<=",
	token.INC: "--", token.DEC: "++",
}

// operators finds the places of one function at which the operators apply.
type operators struct {
	fset     *token.FileSet
	src      []byte
	exchange map[string]string // statuses, and what replaces them
	emit     func(operator string, start, end token.Pos, text string)
}

// text returns the source of a node.
func (o *operators) text(n ast.Node) string {
	return string(o.src[o.fset.Position(n.Pos()).Offset:o.fset.Position(n.End()).Offset])
}

// visit emits the mutants of one node. The stack holds its ancestors.
func (o *operators) visit(n ast.Node, stack []ast.Node) bool {
	switch x := n.(type) {
	case *ast.IfStmt:
		if x.Init == nil && x.Else == nil && onlyCount(x.Body.List) {
			return false
		}
		o.negate(x.Cond)
		o.empty(x.Body)
		if b, ok := x.Else.(*ast.BlockStmt); ok {
			o.empty(b)
		}
	case *ast.ForStmt:
		if x.Cond != nil {
			o.negate(x.Cond)
		}
	case *ast.CaseClause:
		if len(x.Body) > 0 && !onlyCount(x.Body) {
			o.remove(opBranch, x.Body[0].Pos(), x.Body[len(x.Body)-1].End())
		}
	case *ast.BinaryExpr:
		o.binary(x, stack)
	case *ast.IncDecStmt:
		if isFigure(x.X) {
			return false
		}
		o.emit(opArithmetic, x.TokPos, x.TokPos+2, arithmetic[x.Tok])
		if isInBlock(stack) {
			o.remove(opDelete, x.Pos(), x.End())
		}
	case *ast.AssignStmt:
		if len(x.Lhs) == 1 && isFigure(x.Lhs[0]) {
			return false
		}
		o.assignment(x, stack)
	case *ast.ExprStmt:
		if isCounting(x.X) {
			return false
		}
		if c, ok := x.X.(*ast.CallExpr); ok && isInBlock(stack) && !isOutOfScope(c) {
			o.remove(opDelete, x.Pos(), x.End())
		}
	case *ast.DeferStmt:
		if !isOutOfScope(x.Call) {
			o.remove(opDelete, x.Pos(), x.End())
		}
	case *ast.BasicLit:
		o.constant(x, stack)
	case *ast.SelectorExpr:
		o.status(x, stack)
	}
	return true
}

func (o *operators) negate(cond ast.Expr) {
	if b, ok := cond.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		o.equality(opNegate, b)
		return
	}
	if u, ok := cond.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		o.emit(opNegate, u.Pos(), u.End(), o.text(u.X))
		return
	}
	o.emit(opNegate, cond.Pos(), cond.End(), "!("+o.text(cond)+")")
}

func (o *operators) equality(operator string, b *ast.BinaryExpr) {
	other := "!="
	if b.Op == token.NEQ {
		other = "=="
	}
	o.emit(operator, b.OpPos, b.OpPos+2, other)
}

// empty removes the statements of a block.
func (o *operators) empty(b *ast.BlockStmt) {
	if len(b.List) > 0 && !onlyCount(b.List) {
		o.remove(opBranch, b.List[0].Pos(), b.List[len(b.List)-1].End())
	}
}

// remove deletes source text and keeps its line breaks, so that the lines below keep their numbers.
func (o *operators) remove(operator string, start, end token.Pos) {
	text := o.src[o.fset.Position(start).Offset:o.fset.Position(end).Offset]
	o.emit(operator, start, end, strings.Repeat("\n", strings.Count(string(text), "\n")))
}

func (o *operators) binary(x *ast.BinaryExpr, stack []ast.Node) {
	end := x.OpPos + token.Pos(len(x.Op.String()))
	switch x.Op {
	case token.LAND, token.LOR:
		o.emit(opOperand, x.Pos(), x.End(), o.text(x.X))
		o.emit(opOperand, x.Pos(), x.End(), o.text(x.Y))
	case token.EQL, token.NEQ:
		if !isCondition(x, stack) {
			o.equality(opComparison, x)
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		o.emit(opBoundary, x.OpPos, end, boundaries[x.Op])
	default:
		if s, ok := arithmetic[x.Op]; ok && !hasText(x) {
			o.emit(opArithmetic, x.OpPos, end, s)
		}
	}
}

// hasText reports whether an expression has a string literal as an operand: a sum with one has no other operator.
func hasText(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return hasText(x.X) || hasText(x.Y)
	}
	return false
}

// isCondition reports whether an expression is the whole condition of its parent, which negate changes.
func isCondition(x ast.Expr, stack []ast.Node) bool {
	switch p := stack[len(stack)-1].(type) {
	case *ast.IfStmt:
		return p.Cond == x
	case *ast.ForStmt:
		return p.Cond == x
	}
	return false
}

func (o *operators) assignment(x *ast.AssignStmt, stack []ast.Node) {
	if s, ok := arithmetic[x.Tok]; ok && !hasText(x.Rhs[0]) {
		o.emit(opArithmetic, x.TokPos, x.TokPos+token.Pos(len(x.Tok.String())), s)
	}
	if x.Tok != token.DEFINE && isInBlock(stack) && !isBlank(x.Lhs) {
		o.remove(opDelete, x.Pos(), x.End())
	}
}

// isBlank reports whether an assignment only discards values.
func isBlank(targets []ast.Expr) bool {
	return !slices.ContainsFunc(targets, func(e ast.Expr) bool {
		i, ok := e.(*ast.Ident)
		return !ok || i.Name != "_"
	})
}

// isInBlock reports whether a statement stands in a list of statements, and not in the header of another one.
func isInBlock(stack []ast.Node) bool {
	switch stack[len(stack)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

// outOfScope are the calls that are not removed: locks, because the race detector judges them, panics of impossible
// cases, and messages for people.
var outOfScope = []string{"Lock", "Unlock", "RLock", "RUnlock", "panic", "Debug", "Info", "Warn", "Error"}

func isOutOfScope(c *ast.CallExpr) bool {
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		return slices.Contains(outOfScope, f.Sel.Name)
	case *ast.Ident:
		return slices.Contains(outOfScope, f.Name)
	}
	return false
}

func (o *operators) constant(x *ast.BasicLit, stack []ast.Node) {
	if x.Kind != token.INT || isCapacity(x, stack) || isBesideError(x, stack) {
		return
	}
	v, err := strconv.ParseInt(x.Value, 0, 64)
	if err != nil {
		return
	}
	format := func(v int64) string {
		if strings.HasPrefix(strings.ToLower(x.Value), "0x") && v >= 0 {
			return "0x" + strconv.FormatInt(v, 16)
		}
		return strconv.FormatInt(v, 10)
	}
	o.emit(opConstant, x.Pos(), x.End(), format(v+1))
	if v > 0 {
		o.emit(opConstant, x.Pos(), x.End(), format(v-1))
	}
}

// isCapacity reports whether a literal is part of the capacity in a call of make or of slices.Grow, which only has an
// influence on speed.
func isCapacity(x ast.Node, stack []ast.Node) bool {
	for _, s := range slices.Backward(stack) {
		c, ok := s.(*ast.CallExpr)
		if !ok {
			x = s
			continue
		}
		at := slices.IndexFunc(c.Args, func(e ast.Expr) bool { return ast.Node(e) == x })
		switch f := c.Fun.(type) {
		case *ast.Ident:
			return f.Name == "make" && at == 2
		case *ast.SelectorExpr:
			return f.Sel.Name == "Grow"
		}
		return false
	}
	return false
}

// status replaces a status that stands in a return statement, also as an argument of a call there.
func (o *operators) status(x *ast.SelectorExpr, stack []ast.Node) {
	name, ok := ciName(x)
	other, known := o.exchange[name]
	if !ok || !known {
		return
	}
	for _, s := range slices.Backward(stack) {
		switch s.(type) {
		case *ast.ReturnStmt:
			o.emit(opStatus, x.Sel.Pos(), x.Sel.End(), other)
			return
		case *ast.BinaryExpr, *ast.FuncLit, ast.Stmt:
			return
		}
	}
}
