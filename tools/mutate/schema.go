package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Environment variables of a binary with guarded mutants: the number of the mutant, and the file of a reach run.
const (
	selectVar = "DDK_MUTANT"
	reachVar  = "DDK_MUTANT_REACH"
)

//go:embed selector.go.txt
var selectorText string

// schema is a binary that has many guarded mutants.
type schema struct {
	bin     string
	numbers map[string]int    // by id of the mutant
	broken  map[string]string // by id: those that do not compile, and why
	reach   *reach            // nil: not measured
}

// schemaBuild is the state of a build.
type schemaBuild struct {
	j        *judge
	dir      string
	module   string
	all      map[int]*mutant
	broken   map[int]string // what the compiler says about a mutant
	alone    map[int]bool   // needs a build of its own
	replaced map[string]string
	files    map[string]*guarded // by name
}

// maxSchemaBuilds bounds the builds until all mutants that remain compile. A build reports the errors of the packages
// that import no broken one.
const maxSchemaBuilds = 20

// newSchema builds a binary with the mutants that can be guarded. Without one it returns nil.
func (j *judge) newSchema(ctx context.Context, dir string, list []*mutant) (*schema, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	b := &schemaBuild{j: j, dir: dir, all: map[int]*mutant{}, broken: map[int]string{}, alone: map[int]bool{}}
	for i, m := range list {
		b.all[i+1] = m
	}
	var err error
	if b.module, err = moduleName(j.root); err != nil {
		return nil, err
	}
	for range maxSchemaBuilds {
		overlay, err := b.write()
		if err != nil {
			return nil, err
		}
		if len(b.files) == 0 {
			return nil, nil
		}
		bin, output, err := j.build(ctx, filepath.Join(filepath.Base(dir), "guarded"), overlay)
		if err != nil {
			return nil, err
		}
		if bin != "" {
			return b.schema(bin), nil
		}
		if !b.drop(output) {
			fmt.Fprintf(j.out, "mutants are built one at a time, because one build of all fails: %s\n",
				shorten(oneLine(output)))
			return nil, nil
		}
	}
	fmt.Fprintf(j.out, "mutants are built one at a time, because %d builds of all failed\n", maxSchemaBuilds)
	return nil, nil
}

func (b *schemaBuild) schema(bin string) *schema {
	s := &schema{bin: bin, numbers: map[string]int{}, broken: map[string]string{}}
	for n, m := range b.all {
		if why, isBroken := b.broken[n]; isBroken {
			s.broken[m.id()] = why
		} else if !b.alone[n] {
			s.numbers[m.id()] = n
		}
	}
	return s
}

