package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

// source is one parsed Go file of the tree.
type source struct {
	name   string // below the root
	folder string
	test   bool
	fset   *token.FileSet
	file   *ast.File
}

func (s *source) at(p token.Pos) string { return fmt.Sprintf("%s:%d", s.name, s.fset.Position(p).Line) }

func sources(t *testing.T) (module string, all []*source) {
	t.Helper()
	root, err := modroot.Find()
	require.NoError(t, err)
	module, err = Module(root)
	require.NoError(t, err)
	names, err := Files(root, ".go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.Contains(name, "/testdata/") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
		if !assert.NoError(t, err) {
			continue
		}
		all = append(all, &source{name: name, folder: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			fset: fset, file: f})
	}
	require.NotEmpty(t, all)
	return module, all
}

func imports(s *source) map[string]*ast.ImportSpec {
	m := map[string]*ast.ImportSpec{}
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil {
			m[p] = i
		}
	}
	return m
}

// TestImports checks the imports of the whole tree against the layer table.
func TestImports(t *testing.T) {
	rows, err := Rows()
	require.NoError(t, err)
	module, all := sources(t)
	for _, s := range all {
		for p, spec := range imports(s) {
			if err := Check(rows, module, s.folder, p, s.test); err != nil {
				t.Errorf("%s: %v", s.at(spec.Pos()), err)
			}
		}
	}
}

// TestUnsafeAndC checks that unsafe is imported only by files called *_unsafe.go, and cgo not by the default build.
func TestUnsafeAndC(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		in := imports(s)
		if spec, ok := in["unsafe"]; ok && !strings.Contains(path.Base(s.name), "_unsafe") {
			t.Errorf("%s: unsafe belongs in a file called *_unsafe.go", s.at(spec.Pos()))
		}
		if spec, ok := in["C"]; ok {
			t.Errorf("%s: the kit is pure Go", s.at(spec.Pos()))
		}
	}
}

// seeded are the names of math/rand/v2 that take a source; the others draw from a global one, which no seed replays.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}

// TestReplayable rejects what cannot be replayed by a seed: sleeps in tests, the old math/rand, and in libraries the
// global source of math/rand/v2.
func TestReplayable(t *testing.T) {
	rows, err := Rows()
	require.NoError(t, err)
	_, all := sources(t)
	for _, s := range all {
		in := imports(s)
		if spec, ok := in["math/rand"]; ok {
			t.Errorf("%s: use math/rand/v2 with a source that is passed in", s.at(spec.Pos()))
		}
		_, sleeps := in["time"]
		if _, bubble := in["testing/synctest"]; bubble {
			sleeps = false // a sleep in a bubble lets virtual time pass
		}
		_, draws := in["math/rand/v2"]
		at := Find(rows, s.folder)
		draws = draws && at >= 0 && !slices.Contains(rows[at].Own, Any) // programs may use the global source
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			if sleeps && s.test && x.Name == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s: a test waits for a condition or runs in a synctest bubble; it does not sleep",
					s.at(n.Pos()))
			}
			if draws && !s.test && x.Name == "rand" && x.Obj == nil && !slices.Contains(seeded, sel.Sel.Name) {
				t.Errorf("%s: rand.%s draws from the global source; pass a *rand.Rand", s.at(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

// Forbidden words are put together here, so that this file does not contain them.
var (
	machine = regexp.MustCompile(`(\.\./shared)|((^|[^\w.~}$/-])/(work|root|home)/[\w.])`)
	hosts   = regexp.MustCompile(`\b(proxy|sum)\.golang\.` + `org|registry\.npm` + `js|py` + `pi\.org|deb\.debian\.` +
		`org|GO` + `PROXY=http`)
	loose = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|(["\x60]|// ?|: )[Nn]ot (yet )?imple` + `mented\b`)
)

// TestWords checks that no text file contains paths of this machine, registry hosts, or marks of unfinished work.
func TestWords(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	names, err := Files(root, ".go", ".md", ".sh", ".yml", ".yaml", ".txt", ".svg", ".json", ".py", "")
	require.NoError(t, err)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for i, line := range strings.Split(string(b), "\n") {
			at := fmt.Sprintf("%s:%d", name, i+1)
			if m := machine.FindString(line); m != "" {
				t.Errorf("%s: a path of one machine: %q", at, m)
			}
			if m := hosts.FindString(line); m != "" {
				t.Errorf("%s: a package registry's host: %q", at, m)
			}
			if m := loose.FindString(line); m != "" && name != "LICENSE" {
				t.Errorf("%s: unfinished work: %q", at, m)
			}
		}
	}
}

func TestForbiddenWords(t *testing.T) {
	assert.Regexp(t, machine, "see ../"+"shared/x")
	assert.Regexp(t, machine, "in /"+"work/main")
	assert.NotRegexp(t, machine, "https://example.org/work/x and $HOME/work/x")
	assert.Regexp(t, hosts, "proxy.golang."+"org")
	assert.Regexp(t, loose, "// TO"+"DO: later")
	assert.Regexp(t, loose, `errors.New("not imple`+`mented")`)
	assert.Regexp(t, loose, `verb: not yet imple`+`mented`)
	assert.NotRegexp(t, loose, "Method")
	assert.NotRegexp(t, loose, "a capability that is not implemented")
}

var link = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)

// TestLinks checks that every relative link of every page leads to a file.
func TestLinks(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	names, err := Files(root, ".md")
	require.NoError(t, err)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			_, err := os.Stat(filepath.Join(root, path.Dir(name), m[1]))
			assert.NoError(t, err, "%s links to %s", name, m[1])
		}
	}
}

var requirement = regexp.MustCompile(`\bSAS-(0|2\.[1-4])-\d\d\b`)

// TestRequirementIDs checks that every requirement id in code is in docs/sas/requirements.md.
func TestRequirementIDs(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "sas", "requirements.md"))
	require.NoError(t, err)
	known := map[string]bool{}
	for _, id := range requirement.FindAllString(string(page), -1) {
		known[id] = true
	}
	assert.Len(t, known, 92, "the specification has 92 requirements")
	names, err := Files(root, ".go", ".md")
	require.NoError(t, err)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, id := range requirement.FindAllString(string(b), -1) {
			assert.True(t, known[id], "%s names %s, which is no requirement", name, id)
		}
	}
}

var deviation = regexp.MustCompile(`\bD-\d\d\b`)

// TestDeviationIDs checks that every deviation named by a page or a comment is defined once in docs/sas/deviations.md.
func TestDeviationIDs(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "sas", "deviations.md"))
	require.NoError(t, err)
	defined := map[string]int{}
	for line := range strings.Lines(string(page)) {
		if id, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && deviation.MatchString(id) {
			defined[id]++
		}
	}
	require.NotEmpty(t, defined)
	for id, n := range defined {
		assert.Equal(t, 1, n, "%s is defined more than once", id)
	}
	names, err := Files(root, ".go", ".md")
	require.NoError(t, err)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, id := range deviation.FindAllString(string(b), -1) {
			assert.Positive(t, defined[id], "%s names %s, which docs/sas/deviations.md does not have", name, id)
		}
	}
}
