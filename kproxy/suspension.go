package kproxy

import (
	"errors"
	"maps"
	"sync"
	"time"
)

// suspendFor is the time in which no memory of a user's processes is copied after a copy that took too long. Without
// it, a user could delay other clients again with each connection.
const suspendFor = 10 * time.Minute

var errSuspended = errors.New("in the last 10 minutes, a copy of memory of a process of this user took too " +
	"long: memory of ual.NewMemory is shared and needs no copies")

// suspensions are the users whose memory is not copied for a time. A nil suspensions has none.
type suspensions struct {
	mu    sync.RWMutex
	until map[int]time.Duration
}

// add suspends a user.
func (s *suspensions) add(uid int, now time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.until, func(_ int, until time.Duration) bool { return until <= now })
	if s.until == nil {
		s.until = map[int]time.Duration{}
	}
	s.until[uid] = now + suspendFor
}

// holds reports whether a user is suspended.
func (s *suspensions) holds(uid int, now time.Duration) bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return now < s.until[uid]
}
