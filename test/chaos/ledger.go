package chaos

import (
	"fmt"

	"ciddk/ci"
)

// entry is a work request that was posted.
type entry struct {
	id       uint64
	signaled bool
	check    func() error // runs when the request succeeded; may be nil
}

// ledger holds the work requests of one queue, in order, until they complete. One goroutine uses it at a time.
type ledger struct {
	queue  []entry
	failed bool // a request failed: all later ones must be flushed
}

func (l *ledger) add(e entry) { l.queue = append(l.queue, e) }

func (l *ledger) len() int { return len(l.queue) }

// complete handles a completion. It returns an error for a wrong one: for a request that was not posted or has
// completed before, out of order, or successful after a failure.
func (l *ledger) complete(wc *ci.WC) error {
	for i, e := range l.queue {
		if e.id != wc.ID {
			if e.signaled || l.failed {
				return fmt.Errorf("completion of request %d (%v) before that of request %d", wc.ID, wc.Status, e.id)
			}
			if err := e.done(); err != nil {
				return err
			}
			continue
		}
		l.queue = l.queue[i+1:]
		if wc.Status != ci.WCSuccess {
			if l.failed && wc.Status != ci.WCFlushErr {
				return fmt.Errorf("request %d behind a failed one completed with %v, not flushed", wc.ID, wc.Status)
			}
			l.failed = true
			return nil
		}
		if l.failed {
			return fmt.Errorf("request %d succeeded behind a failed one", wc.ID)
		}
		if !e.signaled {
			return fmt.Errorf("success of request %d was reported, which is not signaled", wc.ID)
		}
		return e.done()
	}
	return fmt.Errorf("completion (%v) of request %d, which is not outstanding: never posted, or completed before",
		wc.Status, wc.ID)
}

func (e *entry) done() error {
	if e.check == nil {
		return nil
	}
	return e.check()
}
