package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ciddk/internal/procgroup"
)

// Exit statuses of ddk-validate that kill a mutant, and those after which a run is repeated.
var (
	killing   = map[int]bool{1: true, 3: true, 7: true}
	uncertain = map[int]bool{5: true, 6: true}
)

// maxAttempts bounds the runs without a mutant until one has a certain result.
const maxAttempts = 4

// judge builds mutants and runs the certifier and the tests on them.
type judge struct {
	root, dir string // the module, and a folder for overlays and binaries
	hasTests  bool   // the tests judge the survivors
	keeps     bool   // binaries stay in dir
	hasReach  bool   // runs are limited to the cases that execute the code of a mutant
	cases     string // if not empty, only these cases judge
	out       io.Writer

	schema     *schema // the guarded mutants of the round; nil: none
	numSchemas int

	plain func(context.Context) (program, error) // builds the binary without a mutant, once

	mu        sync.Mutex
	baselines map[string]*baseline
}

// newJudge returns a judge of a module that works in a folder.
func newJudge(root, dir string) *judge {
	j := &judge{root: root, dir: dir, out: io.Discard, baselines: map[string]*baseline{}}
	var once sync.Once
	var bin string
	var err error
	j.plain = func(ctx context.Context) (program, error) {
		once.Do(func() {
			var output string
			if bin, output, err = j.build(ctx, "plain", ""); err == nil && bin == "" {
				err = fmt.Errorf("the tree does not build: %s", shorten(oneLine(output)))
			}
		})
		return program{path: bin}, err
	}
	return j
}

// program is a program with additions to its environment.
type program struct {
	path string
	env  []string
}

// baseline is a run without a mutant.
type baseline struct {
	once sync.Once
	took time.Duration
	err  error
}

// outcome is the end of a program.
type outcome struct {
	status int
	isHang bool // stopped at the time limit
	output string
	took   time.Duration
}

// maxOutput bounds the output of a program that is kept.
const maxOutput = 256 << 10

// head is a writer that keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	if left := maxOutput - h.Len(); left > 0 {
		h.Buffer.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

// execute runs a program with a time limit.
func (j *judge) execute(ctx context.Context, limit time.Duration, p program, args ...string) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(limited, p.path, args...)
	c.Dir = j.root
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), p.env...)
	c.WaitDelay = 5 * time.Second
	var out head
	c.Stdout, c.Stderr = &out, &out
	procgroup.Set(c)
	start := time.Now()
	err := c.Run()
	o := outcome{output: out.String(), took: time.Since(start)}
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if limited.Err() != nil {
		o.isHang = true
		return o, nil
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		o.status = exit.ExitCode()
	default:
		return o, err
	}
	return o, nil
}

// buildLimit bounds one build, with nothing in the build cache.
const buildLimit = 10 * time.Minute

// build builds ddk-validate with an overlay, or without one, and returns the binary. A binary is named for what is in
// it: if it is there from an earlier run, it is not built again.
func (j *judge) build(ctx context.Context, name, overlay string) (bin, output string, err error) {
	return j.buildOf(ctx, "cmd/ddk-validate", name, overlay)
}

// buildOf is build for any package.
func (j *judge) buildOf(ctx context.Context, folder, name, overlay string) (bin, output string, err error) {
	bin = filepath.Join(j.dir, name)
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if _, err := os.Stat(bin); err == nil {
		return bin, "", nil
	}
	args := []string{"build", "-ldflags=-s -w", "-o", bin}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	o, err := j.execute(ctx, buildLimit, program{path: "go"}, append(args, "./"+folder)...)
	switch {
	case err != nil:
		return "", "", err
	case o.isHang:
		return "", "", fmt.Errorf("go build took more than %v", buildLimit)
	case o.status != 0:
		return "", o.output, nil
	}
	return bin, "", nil
}

