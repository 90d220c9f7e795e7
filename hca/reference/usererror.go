package reference

import (
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/rings"
)

// The times between two looks at the receive queues of QPs in Error. The time doubles while nothing is found.
const (
	minErrorWait = time.Millisecond
	maxErrorWait = 64 * time.Millisecond
)

// An errorWatch finds receives that a process posts to QPs in Error, which are flushed (IBTA volume 1, 10.3.1). The
// stock library posts a receive by writing to the queue alone, in whatever state the QP is. A context with QPs in Error
// therefore looks at their queues from time to time; one without does nothing.
type errorWatch struct {
	clock clock.Clock

	mu    sync.Mutex
	qps   map[*userSend]struct{}
	timer clock.Timer // nil before the first QP
	wait  time.Duration
}

// set begins or ends the watch of a QP. The caller holds the token of the QP.
func (w *errorWatch) set(s *userSend, isWatched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !isWatched {
		delete(w.qps, s)
		return
	}
	if w.qps == nil {
		w.qps = map[*userSend]struct{}{}
	}
	w.qps[s] = struct{}{}
	w.wait = minErrorWait
	if w.timer == nil {
		w.timer = w.clock.AfterFunc(w.wait, w.look)
	} else {
		w.timer.Reset(w.wait)
	}
}

// look runs the engine of the QPs that have receives.
func (w *errorWatch) look() {
	var due []*userSend
	w.mu.Lock()
	for s := range w.qps {
		if s.recv.Len() > 0 {
			due = append(due, s)
		}
	}
	if w.wait = min(2*w.wait, maxErrorWait); len(due) > 0 {
		w.wait = minErrorWait
	}
	if len(w.qps) > 0 {
		w.timer.Reset(w.wait)
	}
	w.mu.Unlock()
	for _, s := range due { // not with mu, because a turn may change a state
		s.u.kick(s.index)
	}
}

// close ends the watch. look does not use the memory of the process any more.
func (w *errorWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.qps)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// userSend is a send queue in shared memory, with its place.
type userSend struct {
	*rings.SharedSend
	u     *userContext
	at    rings.UserQueue
	index uint32
	recv  *userRecv // of the same QP, if the library of the process rings no bell for receives
}

// SetState implements rvt.SharedSendRing.
func (s *userSend) SetState(state ci.QPState) {
	s.SharedSend.SetState(state)
	if s.recv != nil {
		s.u.errors.set(s, state == ci.QPError)
	}
}
