package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// original is the name of the template's package and the last element of its path.
const original = "rchca"

var (
	templateWord = regexp.MustCompile(`\b` + original + `(_test)?\b`)
	majorVersion = regexp.MustCompile(`^v[0-9]+$`)
	modulePath   = regexp.MustCompile(`^[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*$`)
)

// checkModule returns an error if module is not a valid module path.
func checkModule(module string) error {
	switch {
	case module == "":
		return errors.New("--module is missing (give the path of your module, such as example.com/acme/hca)")
	case !modulePath.MatchString(module):
		return fmt.Errorf("--module %q is not a module path "+
			"(use letters, digits and . _ ~ - between slashes, such as example.com/acme/hca)", module)
	}
	return nil
}

// packageName returns the package name for a module path: the last element that is not a major version, in lower case.
func packageName(module string) string {
	base := path.Base(module)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(module))
	}
	name := strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, base)
	if name == "" || unicode.IsDigit(rune(name[0])) {
		name = "hca" + name
	}
	return name
}

// renamer copies the template's sources to another module.
type renamer struct{ kit, module, name string }

// check returns an error if the package name is not an identifier, or is used for something else in the template's
// other packages.
func (r *renamer) check(source fs.FS) error {
	if !token.IsIdentifier(r.name) {
		return fmt.Errorf("the package name %q is not a Go identifier (choose another with --name)", r.name)
	}
	return eachGo(source, func(name string, b []byte) error {
		if path.Dir(name) == "." && !strings.HasSuffix(name, "_test.go") {
			return nil // the package itself does not use its name
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, b, 0)
		if err != nil {
			return err
		}
		taken := false
		// Names after a dot, fields and keys do not conflict with a package name.
		var visit func(n ast.Node) bool
		visit = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				ast.Inspect(n.X, visit)
				return false
			case *ast.KeyValueExpr:
				ast.Inspect(n.Value, visit)
				return false
			case *ast.StructType:
				for _, field := range n.Fields.List {
					ast.Inspect(field.Type, visit)
				}
				return false
			case *ast.Ident:
				taken = taken || n.Name == r.name
			}
			return true
		}
		ast.Inspect(f, visit)
		if taken {
			return fmt.Errorf("the package name %q is in use in the template's %s (choose another with --name)",
				r.name, name)
		}
		return nil
	})
}

// rename returns the renamed files by their names, without what belongs to features.
func (r *renamer) rename(source fs.FS, without []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || belongs(name, without) {
			return err
		}
		b, err := fs.ReadFile(source, name)
		if err == nil && path.Ext(name) == ".go" {
			b, err = r.goFile(strip(b, without))
		}
		out[name] = b
		return err
	})
	return out, err
}

// goFile renames the package and its imports in a file.
func (r *renamer) goFile(b []byte) ([]byte, error) {
	const hole = "\x00"
	b = bytes.ReplaceAll(b, []byte(`"`+r.kit+"/templates/"+original), []byte(`"`+hole))
	b = templateWord.ReplaceAll(b, []byte(r.name+"$1"))
	b = bytes.ReplaceAll(b, []byte(hole), []byte(r.module))
	return format.Source(b)
}

func eachGo(source fs.FS, f func(name string, b []byte) error) error {
	return fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" {
			return err
		}
		b, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		return f(name, b)
	})
}
