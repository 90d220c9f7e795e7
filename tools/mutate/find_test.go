package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

// changes returns "operator: old -> new" for each mutant of the body of a function.
func changes(t *testing.T, body string) []string {
	t.Helper()
	src := "package p\n\nfunc f() {\n" + body + "\n}\n"
	found, err := find("x/p.go", []byte(src), []string{"NotFound", "InvalidState", "Timeout"})
	require.NoError(t, err)
	var list []string
	for _, m := range found {
		list = append(list, m.Operator+": "+m.change())
	}
	return list
}

func TestOperators(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"condition", "if ok { g() }", []string{"negate: ok -> !(ok)", "branch: g() -> ", "delete: g() -> "}},
		{"negated condition", "for !ok { g := h }", []string{"negate: !ok -> ok"}},
		{"equality", "if a == b { return }", []string{"negate: == -> !=", "branch: return -> "}},
		{"equality elsewhere", "x := a != b", []string{"comparison: != -> =="}},
		{"both sides", "x := a && !b", []string{"operand: a && !b -> a", "operand: a && !b -> !b"}},
		{"boundaries", "x := a < b || c >= d", []string{"operand: a < b || c >= d -> a < b",
			"operand: a < b || c >= d -> c >= d", "boundary: < -> <=", "boundary: >= -> >"}},
		{"arithmetic", "x := a + b<<c", []string{"arithmetic: + -> -", "arithmetic: << -> >>"}},
		{"text", `x := a + ": " + b`, nil},
		{"assignment", "a += b", []string{"delete: a += b -> ", "arithmetic: += -> -="}},
		{"definition", "a := b", nil},
		{"discarded value", "_ = a", nil},
		{"step", "a++", []string{"delete: a++ -> ", "arithmetic: ++ -> --"}},
		{"loop header", "for ; ; a++ { }", []string{"arithmetic: ++ -> --"}},
		{"constant", "x := 2", []string{"constant: 2 -> 3", "constant: 2 -> 1"}},
		{"hexadecimal", "x := 0xff", []string{"constant: 0xff -> 0x100", "constant: 0xff -> 0xfe"}},
		{"zero has no constant below", "x := 0", []string{"constant: 0 -> 1"}},
		{"capacity", "x := make([]int, n, n+1); y := slices.Grow(x, 4)", []string{"arithmetic: + -> -"}},
		{"length", "x := make([]int, 1)", []string{"constant: 1 -> 2", "constant: 1 -> 0"}},
		{"locks and messages stay", "mu.Lock(); defer mu.Unlock(); log.Warn(x); panic(x)", nil},
		{"counters for operators", "d.count.add(X, 1); o.count.N += 2; o.count.N++; p.Stats.X.Add(1)", nil},
		{"a branch that counts", "if a < b { q.stats.lost.Add(1) }; switch { case a == b: m.count.drop(X) }",
			[]string{"comparison: == -> !="}},
		{"a branch that does more", "if a { l.count--; q.count.N++ }", []string{"negate: a -> !(a)",
			"branch: l.count--; q.count.N++ -> ", "delete: l.count-- -> ", "arithmetic: -- -> ++"}},
		{"a field count", "l.count--", []string{"delete: l.count-- -> ", "arithmetic: -- -> ++"}},
		{"other additions", "wg.Add(1)", []string{"delete: wg.Add(1) -> ", "constant: 1 -> 2", "constant: 1 -> 0"}},
		{"results beside an error", "if err != nil { return 0, err }; return 1, &ci.Error{}",
			[]string{"negate: != -> ==", "branch: return 0, err -> "}},
		{"results beside errors of packages", "return 0, errClosed; return 1, net.ErrClosed", nil},
		{"results beside values with similar names", "return 0, errs; return 1, x.Erratum",
			[]string{"constant: 0 -> 1", "constant: 1 -> 2", "constant: 1 -> 0"}},
		{"results beside what may be an error", "return 0, err", []string{"constant: 0 -> 1"}},
		{"arguments of an error", "return fail(x, 0)", []string{"constant: 0 -> 1"}},
		{"deferred call", "defer close(c)", []string{"delete: defer close(c) -> "}},
		{"case", "switch { case a: g(); h() }", []string{"branch: g(); h() -> ", "delete: g() -> ", "delete: h() -> "}},
		{"else", "if a { } else { g() }", []string{"negate: a -> !(a)", "branch: g() -> ", "delete: g() -> "}},
		{"only status of the file", "return ci.NotFound", []string{"status: NotFound -> InvalidState"}},
		{"statuses of the file", "return fail(ci.Timeout, ci.NotFound)", []string{"status: Timeout -> NotFound",
			"status: NotFound -> Timeout"}},
		{"other names of ci", "return ci.Success", nil},
		{"status that is compared", "return s == ci.NotFound", []string{"comparison: == -> !="}},
		{"status that is not returned", "s := ci.NotFound", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, changes(t, tt.body))
		})
	}
}

