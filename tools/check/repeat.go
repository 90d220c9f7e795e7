package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"ciddk/tools/layers"
)

// repetition configures the step repeat.
type repetition struct {
	runs     int    // of each package
	busy     int    // processes that compete with the tests
	file     string // results, which a later run resumes
	packages string // patterns of the go command, separated by spaces
}

// repeated is the result of a package: a row of the file.
type repeated struct {
	pkg            string // below the module
	sum            string // of the programs and files that the result is about
	commit         string
	passed, failed int
	longest        time.Duration
	busy           int
	load           float64 // mean number of processes that ran or waited for a processor; 0 if unknown
}

const repeatHead = "package\tsum\tcommit\tpassed\tfailed\tlongest\tbusy\tload"

func (p repeated) String() string {
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%v\t%d\t%.0f", p.pkg, p.sum, p.commit, p.passed, p.failed,
		p.longest.Round(100*time.Millisecond), p.busy, p.load)
}

// parseRepeated reads a file of results.
func parseRepeated(text string) (map[string]repeated, error) {
	rows := map[string]repeated{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 && line == repeatHead {
			continue
		}
		if len(f) != 8 {
			return nil, fmt.Errorf("line %d: %d columns, want 8", i+1, len(f))
		}
		p := repeated{pkg: f[0], sum: f[1], commit: f[2]}
		var err [5]error
		p.passed, err[0] = strconv.Atoi(f[3])
		p.failed, err[1] = strconv.Atoi(f[4])
		p.longest, err[2] = time.ParseDuration(f[5])
		p.busy, err[3] = strconv.Atoi(f[6])
		p.load, err[4] = strconv.ParseFloat(f[7], 64)
		if err := errors.Join(err[:]...); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		rows[p.pkg] = p
	}
	return rows, nil
}

// testProgram is a package with tests, as go list describes its test program.
type testProgram struct {
	pkg string // below the module
	dir string
	sum string
}

// repeat runs the tests of each package many times beside busy processes, as the quick run does, one package after the
// other. The results are in a file, from which a later run goes on. A result is void once the package, what it imports
// or its test data is another one, or if fewer processes were beside it.
func (o repetition) repeat(ctx context.Context, r *runner) error {
	module, err := layers.Module(r.root)
	if err != nil {
		return err
	}
	rows := map[string]repeated{}
	if b, err := os.ReadFile(o.file); err == nil {
		if rows, err = parseRepeated(string(b)); err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	programs, err := o.programs(ctx, r, module)
	if err != nil {
		return err
	}
	commit := "-"
	if words, err := r.output(ctx, "git", "describe", "--always", "--dirty"); err == nil && len(words) == 1 {
		commit = words[0]
	}
	dir, err := os.MkdirTemp("", "ddk-repeat-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stop, err := r.spinners(ctx, o.busy)
	if err != nil {
		return err
	}
	defer stop()
	var failed []string
	for _, p := range programs {
		row := rows[p.pkg]
		if row.sum != p.sum || row.busy < o.busy {
			row = repeated{pkg: p.pkg, sum: p.sum, commit: commit, busy: o.busy}
		}
		err := o.onePackage(ctx, r, dir, module, p, &row)
		if row.passed+row.failed > 0 {
			rows[p.pkg] = row
			if err := writeRepeated(o.file, rows); err != nil {
				return err
			}
		}
		if row.failed > 0 {
			failed = append(failed, fmt.Sprintf("%s (%d of %d)", p.pkg, row.failed, row.passed+row.failed))
		}
		if err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return defect{fmt.Errorf("failed: %s", strings.Join(failed, ", "))}
	}
	return nil
}

// onePackage makes the missing runs of a package and adds them to its row.
func (o repetition) onePackage(ctx context.Context, r *runner, dir, module string, p testProgram, row *repeated) error {
	if row.passed+row.failed >= o.runs {
		return nil
	}
	bin := filepath.Join(dir, "test.exe")
	if err := r.do(ctx, nil, "go", "test", "-c", "-vet=off", "-o", bin, module+"/"+p.pkg); err != nil {
		return err
	}
	defer os.Remove(bin)
	for row.passed+row.failed < o.runs {
		c := r.command(ctx, nil, bin, "-test.paniconexit0", "-test.short=true", "-test.timeout=15m")
		c.Dir = p.dir
		c.Env = append(c.Env, "PWD="+p.dir)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		start := time.Now()
		err := r.run(c)
		took := time.Since(start)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := float64(row.passed + row.failed)
		row.load = (row.load*n + runnable()) / (n + 1)
		row.longest = max(row.longest, took)
		if err == nil {
			row.passed++
			continue
		}
		row.failed++
		r.ends.addStart(fmt.Sprintf("%s, run %d", p.pkg, row.passed+row.failed), out.String())
		fmt.Fprintf(r.out, "FAIL  %s after %v: %v\n%s", p.pkg, took, err, out.Bytes())
	}
	fmt.Fprintf(r.out, "%s\n", row)
	return nil
}

// writeRepeated replaces the file of results.
func writeRepeated(file string, rows map[string]repeated) error {
	var b strings.Builder
	b.WriteString(repeatHead + "\n")
	l := make([]repeated, 0, len(rows))
	for _, p := range rows {
		l = append(l, p)
	}
	slices.SortFunc(l, func(p, q repeated) int { return cmp.Compare(p.pkg, q.pkg) })
	for _, p := range l {
		fmt.Fprintln(&b, p)
	}
	if err := os.WriteFile(file+".new", []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// programs lists the packages with tests. The sum of one covers what its test program is compiled from, the standard
// library, too, and its folder testdata. It does not cover files elsewhere that a test reads.
func (o repetition) programs(ctx context.Context, r *runner, module string) (l []testProgram, err error) {
	c := r.command(ctx, nil, "go", append([]string{"list", "-json=ImportPath,Dir,BuildID,Deps", "-test", "-deps",
		"-export"}, strings.Fields(o.packages)...)...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, r.out
	if err := r.run(c); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type listed struct {
		ImportPath, Dir, BuildID string
		Deps                     []string
	}
	var tests []listed
	ids := map[string]string{}
	for d := json.NewDecoder(&out); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		_, ids[p.ImportPath], _ = strings.Cut(p.BuildID, "/") // the part that identifies the output
		if strings.HasPrefix(p.ImportPath, module+"/") && strings.HasSuffix(p.ImportPath, ".test") {
			tests = append(tests, p)
		}
	}
	for _, p := range tests {
		h := fnv.New64a()
		for _, d := range p.Deps {
			fmt.Fprintf(h, "%s %s\n", d, ids[d])
		}
		if err := sumFiles(h, filepath.Join(p.Dir, "testdata")); err != nil {
			return nil, err
		}
		pkg := strings.TrimSuffix(strings.TrimPrefix(p.ImportPath, module+"/"), ".test")
		l = append(l, testProgram{pkg: pkg, dir: p.Dir, sum: hex.EncodeToString(h.Sum(nil)[:4])})
	}
	return l, nil
}

// sumFiles adds names and contents of the files in a folder, which need not exist.
func sumFiles(h hash.Hash, dir string) error {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(h, "%s %d\n%s", filepath.ToSlash(rel), len(b), b)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// runnable returns the mean number of processes that ran or waited for a processor in the last minute, or 0.
func runnable() float64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}
