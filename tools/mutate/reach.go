package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A reach has the guarded mutants that each certification executes. It makes one run without a mutant for each
// certification that is asked for.
type reach struct {
	j        *judge
	bin, dir string

	mu   sync.Mutex
	runs map[string]*reachRun
}

// reachRun is what one certification executes.
type reachRun struct {
	once  sync.Once
	sites map[int]*site
	cases map[string]bool // all cases that executed something
	err   error
}

// site is where the code of a mutant is executed in a certification.
type site struct {
	outside bool // also outside of cases, such as while the adapter is opened
	cases   []string
}

// of returns what a certification executes.
func (r *reach) of(ctx context.Context, c certification) (*reachRun, error) {
	r.mu.Lock()
	run := r.runs[c.String()]
	if run == nil {
		run = new(reachRun)
		r.runs[c.String()] = run
	}
	file := filepath.Join(r.dir, fmt.Sprintf("reach%d", len(r.runs)))
	r.mu.Unlock()
	run.once.Do(func() { run.err = run.measure(ctx, r, c, file) })
	return run, run.err
}

// measure makes the run. One with an uncertain result executes the same code as one with a certain result.
func (run *reachRun) measure(ctx context.Context, r *reach, c certification, file string) error {
	args := slices.DeleteFunc(certify(c), func(a string) bool { return a == "--fail-fast" })
	o, err := r.j.execute(ctx, buildLimit, program{path: r.bin, env: []string{reachVar + "=" + file}}, args...)
	switch {
	case err != nil:
		return err
	case o.isHang:
		return fmt.Errorf("%s took more than %v without a mutant", c, buildLimit)
	case o.status != 0 && !uncertain[o.status]:
		return fmt.Errorf("%s fails without a mutant (status %d): %s", c, o.status, complaint(o.output))
	}
	defer os.Remove(file)
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		run.sites = map[int]*site{}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	run.sites, run.cases, err = readReach(f)
	return err
}

// readReach reads the records of a run: a number and, unless it was executed outside of the cases, a case in each line.
func readReach(f *os.File) (map[int]*site, map[string]bool, error) {
	sites, cases := map[int]*site{}, map[string]bool{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		number, id, _ := strings.Cut(s.Text(), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, nil, fmt.Errorf("reach: %w", err)
		}
		x := sites[n]
		if x == nil {
			x = new(site)
			sites[n] = x
		}
		if id == "" {
			x.outside = true
			continue
		}
		cases[id] = true
		if !slices.Contains(x.cases, id) {
			x.cases = append(x.cases, id)
		}
	}
	return sites, cases, s.Err()
}

// narrow returns the part of a certification that executes the code of a mutant, and whether there is one. If code is
// also executed outside of cases, or in most of them, it is the whole.
func (run *reachRun) narrow(c certification, number int) (certification, bool) {
	s := run.sites[number]
	switch {
	case s == nil:
		return nil, false
	case s.outside || 2*len(s.cases) > len(run.cases):
		return c, true
	}
	list := slices.Clone(s.cases)
	slices.Sort(list)
	return c.only(strings.Join(list, ",")), true
}