// overlay writes the mutated file and the description of the overlay. It returns their common name and the description.
func (j *judge) overlay(m *mutant, src []byte) (name, description string, err error) {
	changed := m.apply(src)
	name = fmt.Sprintf("%x", sha256.Sum256(append([]byte(m.File+"\n"), changed...)))[:20]
	file := filepath.Join(j.dir, name+".go")
	if err := os.WriteFile(file, changed, 0o644); err != nil {
		return "", "", err
	}
	b, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(j.root, filepath.FromSlash(m.File)): file},
	})
	if err != nil {
		return "", "", err
	}
	description = filepath.Join(j.dir, name+".json")
	return name, description, os.WriteFile(description, b, 0o644)
}

// numWorkers is the number of processes that certify a mutant at the same time. A case waits more than it computes:
// with 4 of them a run takes a third of the time that it takes with one, on two processors.
const numWorkers = "4"

// certify returns the command line of a certification.
func certify(c certification) []string {
	command := c.command()
	args := []string{"run", command[0], "--quiet", "--fail-fast"}
	if !slices.Contains(c, "--workers") {
		args = append(args, "--workers", numWorkers)
	}
	return append(args, command[1:]...)
}

// testArgs returns the command line of the tests of packages.
func testArgs(overlay string, packages ...string) []string {
	args := []string{"test", "-short", "-vet=off", "-failfast", "-count=1", "-timeout", "15m"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return append(args, packages...)
}

// limit returns the time limit of a run: many times its duration without a mutant. The first caller measures it. A run
// that fails without a mutant is an error.
func (j *judge) limit(ctx context.Context, key string, p program, args ...string) (time.Duration, error) {
	j.mu.Lock()
	b := j.baselines[key]
	if b == nil {
		b = new(baseline)
		j.baselines[key] = b
	}
	j.mu.Unlock()
	b.once.Do(func() { b.took, b.err = j.measure(ctx, key, p, args...) })
	return 5*b.took + 30*time.Second, b.err
}

// measure returns the duration of a run without a mutant. A run whose result is uncertain is repeated, because the
// machine may be busy.
func (j *judge) measure(ctx context.Context, key string, p program, args ...string) (time.Duration, error) {
	for attempt := 1; ; attempt++ {
		o, err := j.execute(ctx, buildLimit, p, args...)
		switch {
		case err != nil:
			return 0, err
		case o.isHang:
			return 0, fmt.Errorf("%s took more than %v without a mutant", key, buildLimit)
		case o.status == 0:
			return o.took, nil
		case strings.Contains(o.output, nothingPassed):
			return 0, fmt.Errorf("%s: %w", key, errNothing)
		case !uncertain[o.status] || attempt == maxAttempts:
			return 0, fmt.Errorf("%s fails without a mutant (status %d): %s", key, o.status, complaint(o.output))
		}
	}
}

// judge returns the verdict on a mutant. An earlier verdict of the certifier is kept.
func (j *judge) judge(ctx context.Context, m *mutant, earlier *result) (result, error) {
	start := time.Now()
	src, err := os.ReadFile(filepath.Join(j.root, filepath.FromSlash(m.File)))
	if err != nil {
		return result{}, err
	}
	r := result{mutant: *m, Diff: m.diff(src)}
	name, overlay, err := j.overlay(m, src)
	if err != nil {
		return result{}, err
	}
	defer func() {
		if !j.keeps {
			for _, ending := range []string{"", ".exe", ".go", ".json"} {
				os.Remove(filepath.Join(j.dir, name+ending))
			}
		}
	}()
	if earlier != nil {
		r = *earlier
	} else if err := j.certifications(ctx, &r, name, overlay); err != nil {
		return result{}, err
	}
	if r.Verdict == survived && (j.hasTests || isKit(path.Dir(r.File))) && r.Tests == "" {
		if err := j.tests(ctx, &r, overlay); err != nil {
			return result{}, err
		}
	}
	r.Seconds += time.Since(start).Round(100 * time.Millisecond).Seconds()
	return r, nil
}

// certifications builds the mutant and runs the certifier on it until a run kills it.
func (j *judge) certifications(ctx context.Context, r *result, name, overlay string) error {
	runs, err := routeOf(path.Dir(r.File))
	if err != nil {
		return err
	}
	bin, output, err := j.binaryOf(ctx, &r.mutant, name, overlay)
	if err != nil {
		return err
	}
	if bin.path == "" {
		r.Verdict, r.Detail = unbuilt, shorten(oneLine(output))
		return nil
	}
	r.Verdict = survived
	isReached := false
	for _, whole := range runs {
		if j.cases != "" {
			whole = whole.only(j.cases)
		}
		c, reaches, err := j.reaching(ctx, &r.mutant, whole)
		if err != nil {
			return err
		}
		if !reaches {
			continue
		}
		o, err := j.attempt(ctx, bin, c)
		for list := j.cases; err == nil && lacks(&list, o); {
			if c = whole.only(list); list == "" {
				break
			}
			o, err = j.attempt(ctx, bin, c)
		}
		if err == nil && j.cases != "" && (o.status == statusNoCase || isUsage(o) || hasSkipped(o)) {
			continue // this run does not have the cases
		}
		isReached = true
		if err == nil && uncertain[o.status] {
			o, err = j.attempt(ctx, bin, c.again(o.output))
		}
		if err != nil {
			return err
		}
		if isKill(o) {
			r.Verdict, r.Run, r.Detail = killed, whole.String(), detail(o)
			return j.confirm(ctx, c, o)
		}
		if uncertain[o.status] {
			o, isWithheld, err := j.withholds(ctx, bin, c.again(o.output))
			if err != nil {
				return err
			}
			if isWithheld {
				r.Verdict, r.Run, r.Detail = killed, whole.String(), "no certificate: "+detail(o)
				return nil
			}
			r.Detail = "uncertain: " + detail(o)
		}
	}
	switch {
	case isReached, len(runs) == 0 && j.cases == "":
	case j.cases != "":
		return fmt.Errorf("no run of %s has cases that match %q", path.Dir(r.File), j.cases)
	default:
		r.Detail = "no run executes it"
	}
	return nil
}

// binaryOf returns the program with a mutant: the one of the round if it has it, or one that is built for it. If the
// mutant does not compile, it returns the output of the compiler.
func (j *judge) binaryOf(ctx context.Context, m *mutant, name, overlay string) (program, string, error) {
	if j.schema != nil {
		if n, ok := j.schema.numbers[m.id()]; ok {
			return program{path: j.schema.bin, env: []string{selectVar + "=" + strconv.Itoa(n)}}, "", nil
		}
		if why, ok := j.schema.broken[m.id()]; ok {
			return program{}, why, nil
		}
	}
	folder := path.Dir(m.File)
	if !isKit(folder) {
		folder = "cmd/ddk-validate"
	}
	bin, output, err := j.buildOf(ctx, folder, name, overlay)
	return program{path: bin}, output, err
}

// reaching returns the part of a certification that executes the code of a mutant, and whether there is one.
func (j *judge) reaching(ctx context.Context, m *mutant, c certification) (certification, bool, error) {
	if j.schema == nil || j.schema.reach == nil {
		return c, true, nil
	}
	n, ok := j.schema.numbers[m.id()]
	if !ok {
		return c, true, nil
	}
	run, err := j.schema.reach.of(ctx, c)
	if err != nil {
		return c, true, err
	}
	part, reaches := run.narrow(c, n)
	return part, reaches, nil
}

// withholds reports whether the certifier withholds the certificate of a mutant, and only of the mutant. It repeats a
// run whose result was uncertain: alternately without the mutant, which must pass each time, and with it, which must
// never pass. A busy machine cannot be the cause then.
func (j *judge) withholds(ctx context.Context, bin program, c certification) (outcome, bool, error) {
	plain, err := j.plain(ctx)
	if err != nil {
		return outcome{}, false, err
	}
	var o outcome
	for range numAlternations {
		if o, err = j.attempt(ctx, plain, c); err != nil || o.status != 0 || o.isHang {
			return o, false, err
		}
		if o, err = j.attempt(ctx, bin, c); err != nil || o.status == 0 {
			return o, false, err
		}
	}
	return o, true, nil
}

// numAlternations is the number of times that withholds runs the software with and without a mutant.
const numAlternations = 2

// firstLimit bounds a run whose usual duration has not been measured.
const firstLimit = 4 * time.Minute

// attempt runs the certifier on a mutant. The usual duration of a run is measured only if one takes long, because that
// needs a whole run without the mutant.
func (j *judge) attempt(ctx context.Context, bin program, c certification) (outcome, error) {
	o, err := j.execute(ctx, firstLimit, bin, certify(c)...)
	if err != nil || !o.isHang {
		return o, err
	}
	plain, err := j.plain(ctx)
	if err != nil {
		return o, err
	}
	limit, err := j.limit(ctx, c.String(), plain, certify(c)...)
	if err != nil || limit <= firstLimit {
		return o, err
	}
	return j.execute(ctx, limit, bin, certify(c)...)
}

// confirm returns an error if the software without a mutant fails like the mutant. It runs the case that failed, or, if
// the outcome names none, all cases of the certification.
func (j *judge) confirm(ctx context.Context, c certification, o outcome) error {
	plain, err := j.plain(ctx)
	if err != nil {
		return err
	}
	if id := failedCase(o.output); id != "" {
		c = c.only(id)
	}
	if _, err = j.limit(ctx, c.String(), plain, certify(c)...); errors.Is(err, errNothing) {
		return nil // what the adapter claims skips the case: only the mutant claims something else
	}
	return err
}

// errNothing is the error of a run without a mutant in which every case was skipped.
var errNothing = errors.New("no case ran")

// nothingPassed is what the certifier prints about such a run.
const nothingPassed = "SELECTION FAILED: nothing passed"

// isKill reports whether a run of the certifier rejects the mutant. Go programs end with status 2 after a panic, which
// is also the certifier's status for wrong usage.
func isKill(o outcome) bool { return o.isHang || killing[o.status] || isCrash(o) || o.status < 0 }

const statusNoCase = 4 // of the certifier for a pattern that matches no case

// noCase is what the certifier prints then. It has run nothing.
var noCase = regexp.MustCompile(`no case matches "([^"]+)"`)

// lacks removes from a list of patterns the one that a run has rejected, and reports whether there was one: a run may
// have a part of the cases.
func lacks(list *string, o outcome) bool {
	m := noCase.FindStringSubmatch(o.output)
	if o.status != statusNoCase || m == nil {
		return false
	}
	all := strings.Split(*list, ",")
	left := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return strings.TrimSpace(p) == m[1] })
	*list = strings.Join(left, ",")
	return len(left) < len(all)
}

