package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ciSource holds the parts of package ci that the pages need: constants with their comments, and interfaces with their
// methods.
type ciSource struct {
	fset    *token.FileSet
	doc     string                // of the package
	consts  map[string][]constant // by type name, in order
	ifaces  map[string]*ast.InterfaceType
	ifcdocs map[string]string
}

type constant struct{ name, doc string }

func parseCI(dir string) (*ciSource, error) {
	s := &ciSource{fset: token.NewFileSet(), consts: map[string][]constant{}, ifaces: map[string]*ast.InterfaceType{},
		ifcdocs: map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if e.Name() == "doc.go" {
			s.doc = f.Doc.Text()
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.collect(g)
			}
		}
	}
	if s.doc == "" {
		return nil, fmt.Errorf("%s: no package comment in doc.go", dir)
	}
	return s, nil
}

func (s *ciSource) collect(g *ast.GenDecl) {
	last := ""
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			if g.Tok != token.CONST {
				continue
			}
			if id, ok := spec.Type.(*ast.Ident); ok {
				last = id.Name
			} else if len(spec.Values) > 0 {
				last = ""
			}
			if last != "" {
				s.consts[last] = append(s.consts[last],
					constant{spec.Names[0].Name, oneLine(spec.Doc.Text() + " " + spec.Comment.Text())})
			}
		case *ast.TypeSpec:
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				s.ifaces[spec.Name.Name] = i
				s.ifcdocs[spec.Name.Name] = oneLine(spec.Doc.Text() + g.Doc.Text())
			}
		}
	}
}

// A method is one verb.
type method struct {
	name, doc, sig string
}

func (s *ciSource) methods(iface string) []method {
	i, ok := s.ifaces[iface]
	if !ok {
		return nil
	}
	var l []method
	for _, f := range i.Methods.List {
		fn, ok := f.Type.(*ast.FuncType)
		if !ok {
			if id, ok := f.Type.(*ast.Ident); ok && id.Name == "Object" {
				l = append(l, method{"Destroy", oneLine(f.Doc.Text()), "Destroy() error"})
			}
			continue
		}
		var b strings.Builder
		if err := printer.Fprint(&b, s.fset, fn); err != nil {
			continue
		}
		l = append(l, method{f.Names[0].Name, oneLine(f.Doc.Text()),
			f.Names[0].Name + strings.TrimPrefix(oneLine(b.String()), "func")})
	}
	return l
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cell escapes s for a Markdown table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

var (
	statusRE   = regexp.MustCompile(`[Ss]tatus: (.*?)(?:\. |\.?$)`)
	contextRE  = regexp.MustCompile(`[Cc]ontext(?: of Destroy)?: (thread|callback|data|drain)`)
	capRE      = regexp.MustCompile(`\bCap[A-Z]\w+`)
	nameRE     = regexp.MustCompile(`\b[A-Z]\w+`)
	ciNameRE   = regexp.MustCompile(`\bci_\w+`)
	callbackRE = regexp.MustCompile(`Destroy may be called from a callback`)
	reqRE      = regexp.MustCompile(`\[(SAS-[^\]]*)\]`)
	reqPartRE  = regexp.MustCompile(`(…)?\s*(SAS-\d(?:\.\d)?)?-(\d\d)`)
)

// requirements returns the ids in square brackets of a comment, expanded: "[SAS-2.1-13 … -16]" stands for four.
func requirements(doc string) []string {
	var l []string
	for _, m := range reqRE.FindAllStringSubmatch(doc, -1) {
		section, last := "", 0
		for _, p := range reqPartRE.FindAllStringSubmatch(m[1], -1) {
			if p[2] != "" {
				section = p[2]
			}
			n, err := strconv.Atoi(p[3])
			if err != nil {
				continue
			}
			first := n
			if p[1] != "" {
				first = last + 1
			}
			for ; first <= n; first++ {
				l = append(l, fmt.Sprintf("%s-%02d", section, first))
			}
			last = n
		}
	}
	return l
}

// statuses returns the names of Status constants that a comment's "Status:" sentences list.
func (s *ciSource) statuses(doc string) []string {
	var l []string
	for _, m := range statusRE.FindAllStringSubmatch(doc, -1) {
		for _, n := range nameRE.FindAllString(m[1], -1) {
			known := slices.ContainsFunc(s.consts["Status"], func(c constant) bool { return c.name == n })
			if known && !slices.Contains(l, n) {
				l = append(l, n)
			}
		}
	}
	return l
}
