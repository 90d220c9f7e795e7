package validate

import "fmt"

// DriverError says that the driver could not be opened, so that nothing can be judged (exit 3).
type DriverError struct{ Text string }

func (e *DriverError) Error() string { return e.Text }

// maxUnopened is the number of cases that may find the driver's Open failing in the same words before the run stops: one can be an
// accident, and hundreds say no more than a few.
const maxUnopened = 3

// stoppedUnopened is RunInfo.Stopped of such a run.
const stoppedUnopened = "the driver could not be opened"

// unopened counts the errors of a driver's Open, by their words.
type unopened struct {
	seen map[string][]string // words to cases
	last string              // words that stopped the run, or ""
}

// add counts a result, and says when it is the one to stop the run.
func (u *unopened) add(r *Result) (stop bool) {
	if !r.Unopened || u.last != "" {
		return false
	}
	if u.seen == nil {
		u.seen = map[string][]string{}
	}
	u.seen[r.Reason] = append(u.seen[r.Reason], r.Case)
	if len(u.seen[r.Reason]) < maxUnopened {
		return false
	}
	u.last = r.Reason
	return true
}

// explain says once what all further cases would have said.
func (u *unopened) explain(workers int) string {
	s := fmt.Sprintf("%d cases found that the driver cannot be opened, all in the same words, so the run stopped:\n%s", maxUnopened, u.last)
	if workers > 1 {
		s += "\n" + sharedHint(workers)
	}
	return s
}

// sharedHint is what a run with several workers says to an Open that fails: the likeliest reason is the other worker.
func sharedHint(workers int) string {
	return fmt.Sprintf("%d worker processes open the driver at the same time. If its device can be open once only, set Exclusive in validate.Driver, "+
		"or run with one worker (--workers 1, TestOptions.Workers).", workers)
}

// fillUnopened gives each case that was not reached, because the driver could not be opened, a result that says so.
func (s *session) fillUnopened(cases []*Case) {
	if s.unopened.last == "" {
		return
	}
	for _, c := range cases {
		if len(s.results[c.ID]) > 0 {
			continue
		}
		r := s.p.blank(c)
		r.Status, r.Unopened = Error, true
		r.Reason = fmt.Sprintf("not judged: the driver could not be opened (see %s)", s.unopened.seen[s.unopened.last][0])
		s.results[c.ID] = []Result{r}
	}
}

// DefaultWorkers is the number of worker processes that a run has if nothing else is asked for.
func (d Driver) DefaultWorkers() int {
	if d.Exclusive {
		return 1
	}
	return 2
}

// CheckWorkers refuses a number of workers (0: the default) that the driver cannot serve.
func (d Driver) CheckWorkers(n int) error {
	if d.Exclusive && n > 1 {
		return fmt.Errorf("%d workers: driver %s is exclusive, that is, its device can be open once at a time, which takes one worker; leave the number out, or say 1",
			n, d.Name)
	}
	return nil
}