// write writes the overlay with the mutants that remain, and returns its description.
func (b *schemaBuild) write() (string, error) {
	b.replaced, b.files = map[string]string{}, map[string]*guarded{}
	byFile := map[string]map[int]*mutant{}
	for n, m := range b.all {
		if _, isBroken := b.broken[n]; isBroken || b.alone[n] {
			continue
		}
		if byFile[m.File] == nil {
			byFile[m.File] = map[int]*mutant{}
		}
		byFile[m.File][n] = m
	}
	initial := map[string]map[string]bool{}
	for name, numbers := range byFile {
		folder := path.Dir(name)
		if initial[folder] == nil {
			files, err := parseFolder(b.j.root, folder)
			if err != nil {
				return "", err
			}
			initial[folder] = calledAtInit(files)
		}
		src, err := os.ReadFile(filepath.Join(b.j.root, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		g, alone, err := guard(name, src, numbers, initial[folder])
		if err != nil {
			return "", err
		}
		for _, n := range alone {
			b.alone[n] = true
		}
		if len(alone) == len(numbers) {
			continue
		}
		b.files[name] = g
		if err := b.replace(name, g.src); err != nil {
			return "", err
		}
		if err := b.replace(path.Join(folder, generatedFile), fmt.Appendf(nil, `package %s

import %q

var (
	%s = %s.Selected
	%s = %s.Records
)

func %s(numbers ...int) { %s.Reach(numbers...) }
`, g.pkg, b.module+"/internal/"+selectorName, selectedName, selectorName, recordsName, selectorName, reachName,
			selectorName)); err != nil {
			return "", err
		}
	}
	// The text is the same for all samples, so that the build cache keeps what depends on it.
	text := strings.NewReplacer("SELECTVAR", selectVar, "REACHVAR", reachVar).Replace(selectorText)
	if err := b.replace("internal/"+selectorName+"/ddkmut.go", []byte(text)); err != nil {
		return "", err
	}
	if err := b.replaceWorker(); err != nil {
		return "", err
	}
	description, err := json.Marshal(map[string]any{"Replace": b.replaced})
	if err != nil {
		return "", err
	}
	name := filepath.Join(b.dir, "overlay.json")
	return name, os.WriteFile(name, description, 0o644)
}

// replace writes a file of the overlay.
func (b *schemaBuild) replace(name string, src []byte) error {
	file := filepath.Join(b.dir, strings.ReplaceAll(name, "/", "__"))
	b.replaced[filepath.Join(b.j.root, filepath.FromSlash(name))] = file
	return os.WriteFile(file, src, 0o644)
}

// workerFile is the file of the certifier that runs the cases of a worker process, relative to the module's root.
const workerFile = "validate/worker.go"

// replaceWorker adds to the certifier that it names the case that runs. A tree without that file, such as one of a
// test, has runs without cases.
func (b *schemaBuild) replaceWorker() error {
	src, err := os.ReadFile(filepath.Join(b.j.root, filepath.FromSlash(workerFile)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	src, err = namingCases(src, b.module)
	if err != nil {
		return err
	}
	return b.replace(workerFile, src)
}

// namingCases returns the source of workerFile with calls of Case. What is executed before a case begins, such as the
// opening of the adapter, belongs to no case.
func namingCases(src []byte, module string) ([]byte, error) {
	for _, r := range [][2]string{
		{"import (\n", "import (\n\t\"" + module + "/internal/" + selectorName + "\"\n"},
		{"e.onBegin = func() {", "e.onBegin = func() { " + selectorName + ".Case(cs.ID);"},
		{"r := e.run(ctx, j)\n", "r := e.run(ctx, j)\n" + selectorName + ".Case(\"\")\n"},
	} {
		if n := bytes.Count(src, []byte(r[0])); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, want once: change namingCases", workerFile, r[0], n)
		}
		src = bytes.Replace(src, []byte(r[0]), []byte(r[1]), 1)
	}
	return src, nil
}

// compilerLine matches an error of the compiler: file, line and text.
var compilerLine = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):(?:\d+:)? (.*)$`)

// drop removes the mutants that the compiler rejects, and reports whether there was one. An error in the body of a copy
// is one of the mutant. Mutants with another error need a build of their own, and so do those of a file with an error
// outside of all copies.
func (b *schemaBuild) drop(output string) bool {
	hasDropped := false
	for _, e := range compilerLine.FindAllStringSubmatch(output, -1) {
		name := b.fileOf(e[1])
		if name == "" {
			continue
		}
		line, err := strconv.Atoi(e[2])
		if err != nil {
			continue
		}
		s := b.files[name].spanAt(line)
		switch {
		case s == nil:
			for n, m := range b.all {
				if m.File == name {
					b.alone[n] = true
				}
			}
		case s.isBody:
			b.broken[s.number] = e[3]
		default:
			b.alone[s.number] = true
		}
		hasDropped = true
	}
	return hasDropped
}

// fileOf returns the guarded file that the compiler names, in the form of the tree, of the module or of the overlay.
func (b *schemaBuild) fileOf(name string) string {
	name = strings.TrimPrefix(filepath.ToSlash(name), "./")
	name = strings.TrimPrefix(name, b.module+"/")
	for f := range b.files {
		if name == f || strings.HasSuffix(name, "/"+f) || path.Base(name) == strings.ReplaceAll(f, "/", "__") {
			return f
		}
	}
	return ""
}

// parseFolder returns the files of a package that a default build of this system has.
func parseFolder(root, folder string) ([]*ast.File, error) {
	dir := filepath.Join(root, filepath.FromSlash(folder))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if !isForSystem(e.Name(), string(src), runtime.GOOS, runtime.GOARCH) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// moduleName returns the path of the module.
func moduleName(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "module" {
			return f[1], nil
		}
	}
	return "", errors.New("go.mod has no module line")
}

// One binary is worth its build from minGuarded mutants on. It can have maxGuarded of them, as selector.go.txt says.
const (
	minGuarded = 3
	maxGuarded = 1<<16 - 1
)

// minReach is the number of mutants from which on the reach of all runs is worth a run of each.
const minReach = 20

// prepare builds a binary for the mutants of a round. Those that it does not have are built one at a time.
func (j *judge) prepare(ctx context.Context, round []*mutant) error {
	j.schema = nil
	round = slices.DeleteFunc(slices.Clone(round), func(m *mutant) bool { return isKit(path.Dir(m.File)) })
	if len(round) < minGuarded || len(round) > maxGuarded {
		return nil
	}
	j.numSchemas++
	s, err := j.newSchema(ctx, filepath.Join(j.dir, fmt.Sprintf("schema%d", j.numSchemas)), round)
	if err != nil || s == nil {
		return err
	}
	if j.hasReach && len(s.numbers) >= minReach {
		s.reach = &reach{j: j, bin: s.bin, dir: filepath.Dir(s.bin), runs: map[string]*reachRun{}}
	}
	j.schema = s
	return nil
}