const statusUsage = 2 // of the certifier for wrong usage, and of a Go program that crashed

func isCrash(o outcome) bool {
	return o.status == statusUsage && strings.Contains(o.output, "goroutine ")
}

// isUsage reports whether the certifier rejected its arguments.
func isUsage(o outcome) bool { return o.status == statusUsage && !isCrash(o) }

// hasSkipped reports whether a run skipped all of its cases.
func hasSkipped(o outcome) bool {
	return !o.isHang && strings.Contains(complaint(o.output), "FAILED: nothing passed")
}

func detail(o outcome) string {
	if o.isHang {
		return "stopped at the time limit"
	}
	return complaint(o.output)
}

// tests runs the tests of the mutant's package, and for the kit's own code those of all its packages if they pass.
func (j *judge) tests(ctx context.Context, r *result, overlay string) error {
	folder := path.Dir(r.File)
	r.Tests = survived
	for _, packages := range [][]string{{"./" + folder}, testsOf(folder)} {
		if len(packages) == 0 || r.Tests == killed {
			continue
		}
		key := "go test " + strings.Join(packages, " ")
		limit, err := j.limit(ctx, key, program{path: "go"}, testArgs("", packages...)...)
		if err != nil {
			return err
		}
		o, err := j.execute(ctx, limit, program{path: "go"}, testArgs(overlay, packages...)...)
		if err != nil {
			return err
		}
		if strings.Contains(o.output, "[build failed]") { // the mutant itself has been built before
			return fmt.Errorf("%s with a mutant: %s", key, detail(o))
		}
		if o.isHang || o.status != 0 {
			r.Tests, r.Detail = killed, "tests: "+detail(o)
		}
	}
	return nil
}
