//go:build linux && (amd64 || arm64)

package verbs

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// A bindLog holds the requests of a send queue in order, from the first bind on, so that the completions show which
// binds were executed: the library changes the key of a window when the bind is posted, and does not change it back
// when the bind fails.
type bindLog struct {
	mu      sync.Mutex  // taken before that of a window
	isOn    atomic.Bool // the queue has had a bind
	entries []logged
}

// logged is a request of the log.
type logged struct {
	id         uint64
	isSignaled bool
	window     *mw // of a bind, or nil
	key        ci.Key
}

// add adds a request that was accepted. window is nil unless it is a bind, with the key that it gives the window.
func (l *bindLog) add(id uint64, isSignaled bool, window *mw, key ci.Key) {
	if window != nil {
		l.isOn.Store(true)
	}
	if l.isOn.Load() {
		l.entries = append(l.entries, logged{id, isSignaled, window, key})
	}
}

// done removes the requests that a completion covers. Requests before one that failed, and unsignaled ones before one
// that succeeded, have succeeded. A completion that fits no entry is that of a request before the first bind.
func (l *bindLog) done(id uint64, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		e := &l.entries[i]
		if !failed && !e.isSignaled || e.id != id && failed {
			continue
		}
		if e.id != id {
			return
		}
		for k := range l.entries[:i] {
			l.entries[k].executed(true)
		}
		e.executed(!failed)
		n := copy(l.entries, l.entries[i+1:])
		clear(l.entries[n:])
		l.entries = l.entries[:n]
		return
	}
}

// reset removes all requests, which do not complete any more.
func (l *bindLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		l.entries[i].executed(false)
	}
	clear(l.entries)
	l.entries = l.entries[:0]
}

// executed records whether a bind was executed.
func (e *logged) executed(ok bool) {
	if e.window != nil {
		e.window.settle(e.key, ok)
	}
}

// posted records that a bind with a key was posted. The caller holds w.mu.
func (w *mw) posted(key ci.Key) { w.pending = append(w.pending, key) }

// settle records whether the bind with a key was executed. If it was not, nor can the later ones be: the key is again
// that of the last bind that was executed.
func (w *mw) settle(key ci.Key, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, k := range w.pending {
		if k != key {
			continue
		}
		if ok {
			w.executed = key
			w.pending = append(w.pending[:0], w.pending[i+1:]...)
			return
		}
		w.pending = w.pending[:i]
		if w.refs.Alive() {
			w.mw.SetKey(uint32(w.last()))
		}
		return
	}
}

// last returns the key that the window has when all binds that were posted are executed. The caller holds w.mu.
func (w *mw) last() ci.Key {
	if n := len(w.pending); n > 0 {
		return w.pending[n-1]
	}
	return w.executed
}
