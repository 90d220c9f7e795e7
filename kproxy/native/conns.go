package native

import (
	"container/list"
	"iter"
	"maps"
)

// Conns are the connections of a server, each of a user. A client that has sent no valid first request costs the server
// a connection and nothing else, so a server without room for another connection closes the oldest of these: a client
// that begins at once does not wait behind idle ones. The caller serializes calls. The zero value has no connection.
type Conns struct {
	all   map[*Conn]entry
	users map[int]int // numbers of connections
	fresh list.List   // of *Conn that have not begun, the oldest first
}

type entry struct {
	uid   int
	fresh *list.Element // nil: it has begun
}

// Len returns the number of connections.
func (s *Conns) Len() int { return len(s.all) }

// All returns the connections, in no order.
func (s *Conns) All() iter.Seq[*Conn] { return maps.Keys(s.all) }

// Admit adds a connection of a user. If there are most of them, or mostOfUser of the user, it closes one that has not
// begun. It returns false if there is none.
func (s *Conns) Admit(c *Conn, uid, most, mostOfUser int) bool {
	if s.users[uid] >= mostOfUser && !s.evict(uid) || len(s.all) >= most && !s.Evict() {
		return false
	}
	if s.all == nil {
		s.all, s.users = map[*Conn]entry{}, map[int]int{}
	}
	s.all[c] = entry{uid, s.fresh.PushBack(c)}
	s.users[uid]++
	return true
}

// Begin marks a connection whose client has sent a valid first request: Admit no longer closes it for others.
func (s *Conns) Begin(c *Conn) {
	if e, ok := s.all[c]; ok && e.fresh != nil {
		s.fresh.Remove(e.fresh)
		s.all[c] = entry{uid: e.uid}
	}
}

// Remove removes a connection, unless it was removed before.
func (s *Conns) Remove(c *Conn) {
	s.Begin(c)
	if e, ok := s.all[c]; ok {
		delete(s.all, c)
		if s.users[e.uid]--; s.users[e.uid] == 0 {
			delete(s.users, e.uid)
		}
	}
}

// Evict closes and removes the oldest connection that has not begun, of the user who has the most of them. It returns
// false if there is none.
func (s *Conns) Evict() bool {
	uid, most := 0, 0
	numbers := map[int]int{}
	for e := s.fresh.Front(); e != nil; e = e.Next() {
		u := s.all[e.Value.(*Conn)].uid
		if numbers[u]++; numbers[u] > most {
			uid, most = u, numbers[u]
		}
	}
	return most > 0 && s.evict(uid)
}

// evict is Evict for one user.
func (s *Conns) evict(uid int) bool {
	for e := s.fresh.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*Conn); s.all[c].uid == uid {
			s.Remove(c)
			c.Close()
			return true
		}
	}
	return false
}
