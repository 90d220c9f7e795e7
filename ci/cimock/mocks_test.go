package cimock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// mocked pairs each interface of ci with its mock.
var mocked = map[string][2]reflect.Type{
	"Object":     {reflect.TypeFor[ci.Object](), reflect.TypeFor[*MockObject]()},
	"Unwrapper":  {reflect.TypeFor[ci.Unwrapper](), reflect.TypeFor[*MockUnwrapper]()},
	"HCA":        {reflect.TypeFor[ci.HCA](), reflect.TypeFor[*MockHCA]()},
	"Registrar":  {reflect.TypeFor[ci.Registrar](), reflect.TypeFor[*MockRegistrar]()},
	"CA":         {reflect.TypeFor[ci.CA](), reflect.TypeFor[*MockCA]()},
	"Process":    {reflect.TypeFor[ci.Process](), reflect.TypeFor[*MockProcess]()},
	"UserCA":     {reflect.TypeFor[ci.UserCA](), reflect.TypeFor[*MockUserCA]()},
	"PD":         {reflect.TypeFor[ci.PD](), reflect.TypeFor[*MockPD]()},
	"AV":         {reflect.TypeFor[ci.AV](), reflect.TypeFor[*MockAV]()},
	"CQ":         {reflect.TypeFor[ci.CQ](), reflect.TypeFor[*MockCQ]()},
	"SRQ":        {reflect.TypeFor[ci.SRQ](), reflect.TypeFor[*MockSRQ]()},
	"QP":         {reflect.TypeFor[ci.QP](), reflect.TypeFor[*MockQP]()},
	"Mcast":      {reflect.TypeFor[ci.Mcast](), reflect.TypeFor[*MockMcast]()},
	"MR":         {reflect.TypeFor[ci.MR](), reflect.TypeFor[*MockMR]()},
	"FMR":        {reflect.TypeFor[ci.FMR](), reflect.TypeFor[*MockFMR]()},
	"MW":         {reflect.TypeFor[ci.MW](), reflect.TypeFor[*MockMW]()},
	"RDD":        {reflect.TypeFor[ci.RDD](), reflect.TypeFor[*MockRDD]()},
	"EEC":        {reflect.TypeFor[ci.EEC](), reflect.TypeFor[*MockEEC]()},
	"Memory":     {reflect.TypeFor[ci.Memory](), reflect.TypeFor[*MockMemory]()},
	"FileMemory": {reflect.TypeFor[ci.FileMemory](), reflect.TypeFor[*MockFileMemory]()},
	"DMA":        {reflect.TypeFor[ci.DMA](), reflect.TypeFor[*MockDMA]()},

	"BatchMemory":      {reflect.TypeFor[ci.BatchMemory](), reflect.TypeFor[*MockBatchMemory]()},
	"Copier":           {reflect.TypeFor[ci.Copier](), reflect.TypeFor[*MockCopier]()},
	"PersistentMemory": {reflect.TypeFor[ci.PersistentMemory](), reflect.TypeFor[*MockPersist]()},
	"AtomicMemory":     {reflect.TypeFor[ci.AtomicMemory](), reflect.TypeFor[*MockAtomicMemory]()},

	"UndeliveredReporter": {reflect.TypeFor[ci.UndeliveredReporter](), reflect.TypeFor[*MockUndeliveredReporter]()},
	"PeerActivity":        {reflect.TypeFor[ci.PeerActivity](), reflect.TypeFor[*MockPeerActivity]()},
	"UserObject":          {reflect.TypeFor[ci.UserObject](), reflect.TypeFor[*MockUserObject]()},
	"UserRegion":          {reflect.TypeFor[ci.UserRegion](), reflect.TypeFor[*MockUserRegion]()},
}

func TestEveryInterfaceHasAMock(t *testing.T) {
	t.Parallel()
	assert.ElementsMatch(t, interfacesOfCI(t), slices.Collect(maps.Keys(mocked)),
		"interfaces of package ci differ from this table: update the table and the go:generate line, then go generate")
}

func TestMocksAreFresh(t *testing.T) {
	t.Parallel()
	for name, pair := range mocked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := methods(pair[0], 0), methods(pair[1], 1)
			require.Contains(t, got, "EXPECT")
			delete(got, "EXPECT")
			assert.Equal(t, want, got, "stale mock: run go generate in ci/cimock")
		})
	}
}

// methods returns the signatures of a type's methods, without the first skip parameters: the receiver of a concrete
// type.
func methods(typ reflect.Type, skip int) map[string]string {
	m := map[string]string{}
	for method := range typ.Methods() {
		fn := method.Type
		var in, out []reflect.Type
		for j := skip; j < fn.NumIn(); j++ {
			in = append(in, fn.In(j))
		}
		for result := range fn.Outs() {
			out = append(out, result)
		}
		m[method.Name] = reflect.FuncOf(in, out, fn.IsVariadic()).String()
	}
	return m
}

func interfacesOfCI(t *testing.T) (names []string) {
	files, err := filepath.Glob(filepath.Join("..", "*.go"))
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), f, src, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				ts, ok := s.(*ast.TypeSpec)
				if ok && ast.IsExported(ts.Name.Name) {
					if _, is := ts.Type.(*ast.InterfaceType); is {
						names = append(names, ts.Name.Name)
					}
				}
			}
		}
	}
	return names
}
