package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ciddk/tools/layers"
)

// A finding is a violation of a rule.
type finding struct {
	file string // relative to the root, with slashes
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text) }

// checkTree checks all Go files below root, except generated ones and test data.
func checkTree(root string) ([]finding, error) {
	files, err := layers.Files(root, ".go")
	if err != nil {
		return nil, err
	}
	var all []finding
	for _, name := range files {
		if strings.Contains(name, "testdata/") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if !ast.IsGenerated(f) {
			all = append(all, checkFile(fset, f, name)...)
		}
	}
	return all, nil
}

// checkFile checks one file.
func checkFile(fset *token.FileSet, f *ast.File, name string) []finding {
	c := checker{fset: fset, name: name}
	if f.Doc != nil {
		c.opening(f.Doc, "")
	}
	for _, g := range f.Comments {
		c.orphan(g)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			c.opening(n.Doc, n.Name.Name)
			c.subject(n.Doc, n.Name.Name)
		case *ast.TypeSpec:
			c.opening(n.Doc, n.Name.Name)
		case *ast.ValueSpec:
			c.opening(n.Doc, n.Names[0].Name)
		case *ast.GenDecl:
			c.genDecl(n)
		case *ast.Field:
			c.field(n)
		case *ast.AssignStmt:
			c.assignment(n)
		}
		return true
	})
	slices.SortStableFunc(c.found, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	return c.found
}

type checker struct {
	fset  *token.FileSet
	name  string
	found []finding
}

func (c *checker) add(n ast.Node, format string, args ...any) {
	c.found = append(c.found, finding{c.name, c.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)})
}

// orphan checks that no line within a paragraph of a comment has a single word after a line that is nearly full.
func (c *checker) orphan(g *ast.CommentGroup) {
	const nearlyFull = 95
	isText := func(s string) bool { return strings.HasPrefix(s, "// ") && !strings.HasPrefix(s, "//  ") }
	for i := 1; i < len(g.List)-1; i++ {
		before, word, after := g.List[i-1].Text, g.List[i].Text, g.List[i+1].Text
		if isText(word) && isText(after) && len(before) >= nearlyFull && len(strings.Fields(word)) == 2 {
			c.add(g.List[i], "the word %q has a line of its own: reflow the comment", word[3:])
		}
	}
}

// verbs are openings of doc comments that hide what a function does: it returns, reports, sets, creates.
var verbs = []string{"tells", "gives", "says", "knows", "asks", "hears", "shows", "wants"}

// opening checks the first words of a doc comment: NAME VERB, or VERB alone.
func (c *checker) opening(doc *ast.CommentGroup, name string) {
	if doc == nil {
		return
	}
	words := strings.Fields(doc.Text())
	if len(words) > 1 && words[0] == name {
		words = words[1:]
	}
	if len(words) > 0 && slices.Contains(verbs, strings.ToLower(words[0])) {
		c.add(doc, "the comment of %s opens with %q: write what it returns, reports, sets or creates", name, words[0])
	}
}

// about matches a doc comment that opens with the name of a function and what that does.
var about = regexp.MustCompile(`^([a-z]+[A-Z]\w*|[A-Z][a-z]{2,}[A-Z]\w*) (adds|checks|creates|does|ends|` +
	`opens|prints|reads|removes|reports|returns|runs|sends|sets|starts|tests|waits|writes) `)

// formerly matches a doc comment that opens with a word in lower case and a verb.
var formerly = regexp.MustCompile(`^([a-z]{3,}) [a-z]+s `)

// subject checks that the doc comment of a function is about that one, and not about one from which it was copied.
func (c *checker) subject(doc *ast.CommentGroup, name string) {
	if doc == nil {
		return
	}
	isTest := func(s string) bool { return strings.HasPrefix(s, "Test") }
	// The comment of a test may be about the function that it tests.
	if m := about.FindStringSubmatch(doc.Text()); m != nil && m[1] != name && isTest(m[1]) == isTest(name) {
		c.add(doc, "the comment of %s is about %s", name, m[1])
		return
	}
	// A part of the name, in front of a verb, is what the function was called before.
	if m := formerly.FindStringSubmatch(doc.Text()); m != nil && m[1] != name && !isTest(name) &&
		(strings.HasPrefix(name, m[1]) || strings.HasSuffix(strings.ToLower(name), m[1])) {
		c.add(doc, "the comment of %s is about %s", name, m[1])
	}
}

func (c *checker) genDecl(d *ast.GenDecl) {
	if d.Doc == nil || len(d.Specs) == 0 {
		return
	}
	switch s := d.Specs[0].(type) {
	case *ast.TypeSpec:
		c.opening(d.Doc, s.Name.Name)
	case *ast.ValueSpec:
		c.opening(d.Doc, s.Names[0].Name)
	}
}

func (c *checker) field(f *ast.Field) {
	if len(f.Names) > 0 {
		c.opening(f.Doc, f.Names[0].Name)
	}
}

// maxTargets is the number of targets that an assignment may have, if they do not come from one call or expression.
const maxTargets = 3

func (c *checker) assignment(a *ast.AssignStmt) {
	if len(a.Lhs) <= maxTargets || len(a.Rhs) == 1 {
		return
	}
	c.add(a, "%d targets in one assignment, want at most %d", len(a.Lhs), maxTargets)
}
