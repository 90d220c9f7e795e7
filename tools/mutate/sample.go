package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shuffle returns the mutants in the order in which a seed draws them.
func shuffle(all []mutant, seed uint64) []mutant {
	order := append([]mutant{}, all...)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	return order
}

// survivorsOf returns the mutants that survived in a file of results and that the source still has, and prints the
// others.
func survivorsOf(name string, all []mutant, w io.Writer) ([]mutant, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results, err := readResults(f)
	if err != nil {
		return nil, err
	}
	var list []mutant
	taken := map[string]bool{}
	for i := range results {
		r := &results[i]
		if r.Verdict != survived {
			continue
		}
		if m := nearest(all, &r.mutant); m == nil {
			fmt.Fprintf(w, "gone     %s:%d: %s\n", r.File, r.Line, shorten(r.change()))
		} else if !taken[m.id()] {
			taken[m.id()] = true
			list = append(list, *m)
		}
	}
	return list, nil
}

// mutantsAt returns the mutants of places: the ends of names of files, with or without a line.
func mutantsAt(all []mutant, places []string) ([]mutant, error) {
	var list []mutant
	taken := map[string]bool{}
	for _, p := range places {
		name, line, hasLine := strings.Cut(strings.TrimSpace(p), ":")
		found := false
		for i := range all {
			m := &all[i]
			if m.File != name && !strings.HasSuffix(m.File, "/"+name) || hasLine && line != strconv.Itoa(m.Line) {
				continue
			}
			found = true
			if !taken[m.id()] {
				taken[m.id()] = true
				list = append(list, *m)
			}
		}
		if !found {
			return nil, fmt.Errorf("no mutant at %q: give a file, or a file and a line, as -list prints them", p)
		}
	}
	return list, nil
}

// nearest returns the mutant with the same edit whose line is the nearest, or nil.
func nearest(all []mutant, m *mutant) *mutant {
	var best *mutant
	distance := func(o *mutant) int { return max(o.Line-m.Line, m.Line-o.Line) }
	for i := range all {
		if o := &all[i]; o.isSameEdit(m) && (best == nil || distance(o) < distance(best)) {
			best = o
		}
	}
	return best
}

// sampling judges mutants in order until n of them have a verdict.
type sampling struct {
	n, jobs    int
	exclusions []exclusion
	done       map[string]result                      // of an earlier run
	prepare    func(context.Context, []*mutant) error // before the mutants of a round are judged; nil: nothing to do
	judge      func(context.Context, *mutant, *result) (result, error)
	save       func(*result) error
	isOver     func() bool // reports whether no further mutant is begun; nil: never
	out        io.Writer
}

var (
	errNone = errors.New("no mutant to judge")
	// errLate is the cause of a context that ends because mutants were begun in time but take too long.
	errLate = errors.New("the time for the sample has passed")
)

// run returns the results of the sample. Which mutants belong to it follows from the order alone: the first n that
// compile and are not excluded, and those among them that do not or are.
func (s *sampling) run(ctx context.Context, order []mutant) ([]result, error) {
	var sample []result
	judged := 0
	for len(order) > 0 && judged < s.n && !s.isDone() {
		var round []*mutant
		for len(order) > 0 && len(round) < s.n-judged {
			m := &order[0]
			order = order[1:]
			if e := exclusionOf(s.exclusions, m); e != nil {
				r := result{mutant: *m, Verdict: excluded, Detail: e.Reason}
				if err := s.save(&r); err != nil {
					return nil, err
				}
				sample = append(sample, r)
				continue
			}
			round = append(round, m)
		}
		if err := s.ready(ctx, round); err != nil {
			return nil, err
		}
		results, err := s.round(ctx, round)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			if r.Verdict != "" && r.Verdict != unbuilt {
				judged++
				sample = append(sample, r)
			}
		}
	}
	if judged == 0 && !s.isDone() {
		return nil, errNone
	}
	return sample, nil
}

func (s *sampling) isDone() bool { return s.isOver != nil && s.isOver() }

// ready prepares the mutants of a round that have no result yet. It may end because the time has passed.
func (s *sampling) ready(ctx context.Context, round []*mutant) error {
	if s.prepare == nil {
		return nil
	}
	err := s.prepare(ctx, slices.DeleteFunc(slices.Clone(round), func(m *mutant) bool {
		_, isDone := s.done[m.id()]
		return isDone
	}))
	if errors.Is(err, errLate) {
		return nil
	}
	return err
}

// round judges mutants in parallel. The result of one that was not begun, or not ended in time, has no verdict.
func (s *sampling) round(ctx context.Context, round []*mutant) ([]result, error) {
	results := make([]result, len(round))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int, len(round))
	for i := range round {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range s.jobs {
		wg.Go(func() {
			for i := range work {
				if ctx.Err() != nil || s.isDone() {
					return
				}
				r, err := s.one(ctx, round[i])
				if errors.Is(err, errLate) {
					return
				}
				if err != nil {
					cancel(err)
					return
				}
				results[i] = r
				mu.Lock()
				fmt.Fprintf(s.out, "%-8s %5.1fs  %s:%d: %s: %s  %s\n", describe(&r), r.Seconds, r.File,
					r.Line, r.Operator,
					shorten(r.change()), r.Detail)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errLate) {
		return results, err
	}
	return results, nil
}

// describe returns the verdict of both judges.
func describe(r *result) string {
	if r.Tests == killed {
		return "tested"
	}
	return string(r.Verdict)
}

// one judges a mutant, unless there is a result of it.
func (s *sampling) one(ctx context.Context, m *mutant) (result, error) {
	var earlier *result
	if r, ok := s.done[m.id()]; ok {
		earlier = &r
	}
	r, err := s.judge(ctx, m, earlier)
	if err != nil {
		return result{}, err
	}
	return r, s.save(&r)
}
