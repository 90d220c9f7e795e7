package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A guarded file has many mutants, of which a variable selects one at run time. The mutated function is copied with the
// edit, and the original begins by calling the selected copy. So all edits are possible, also where a variable is not
// legal, such as in constant expressions, and a copy has exactly the source that a build of its own would have.

// Names in the generated code.
const (
	guardPrefix   = "ddkmut" // of all names in mutated packages
	selectedName  = guardPrefix + "Selected"
	recordsName   = guardPrefix + "Records"
	reachName     = guardPrefix + "Reach"
	selectorName  = "ddkmut" // of the package that all generated files import
	generatedFile = "zz_ddkmut.go"
)

// guarded is a file with guarded mutants.
type guarded struct {
	pkg   string // name of its package
	src   []byte
	spans []span
}

// span are the lines of the generated source that belong to one mutant.
type span struct {
	first, last int
	number      int
	isBody      bool // the body of its copy, which has the lines that a build of its own would compile
}

// spanAt returns the span of a line, or nil.
func (g *guarded) spanAt(line int) *span {
	for i := range g.spans {
		if s := &g.spans[i]; s.first <= line && line <= s.last {
			return s
		}
	}
	return nil
}

// guard adds mutants of one file to it. The keys of numbers are their numbers. It returns the numbers of those that
// need a build of their own.
func guard(name string, src []byte, numbers map[int]*mutant, atInit map[string]bool) (*guarded, []int, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	g := guarding{src: src, file: file, offset: func(p token.Pos) int { return fset.Position(p).Offset }}
	var alone []int
	byFunction := map[*ast.FuncDecl][]int{}
	for n, m := range numbers {
		d := g.functionAt(m.Start)
		if d == nil || !canGuard(d) || atInit[d.Name.Name] || g.losesImport(m) {
			alone = append(alone, n)
			continue
		}
		byFunction[d] = append(byFunction[d], n)
	}
	slices.Sort(alone)
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && len(byFunction[d]) > 0 {
			slices.Sort(byFunction[d])
			g.function(d, byFunction[d], numbers)
		}
	}
	return g.finish(), alone, nil
}

// guarding is the state of guard.
type guarding struct {
	src    []byte
	file   *ast.File
	offset func(token.Pos) int

	insertions []insertion
	copies     []functionCopy
}

// insertion is text that is added before a byte of the source. Its lines belong to a mutant if number is not 0.
type insertion struct {
	at     int
	text   string
	number int
}

// functionCopy is a mutated function: the line with its signature and the rest.
type functionCopy struct {
	number          int
	signature, body string
}

// functionAt returns the function whose body has a byte of the source.
func (g *guarding) functionAt(at int) *ast.FuncDecl {
	for _, d := range g.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Body != nil && g.offset(f.Body.Lbrace) < at && at < g.offset(f.Body.Rbrace) {
			return f
		}
	}
	return nil
}

// canGuard reports whether a function behaves the same when another one calls it in its place. Calls of recover, and
// functions that look at their callers, do not. A copy of a function with a directive would be compiled differently.
func canGuard(d *ast.FuncDecl) bool {
	if d.Name.Name == "init" || d.Name.Name == "_" {
		return false
	}
	if d.Doc != nil {
		for _, c := range d.Doc.List {
			if strings.HasPrefix(c.Text, "//go:") {
				return false
			}
		}
	}
	ok := true
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, isName := n.Fun.(*ast.Ident); isName && f.Name == "recover" {
				ok = false
			}
		case *ast.SelectorExpr:
			if x, isName := n.X.(*ast.Ident); isName && x.Name == "runtime" && strings.HasPrefix(n.Sel.Name, "Caller") {
				ok = false
			}
		}
		return ok
	})
	return ok
}

// losesImport reports whether a mutant removes the last use of a package. Such a file does not compile, but it would
// with the original function beside the copy.
func (g *guarding) losesImport(m *mutant) bool {
	mutated, err := parser.ParseFile(token.NewFileSet(), m.File, m.apply(g.src), parser.SkipObjectResolution)
	if err != nil {
		return true
	}
	before, after := qualifiers(g.file), qualifiers(mutated)
	for name := range before {
		if !after[name] {
			return true
		}
	}
	return false
}

// qualifiers returns the names before the dots of a file: all names of packages are among them.
func qualifiers(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				names[x.Name] = true
			}
		}
		return true
	})
	return names
}

