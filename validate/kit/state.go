package kit

import (
	"fmt"
	"sync"

	"ciddk/ci"
)

// maxSeen limits the completions that a queue keeps for the description of a failure.
const maxSeen = 8

// seen keeps the last completions that a case took from a queue.
type seen struct {
	mu    sync.Mutex
	last  []ci.WC
	count int
}

func (s *seen) add(wcs []ci.WC) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += len(wcs)
	s.last = append(s.last, wcs...)
	s.last = s.last[max(0, len(s.last)-maxSeen):]
}

func (s *seen) describe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > len(s.last) {
		return fmt.Sprintf("%d, the last of them %s", s.count, Completions(s.last))
	}
	return Completions(s.last)
}

// describe describes the completions taken from the queue and those still in it. It polls the latter, so the queue
// cannot be used afterwards.
func (c *CQ) describe() string {
	wc := make([]ci.WC, maxSeen)
	s := "completions taken: " + c.seen.describe()
	switch n, err := c.Poll(wc); {
	case err != nil:
		s += "; CQ.Poll: " + Describe(err)
	case n > 0:
		s += "; still in the queue: " + Completions(wc[:min(n, len(wc))])
	}
	return s
}

// describe describes the state of the QP and the completions of its queues.
func (q *QP) describe(name string) []string {
	state := ""
	if a, err := q.Query(); err != nil {
		state = "QP.Query: " + Describe(err)
	} else {
		state = a.State.String()
	}
	lines := []string{fmt.Sprintf("%s: %s QP %#x: %s", name, q.Config.Type, uint32(q.Num()), state)}
	lines = append(lines, fmt.Sprintf("%s: send queue: %s", name, q.SendCQ.describe()))
	if q.RecvCQ != q.SendCQ {
		lines = append(lines, fmt.Sprintf("%s: receive queue: %s", name, q.RecvCQ.describe()))
	}
	for _, ev := range q.Events.All() {
		lines = append(lines, fmt.Sprintf("%s: event: %s", name, ev.Type))
	}
	return lines
}

// watch has the QP described if the case fails.
func (q *QP) watch() {
	q.CA.T.Diagnose(func() []string { return q.describe(q.name()) })
}

// name returns the name of the QP in descriptions.
func (q *QP) name() string {
	if q.role == "" {
		return "QP"
	}
	return q.role
}
