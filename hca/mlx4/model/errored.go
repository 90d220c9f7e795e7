package model

import (
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/clock"
)

// errored are the QPs in Error. Receive WQEs that are posted in Error complete as flushed, and no doorbell announces
// them. The model looks for them as long as there are QPs in Error.
type errored struct {
	mu       sync.Mutex
	qps      map[ci.QPN]bool
	timer    clock.Timer // nil: not running
	isClosed bool
}

// flushInterval is how often the model looks for receive WQEs of QPs in Error.
const flushInterval = 10 * time.Millisecond

// stateChanged takes the changes of state of all QPs. It holds the token of the QP.
func (m *Model) stateChanged(num ci.QPN, s ci.QPState) {
	if s != ci.QPError {
		return
	}
	e := &m.errored
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isClosed {
		return
	}
	if e.qps == nil {
		e.qps = map[ci.QPN]bool{}
	}
	e.qps[num] = true
	if e.timer == nil {
		e.timer = m.cfg.Clock.AfterFunc(flushInterval, m.flushErrored)
	}
}

// flushErrored runs the engines of the QPs in Error.
func (m *Model) flushErrored() {
	e := &m.errored
	for _, num := range e.list() {
		q := m.qp(uint32(num))
		if q == nil || !q.isInError() {
			e.remove(num)
			continue
		}
		q.engine.Kick()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = nil
	if len(e.qps) > 0 && !e.isClosed {
		e.timer = m.cfg.Clock.AfterFunc(flushInterval, m.flushErrored)
	}
}

func (q *qp) isInError() bool {
	a, err := q.face.Query()
	return err == nil && a.State == ci.QPError
}

func (e *errored) list() []ci.QPN {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]ci.QPN, 0, len(e.qps))
	for n := range e.qps {
		list = append(list, n)
	}
	return list
}

func (e *errored) remove(n ci.QPN) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.qps, n)
}

// stop ends the search.
func (e *errored) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isClosed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}