// function adds the copies of a function, the calls of them, and the records of what is executed.
func (g *guarding) function(d *ast.FuncDecl, list []int, numbers map[int]*mutant) {
	sig := g.signatureOf(d)
	body, end := g.offset(d.Body.Lbrace)+1, g.offset(d.Body.Rbrace)+1
	// The original gets names for parameters that have none.
	g.insertions = append(g.insertions, insertion{at: body, text: "\nswitch " + selectedName + " {"})
	for _, n := range list {
		name := fmt.Sprintf("%s%d_%s", guardPrefix, n, d.Name.Name)
		g.insertions = append(g.insertions, insertion{at: body, text: "\n" + sig.dispatch(n, name), number: n})
		m := numbers[n]
		text := string(g.src[body:m.Start]) + m.New + string(g.src[m.Start+len(m.Old):end])
		g.copies = append(g.copies, functionCopy{number: n, signature: sig.declare(name) + " {\n", body: text + "\n"})
	}
	g.insertions = append(g.insertions, insertion{at: body, text: "\n}\n"})
	marks := map[int][]string{}
	for _, n := range list {
		at := g.statementAt(d, numbers[n].Start)
		marks[at] = append(marks[at], strconv.Itoa(n))
	}
	for at, list := range marks {
		text := "if " + recordsName + " { " + reachName + "(" + strings.Join(list, ", ") + ") }; "
		g.insertions = append(g.insertions, insertion{at: at, text: text})
	}
	g.insertions = append(g.insertions, sig.names...)
}

// statementAt returns the offset of the innermost statement of a list around a byte: it is executed before the byte is.
// In a function with goto it is the begin of the function.
func (g *guarding) statementAt(d *ast.FuncDecl, at int) int {
	best := g.offset(d.Body.List[0].Pos())
	hasGoto := false
	ast.Inspect(d.Body, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BranchStmt:
			hasGoto = hasGoto || n.Tok == token.GOTO
		case *ast.BlockStmt:
			if !isClauses(n) {
				list = n.List
			}
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			if first := g.offset(s.Pos()); first <= at && at < g.offset(s.End()) {
				best = first
			}
		}
		return true
	})
	if hasGoto {
		return g.offset(d.Body.List[0].Pos())
	}
	return best
}

// isClauses reports whether a block is the body of a switch or select.
func isClauses(b *ast.BlockStmt) bool {
	return slices.ContainsFunc(b.List, func(s ast.Stmt) bool {
		switch s.(type) {
		case *ast.CaseClause, *ast.CommClause:
			return true
		}
		return false
	})
}

// signature is what copies of a function and calls of them need.
type signature struct {
	receiver, typeParams, params, results string // source text, with parentheses and brackets
	on, typeArgs, args                    string // of a call
	names                                 []insertion
}

func (g *guarding) text(n ast.Node) string {
	return string(g.src[g.offset(n.Pos()):g.offset(n.End())])
}

func (g *guarding) signatureOf(d *ast.FuncDecl) *signature {
	s := new(signature)
	numNew := 0
	if d.Recv != nil {
		decl, args := g.fields(s, d.Recv, &numNew)
		s.receiver, s.on = "("+decl+") ", args+"."
	}
	decl, args := g.fields(s, d.Type.Params, &numNew)
	s.params, s.args = "("+decl+")", "("+args+")"
	if d.Type.Results != nil {
		s.results = " " + g.text(d.Type.Results)
	}
	if l := d.Type.TypeParams; l != nil {
		var names []string
		for _, f := range l.List {
			for _, n := range f.Names {
				names = append(names, n.Name)
			}
		}
		s.typeParams, s.typeArgs = g.text(l), "["+strings.Join(names, ", ")+"]"
	}
	return s
}