func TestFunctionNames(t *testing.T) {
	src := `package p
func f() { g() }
func (t T) v() { g() }
func (t *T) p() { g() }
func (t *G[K]) g() { g() }
func (m M[K, V]) two() { g() }
`
	found, err := find("a/b/p.go", []byte(src), nil)
	require.NoError(t, err)
	var names []string
	for _, m := range found {
		names = append(names, m.Function)
	}
	assert.Equal(t, []string{"a/b.f", "a/b.T.v", "a/b.(*T).p", "a/b.(*G).g", "a/b.M.two"}, names)
}

func TestApply(t *testing.T) {
	src := []byte("package p\n\nfunc f() int {\n\tif a() {\n\t\tg()\n\t\th()\n\t}\n\treturn 3\n}\n")
	found, err := find("p.go", src, nil)
	require.NoError(t, err)
	for _, m := range found {
		out := m.apply(src)
		assert.NotEqual(t, src, out)
		assert.Equal(t, bytes.Count(src, []byte("\n")), bytes.Count(out, []byte("\n")), "lines move: %s", m.change())
		_, err := find("p.go", out, nil)
		assert.NoError(t, err, "no Go: %s", m.change())
	}
	branch := found[1]
	require.Equal(t, opBranch, branch.Operator)
	assert.Equal(t, "- \t\tg()\n- \t\th()\n", branch.diff(src))
	last := found[len(found)-1]
	require.Equal(t, opConstant, last.Operator)
	assert.Equal(t, 8, last.Line)
	assert.Equal(t, "- \treturn 3\n+ \treturn 2\n", last.diff(src))
}

// TestTree applies every mutant of one package and checks that the result is still Go.
func TestTree(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	all, _, err := load(root, []string{"accesslayer/internal/hold", "sma"})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	seen := map[string]bool{}
	for i := range all {
		m := &all[i]
		assert.False(t, seen[m.id()], "two mutants have the id %s", m.id())
		seen[m.id()] = true
	}
	m := &all[len(all)/2]
	src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	require.NoError(t, err)
	assert.Equal(t, m.Old, string(src[m.Start:m.Start+len(m.Old)]))
}

func TestSources(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	files, err := sources(root, []string{"sma"})
	require.NoError(t, err)
	assert.Contains(t, files, "sma/agent.go")
	for _, f := range files {
		assert.True(t, strings.HasPrefix(f, "sma/"), f)
		assert.NotContains(t, f, "_test.go")
	}
	_, err = sources(root, []string{"sm"})
	assert.EqualError(t, err, "no Go file below sm")
}

func TestIsForSystem(t *testing.T) {
	for _, tt := range []struct {
		name, text, goos string
		want             bool
	}{
		{"a.go", "package p", "linux", true},
		{"a_linux.go", "package p", "linux", true},
		{"a_windows.go", "package p", "linux", false},
		{"a_linux_amd64.go", "package p", "linux", true},
		{"a_linux_arm64.go", "package p", "linux", false},
		{"a_other.go", "//go:build !linux\n\npackage p", "linux", false},
		{"a_unix.go", "//go:build unix\n\npackage p", "darwin", true},
		{"a_unix.go", "//go:build unix\n\npackage p", "windows", false},
		{"a.go", "//go:build race\n\npackage p", "linux", false},
		{"a.go", "//go:build go1.26 && !race\n\npackage p", "linux", true},
	} {
		assert.Equal(t, tt.want, isForSystem(tt.name, tt.text, tt.goos, "amd64"), "%+v", tt)
	}
}

func TestStatusNames(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(root, "ci", "status.go"))
	require.NoError(t, err)
	names, err := statusNames(b)
	require.NoError(t, err)
	assert.Contains(t, names, "InvalidParameter")
	assert.Equal(t, "InsufficientResources", names[0])
	_, err = statusNames([]byte("package ci\n"))
	assert.Error(t, err)
}
