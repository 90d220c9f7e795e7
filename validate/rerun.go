package validate

import (
	"context"
	"fmt"
	"strings"
)

// stretches are the factors of the timeouts when a case that has lost traffic is run again.
var stretches = []float64{2, 4, 4}

// maxHopeless limits the number of cases that may lose their traffic in every attempt. After that, such cases are no
// longer run again, because a link that carries nothing would cost minutes for each of them.
const maxHopeless = 5

// settle runs a job. If it fails, settle runs it again unless the plan forbids it.
//
// A failure that link and machine do not explain is run once more, unless it is final (Case.Final). If the case then
// passes, it is flaky.
//
// A failure that link or machine explain is run again with longer timeouts, until it passes, fails without an excuse,
// or has used up its attempts. In the last case it is inconclusive. Each attempt has a new worker, and no other case
// runs at the same time.
func (s *session) settle(ctx context.Context, r runner, j job) Result {
	s.alone.RLock()
	first := r.run(ctx, j)
	s.alone.RUnlock()
	if s.p.OneAttempt || first.Status != Fail && first.Status != Inconclusive {
		return first
	}
	s.alone.Lock()
	defer s.alone.Unlock()
	attempts := []Result{first}
	again := func(stretch float64) *Result {
		r.fresh(ctx)
		res := r.run(ctx, job{c: j.c, attempt: j.attempt, rerun: len(attempts), stretch: stretch})
		attempts = append(attempts, res)
		return &attempts[len(attempts)-1]
	}
	if !excusable(&first) {
		if j.c.Final && first.Status == Fail {
			return first
		}
		second := again(1)
		if ctx.Err() != nil {
			return first
		}
		return withAttempts(flakyUnlessFailed(first, second), attempts)
	}
	if s.numHopeless >= maxHopeless {
		why := fmt.Sprintf("not run again, since %d cases lost their traffic in every attempt", s.numHopeless)
		return withAttempts(inconclusive(first, attempts, why), attempts)
	}
	for _, stretch := range stretches {
		switch last := again(stretch); {
		case ctx.Err() != nil:
			return first
		case last.Status == Pass:
			out := *last
			out.Notes = append(out.Notes, Note{NoteInfo, fmt.Sprintf("%d of %d attempts lost traffic: %s: %s",
				len(attempts)-1, len(attempts), attempts[0].attempt().Finding, attempts[0].conditions)})
			return withAttempts(out, attempts)
		case !excusable(last):
			return withAttempts(*last, attempts)
		}
	}
	s.numHopeless++
	return withAttempts(inconclusive(first, attempts, ""), attempts)
}

// flakyUnlessFailed returns the result of a case that failed without an excuse and was run again.
func flakyUnlessFailed(first Result, second *Result) Result {
	switch second.Status {
	case Pass:
		first.Status, first.Flaky = Flaky, "1 of 2 attempts failed"
	case Fail:
		first.Earlier = nil // it also failed in a worker that had run nothing else
	}
	return first
}

// inconclusive returns the result of a case that lost its traffic in every attempt.
func inconclusive(first Result, attempts []Result, why string) Result {
	finding := first.attempt().Finding
	first.Status = Inconclusive
	first.Reason = fmt.Sprintf("%s; %d of %d attempts lost traffic, and the driver need not be the cause: %s",
		finding, len(attempts), len(attempts), attempts[len(attempts)-1].conditions)
	if why != "" {
		first.Reason += "; " + why
	}
	return first
}

// withAttempts adds the attempts of a case, and their total time, to its result.
func withAttempts(out Result, attempts []Result) Result {
	out.Elapsed = 0
	for i := range attempts {
		out.Elapsed += attempts[i].Elapsed
		out.Attempts = append(out.Attempts, attempts[i].attempt())
	}
	return out
}

// remarkLosses returns a remark with the cases that passed after they had lost traffic. Many of them point to a problem
// of the link, the machine or the driver.
func remarkLosses(results []Result) []string {
	var ids []string
	for i := range results {
		if r := &results[i]; r.Status == Pass && len(r.Attempts) > 1 {
			ids = append(ids, r.Case)
		}
	}
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return []string{"1 case lost traffic and passed when it was run again: " + ids[0]}
	}
	return []string{fmt.Sprintf("%d cases lost traffic and passed when they were run again: %s",
		len(ids), strings.Join(ids, ", "))}
}