// fields returns a list of parameters as source of a declaration and of a call. Those without a name get one, in the
// original, too.
func (g *guarding) fields(s *signature, l *ast.FieldList, numNew *int) (decl, args string) {
	var decls, names []string
	for _, f := range l.List {
		kind := g.text(f.Type)
		dots := ""
		if _, ok := f.Type.(*ast.Ellipsis); ok {
			dots = "..."
		}
		add := func(name string) {
			decls, names = append(decls, name+" "+kind), append(names, name+dots)
		}
		fresh := func() string {
			*numNew++
			return fmt.Sprintf("%sParam%d", guardPrefix, *numNew)
		}
		if len(f.Names) == 0 {
			name := fresh()
			s.names = append(s.names, insertion{at: g.offset(f.Type.Pos()), text: name + " "})
			add(name)
		}
		for _, n := range f.Names {
			if n.Name == "_" {
				name := fresh()
				// "_" stays and becomes the begin of the name.
				s.names = append(s.names, insertion{at: g.offset(n.End()), text: name})
				add("_" + name)
				continue
			}
			add(n.Name)
		}
	}
	return strings.Join(decls, ", "), strings.Join(names, ", ")
}

func (s *signature) declare(name string) string {
	return "func " + s.receiver + name + s.typeParams + s.params + s.results
}

// dispatch returns the clause that calls a copy.
func (s *signature) dispatch(number int, name string) string {
	call := s.on + name + s.typeArgs + s.args
	if s.results == "" {
		return fmt.Sprintf("case %d: %s; return", number, call)
	}
	return fmt.Sprintf("case %d: return %s", number, call)
}

// finish returns the file with all insertions, and the copies at its end.
func (g *guarding) finish() *guarded {
	out := guarded{pkg: g.file.Name.Name}
	slices.SortStableFunc(g.insertions, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var b bytes.Buffer
	line, at := 1, 0
	write := func(text string) {
		b.WriteString(text)
		line += strings.Count(text, "\n")
	}
	for _, in := range g.insertions {
		write(string(g.src[at:in.at]))
		at = in.at
		write(in.text)
		if in.number != 0 {
			out.spans = append(out.spans, span{first: line, last: line, number: in.number})
		}
	}
	write(string(g.src[at:]) + "\n")
	for _, c := range g.copies {
		first := line
		write(c.signature)
		out.spans = append(out.spans, span{first: first, last: line - 1, number: c.number})
		first = line
		write(c.body)
		out.spans = append(out.spans, span{first: first, last: line - 1, number: c.number, isBody: true})
	}
	out.src = b.Bytes()
	return &out
}

// calledAtInit returns the names of the functions and methods of a package that the initialization of its variables may
// call. A mutated one may need other variables, which changes the order of initialization, so it needs a build of its
// own. Functions that a variable only refers to, such as those of a table, are called later.
func calledAtInit(files []*ast.File) map[string]bool {
	functions, methods := map[string][]*ast.FuncDecl{}, map[string][]*ast.FuncDecl{}
	var queue []ast.Node
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				list := functions
				if d.Recv != nil {
					list = methods
				}
				list[d.Name.Name] = append(list[d.Name.Name], d)
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					queue = append(queue, callsIn(d)...)
				}
			}
		}
	}
	imported := map[string]bool{}
	for _, f := range files {
		for _, s := range f.Imports {
			name, _ := strconv.Unquote(s.Path.Value)
			imported[path.Base(name)] = true
			if s.Name != nil {
				imported[s.Name.Name] = true
			}
		}
	}
	called := map[string]bool{}
	taken := map[*ast.FuncDecl]bool{}
	take := func(list []*ast.FuncDecl) {
		for _, d := range list {
			called[d.Name.Name] = true
			if !taken[d] && d.Body != nil {
				taken[d] = true
				queue = append(queue, d.Body)
			}
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		var visit func(n ast.Node) bool
		visit = func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.SelectorExpr: // of a package, or the only way to name a method
				if id, ok := x.X.(*ast.Ident); ok && imported[id.Name] {
					return false
				}
				take(methods[x.Sel.Name])
				ast.Inspect(x.X, visit)
				return false
			case *ast.KeyValueExpr: // a key that is a name is that of a field, or a value that cannot be a function
				if _, ok := x.Key.(*ast.Ident); ok {
					ast.Inspect(x.Value, visit)
					return false
				}
			case *ast.Ident:
				take(functions[x.Name])
			}
			return true
		}
		ast.Inspect(n, visit)
	}
	return called
}

// callsIn returns the calls of an initialization, with their arguments. What is called in turn may be any name in them.
func callsIn(d ast.Node) []ast.Node {
	var calls []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.CallExpr:
			calls = append(calls, n)
			return false
		case *ast.FuncLit: // called later, or inside a call
			return false
		}
		return true
	})
	return calls
}
