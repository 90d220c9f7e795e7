package native

import (
	"container/list"
	"sync"
)

// A Lobby holds the connections of a server whose clients have sent no valid first request. Such a client costs the
// server a connection and nothing else, so a server that has no room for another connection closes the oldest of them:
// a client that begins at once does not wait behind idle ones. Its methods may be called concurrently. The zero value
// is an empty Lobby.
type Lobby struct {
	mu    sync.Mutex
	order list.List // of waiting, the oldest first
	in    map[*Conn]*list.Element
	users map[int]int // their numbers
}

type waiting struct {
	conn *Conn
	uid  int
}

// Enter adds a connection of a user.
func (l *Lobby) Enter(c *Conn, uid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in == nil {
		l.in, l.users = map[*Conn]*list.Element{}, map[int]int{}
	}
	l.in[c] = l.order.PushBack(waiting{c, uid})
	l.users[uid]++
}

// Leave removes a connection that has begun or ended.
func (l *Lobby) Leave(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.in[c]; e != nil {
		l.remove(e)
	}
}

func (l *Lobby) remove(e *list.Element) {
	w := l.order.Remove(e).(waiting)
	delete(l.in, w.conn)
	if l.users[w.uid]--; l.users[w.uid] == 0 {
		delete(l.users, w.uid)
	}
}

// Evict closes the oldest connection of a user, and returns it, or nil if the user has none.
func (l *Lobby) Evict(uid int) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evict(uid)
}

// EvictAny is Evict for the user who has the most connections.
func (l *Lobby) EvictAny() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid, most := 0, 0
	for u, n := range l.users {
		if n > most || n == most && u > uid {
			uid, most = u, n
		}
	}
	return l.evict(uid)
}

func (l *Lobby) evict(uid int) *Conn {
	for e := l.order.Front(); e != nil; e = e.Next() {
		if w := e.Value.(waiting); w.uid == uid {
			l.remove(e)
			w.conn.Close()
			return w.conn
		}
	}
	return nil
}
