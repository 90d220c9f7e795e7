package kproxy

import (
	"sync/atomic"

	"ciddk/internal/kproxy/schema"
)

// Totals are counts since the server was created, of all clients together.
type Totals struct {
	Clients     uint64 // sessions that were opened
	Requests    uint64 // executed, without those of the data path
	Rejected    uint64 // messages that did not match their declaration
	Posts       uint64 // work requests
	Polls       uint64
	Completions uint64 // that polls returned
	Events      uint64 // delivered
	Merged      uint64 // events that replaced others because an event queue was full
}

// add adds the counts of a session.
func (t *Totals) add(s *stats) {
	t.Requests += s.requests.Load()
	t.Rejected += s.rejected.Load()
	t.Posts += s.posts.Load()
	t.Polls += s.polls.Load()
	t.Completions += s.completions.Load()
	t.Events += s.events.Load()
	t.Merged += s.merged.Load()
}

// refusals counts requests that exceeded a limit.
type refusals struct {
	objects                                                       [schema.NumKinds]atomic.Uint64
	queueBytes, memoryBytes, serviceBytes, clients, clientsOfUser atomic.Uint64

	mappings, shares atomic.Uint64
}

// Load is what the clients of a server hold now, and what they did since it was created. The keys of the maps are names
// of commands and kinds of package schema.
type Load struct {
	Totals
	Sessions     int
	Objects      map[string]int
	QueueBytes   int64
	MemoryBytes  int64
	ServiceBytes int64
	Waiting      int               // events that wait in event queues
	Messages     map[string]uint64 // by command
	Refusals     map[string]uint64 // by limit: a kind, see Server.Load

	// Fill is the largest share, 0 to 1, of each limit that one client uses: a kind, queue bytes, memory bytes, service
	// bytes, mappings.
	Fill map[string]float64
}

// Load returns the present load.
func (s *Server) Load() *Load {
	l := &Load{Objects: map[string]int{}, Messages: map[string]uint64{}, Refusals: map[string]uint64{},
		Fill: map[string]float64{"queue bytes": 0, "memory bytes": 0, "service bytes": 0, "mappings": 0}}
	for cmd := schema.Command(1); cmd < schema.NumCommands; cmd++ {
		l.Messages[cmd.String()] = s.messages[cmd].Load()
	}
	for k := schema.Kind(1); k < schema.NumKinds; k++ {
		l.Objects[k.String()], l.Fill[k.String()] = 0, 0
		l.Refusals[k.String()] = s.refused.objects[k].Load()
	}
	l.Refusals["queue bytes"] = s.refused.queueBytes.Load()
	l.Refusals["memory bytes"] = s.refused.memoryBytes.Load()
	l.Refusals["service bytes"] = s.refused.serviceBytes.Load()
	l.Refusals["mappings"] = s.refused.mappings.Load()
	l.Refusals["resources of the daemon"] = s.refused.shares.Load()
	l.Refusals["clients"] = s.refused.clients.Load()
	l.Refusals["clients of one user"] = s.refused.clientsOfUser.Load()

	s.mu.Lock()
	defer s.mu.Unlock() // so that no session ends, and is counted twice, meanwhile
	l.Totals = s.ended
	l.Clients, l.Sessions = s.nextID, len(s.sessions)
	for c := range s.sessions {
		l.add(&c.stats)
		c.addLoad(l)
	}
	return l
}

// addLoad adds what the session holds.
func (c *Session) addLoad(l *Load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.QueueBytes += c.used.queueBytes
	l.MemoryBytes += c.used.memoryBytes
	l.ServiceBytes += c.used.serviceBytes
	for k := schema.Kind(1); k < schema.NumKinds; k++ {
		l.Objects[k.String()] += c.used.count[k]
		l.fill(k.String(), int64(c.used.count[k]), int64(c.quota.kind(k)))
	}
	l.fill("queue bytes", c.used.queueBytes, c.quota.QueueBytes)
	l.fill("memory bytes", c.used.memoryBytes, c.quota.MemoryBytes)
	l.fill("service bytes", c.used.serviceBytes, c.quota.ServiceBytes)
	l.fill("mappings", int64(c.used.mappings), int64(c.quota.Mappings))
	l.Waiting += c.waiting()
}

func (l *Load) fill(limit string, used, most int64) {
	if most > 0 {
		l.Fill[limit] = max(l.Fill[limit], float64(used)/float64(most))
	}
}
