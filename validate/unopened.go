package validate

import "fmt"

// DriverError is the error of a run whose driver could not be opened (exit status 3).
type DriverError struct{ Text string }

func (d *DriverError) Error() string { return d.Text }

// maxUnopened limits the number of cases for which the driver's Open may fail with the same error before the run stops.
// A single failure can be an accident.
const maxUnopened = 3

// stoppedUnopened is the value of RunInfo.Stopped of such a run.
const stoppedUnopened = "the driver could not be opened"

// unopened counts the errors of a driver's Open by their texts.
type unopened struct {
	seen map[string][]string // cases by error text
	last string              // the text that stopped the run, or ""
}

// add counts a result, and reports whether the run should stop.
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

// explain returns one explanation for all cases that could not be run.
func (u *unopened) explain(workers int) string {
	s := fmt.Sprintf("The driver could not be opened for %d cases, with the same error, so the run was stopped:\n%s",
		maxUnopened, u.last)
	if workers > 1 {
		s += "\n" + sharedHint(workers)
	}
	return s
}

// sharedHint explains the most likely reason for a failure of Open in a run with several workers.
func sharedHint(workers int) string {
	return fmt.Sprintf("%d worker processes open the driver at the same time. If only one process can have its device "+
		"open, set Exclusive in validate.Driver, or run with one worker (--workers 1, TestOptions.Workers).", workers)
}

// fillUnopened adds results for the cases that were not run because the driver could not be opened.
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
		first := s.unopened.seen[s.unopened.last][0]
		r.Reason = fmt.Sprintf("not run: the driver could not be opened (see %s)", first)
		s.results[c.ID] = []Result{r}
	}
}

// DefaultWorkers returns the number of worker processes of a run that sets none.
func (d Driver) DefaultWorkers() int {
	if d.Exclusive {
		return 1
	}
	return 2
}

// CheckWorkers returns an error if the driver does not support the number of workers; 0 is the default.
func (d Driver) CheckWorkers(n int) error {
	if d.Exclusive && n > 1 {
		return fmt.Errorf("driver %s is exclusive and cannot have %d workers (use 1, or leave the number out): "+
			"only one process can have its device open", d.Name, n)
	}
	return nil
}
