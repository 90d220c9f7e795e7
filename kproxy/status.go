package kproxy

import (
	"encoding/json"
	"fmt"
	"os"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// StatusVersion is the version of the JSON form of Status. A field that is added does not change it.
const StatusVersion = 1

// Status describes a daemon at one moment. Its JSON form is what the command ddkd status --json prints.
type Status struct {
	Version  int             `json:"version"` // StatusVersion
	PID      int             `json:"pid"`
	Stopping bool            `json:"stopping"` // waits for its clients
	Adapters []AdapterStatus `json:"adapters"`
	Clients  []ClientStatus  `json:"clients"`
	Build    string          `json:"build"` // Config.Build
}

// AdapterStatus describes an adapter.
type AdapterStatus struct {
	GUID     string            `json:"guid"` // 16 hexadecimal digits
	Driver   string            `json:"driver"`
	Settings map[string]string `json:"settings"` // of the configuration
	Ports    []PortStatus      `json:"ports"`
}

// PortStatus describes a port. Packets and bytes are counted since the adapter was opened; they are 0 if its driver
// does not count.
type PortStatus struct {
	Num             uint8    `json:"num"`
	State           string   `json:"state"`
	MTU             int      `json:"mtu"`
	GIDs            []string `json:"gids"`
	SentPackets     uint64   `json:"sent_packets"`
	SentBytes       uint64   `json:"sent_bytes"`
	ReceivedPackets uint64   `json:"received_packets"`
	ReceivedBytes   uint64   `json:"received_bytes"`
}

// ClientStatus describes a client: its process, what it has, and what it did.
type ClientStatus struct {
	ID      uint64         `json:"id"`
	PID     int            `json:"pid"`
	UID     int            `json:"uid"`
	GID     int            `json:"gid"`
	Command string         `json:"command"` // of the process, as the kernel reported it; empty if unknown
	Name    string         `json:"name"`    // that the client chose
	Objects map[string]int `json:"objects"` // by kind
	// Services describes listeners and connections, one text for each, at most 256 of them.
	Services     []string    `json:"services,omitempty"`
	QueueBytes   int64       `json:"queue_bytes"`
	MemoryBytes  int64       `json:"memory_bytes"`
	ServiceBytes int64       `json:"service_bytes"`
	Mappings     int         `json:"mappings"`
	Quota        QuotaStatus `json:"quota"`
	Waiting      int         `json:"events_waiting"`
	Requests     uint64      `json:"requests"`
	Rejected     uint64      `json:"rejected"`
	Posts        uint64      `json:"posts"`
	Polls        uint64      `json:"polls"`
	Completions  uint64      `json:"completions"`
	Events       uint64      `json:"events"`
	Merged       uint64      `json:"events_merged"`
}

// QuotaStatus contains a client's limits.
type QuotaStatus struct {
	Objects      map[string]int `json:"objects"` // by kind
	QueueBytes   int64          `json:"queue_bytes"`
	MemoryBytes  int64          `json:"memory_bytes"`
	ServiceBytes int64          `json:"service_bytes"`
	Mappings     int            `json:"mappings"`
	Events       int            `json:"events"`  // that wait in one event queue
	Pending      int            `json:"pending"` // requests in execution
}

func (q *Quota) status() QuotaStatus {
	s := QuotaStatus{Objects: map[string]int{}, QueueBytes: q.QueueBytes, MemoryBytes: q.MemoryBytes,
		ServiceBytes: q.ServiceBytes,
		Mappings:     q.Mappings, Events: q.Events, Pending: q.Pending}
	for k := schema.Kind(1); k < schema.NumKinds; k++ {
		s.Objects[k.String()] = q.kind(k)
	}
	return s
}

// Status returns the adapters, the oldest first, and the clients, the oldest first.
func (s *Server) Status() *Status { return s.statusOf(s.Sessions()) }

// statusOf returns the status with some of the clients.
func (s *Server) statusOf(clients []*Session) *Status {
	st := &Status{Version: StatusVersion, PID: os.Getpid(), Stopping: s.isStopping(), Adapters: []AdapterStatus{},
		Clients: []ClientStatus{}, Build: s.cfg.Build}
	for _, a := range s.cfg.AL.Adapters() {
		x := AdapterStatus{GUID: fmt.Sprintf("%016x", uint64(a.GUID())), Settings: map[string]string{},
			Ports: []PortStatus{}}
		for _, p := range a.Attr().Ports {
			ps := PortStatus{Num: p.Num, State: p.State.String(), MTU: p.MTU.Bytes(), GIDs: []string{}}
			for _, g := range p.GIDs {
				if g.GID == (ci.GID{}) { // an entry without an address
					continue
				}
				ps.GIDs = append(ps.GIDs, gidText(g.GID))
			}
			x.Ports = append(x.Ports, ps)
		}
		if s.cfg.Describe != nil {
			s.cfg.Describe(a, &x)
		}
		st.Adapters = append(st.Adapters, x)
	}
	for _, c := range clients {
		st.Clients = append(st.Clients, c.status())
	}
	return st
}

// maxServiceTexts limits ClientStatus.Services.
const maxServiceTexts = 256

func (c *Session) status() ClientStatus {
	r, describe := c.counters()
	if describe != nil {
		list := describe()
		r.Services = append(r.Services, list[:min(len(list), maxServiceTexts-len(r.Services))]...)
	}
	return r
}

// counters returns the status without what a front end describes, and the front end's function.
func (c *Session) counters() (ClientStatus, func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := ClientStatus{ID: c.id, PID: c.peer.PID, UID: c.peer.UID, GID: c.peer.GID, Name: c.name,
		Command: c.command, Objects: map[string]int{},
		QueueBytes: c.used.queueBytes, MemoryBytes: c.used.memoryBytes, ServiceBytes: c.used.serviceBytes,
		Mappings: c.used.mappings,
		Quota:    c.quota.status(), Requests: c.stats.requests.Load(),
		Rejected: c.stats.rejected.Load(), Posts: c.stats.posts.Load(), Polls: c.stats.polls.Load(),
		Completions: c.stats.completions.Load(), Events: c.stats.events.Load(), Merged: c.stats.merged.Load()}
	for k, n := range c.used.count {
		if n > 0 {
			r.Objects[schema.Kind(k).String()] = n
		}
	}
	r.Waiting = c.waiting()
	r.Services = c.serviceTexts()
	return r, c.describe
}

// serviceTexts describes the items of the services. mu is held.
func (c *Session) serviceTexts() (list []string) {
	for i := range c.slots {
		o := c.slots[i].o
		if o == nil || o.servant == nil {
			continue
		}
		if text := o.servant.Status(); text != "" {
			list = append(list, text)
		}
		if len(list) == maxServiceTexts {
			break
		}
	}
	return list
}

// waiting returns the number of events that wait in the client's queues. mu is held.
func (c *Session) waiting() (n int) {
	for i := range c.slots {
		if o := c.slots[i].o; o != nil && o.queue != nil {
			n += o.queue.waiting()
		}
	}
	return n
}

// queryStatus returns a part of the status. A privileged client sees all clients, another one sees itself.
func (c *Session) queryStatus(r *schema.QueryStatus) (*Result, error) {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	if r.Offset == 0 {
		clients := []*Session{c}
		if c.s.cfg.Privileged(c.peer) {
			clients = c.s.Sessions()
		}
		text, err := json.Marshal(c.s.statusOf(clients))
		if err != nil {
			return nil, err
		}
		c.statusText = text
	}
	text := c.statusText
	if r.Offset > uint64(len(text)) {
		return nil, failf("ual.Client.Status", ci.InvalidParameter, "offset %d of %d bytes", r.Offset, len(text))
	}
	part := text[r.Offset:]
	return &Result{Body: &schema.QueryStatusReply{Total: uint64(len(text)),
		Text: part[:min(len(part), schema.MaxStatus)]}}, nil
}
