package services

import (
	"slices"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
)

// changes keeps what the daemon reports about its adapters and ports, and calls watchers.
type changes struct {
	s *Services

	notifying sync.Mutex // held while watchers are called; taken before mu

	mu       sync.Mutex
	closed   bool
	ports    []schema.ServicePort
	hcas     []schema.ServiceHCA
	watchers []*watcher
}

// watcher is a registration of Watch, or of Follow. One of the functions is nil.
type watcher struct {
	port func(p mads.Port, there bool)
	hca  func(h schema.ServiceHCA, there bool)
}

func (c *changes) init(s *Services) { c.s = s }

// refresh queries the daemon and reports what has changed. Calls are made one at a time.
func (c *changes) refresh() {
	c.notifying.Lock()
	defer c.notifying.Unlock()
	c.s.mu.Lock()
	h := c.s.handle
	c.s.mu.Unlock()
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if h == 0 || closed {
		return // Open calls again when it has the handle
	}
	var r schema.QueryServicesReply
	if c.s.c.Do(schema.CmdQueryServices, &schema.Services{Services: h}, &r) != nil {
		return // the connection is lost
	}
	c.apply(&r)
}

// apply reports the difference between what was known and r. notifying is held.
func (c *changes) apply(r *schema.QueryServicesReply) {
	c.mu.Lock()
	ports, hcas, watchers := c.ports, c.hcas, slices.Clone(c.watchers)
	c.ports, c.hcas = r.Ports, r.HCAs
	c.mu.Unlock()
	for _, p := range slices.Backward(ports) {
		if !slices.Contains(r.Ports, p) {
			c.s.closeAgents(convert.Port(p.Port))
			notifyPort(watchers, p, false)
		}
	}
	for _, h := range slices.Backward(hcas) {
		if !slices.Contains(r.HCAs, h) {
			notifyHCA(watchers, h, false)
		}
	}
	for _, h := range r.HCAs {
		if !slices.Contains(hcas, h) {
			notifyHCA(watchers, h, true)
		}
	}
	for _, p := range r.Ports {
		if !slices.Contains(ports, p) {
			notifyPort(watchers, p, true)
		}
	}
}

func notifyPort(list []*watcher, p schema.ServicePort, there bool) {
	for _, w := range list {
		if w.port != nil {
			w.port(convert.Port(p.Port), there)
		}
	}
}

func notifyHCA(list []*watcher, h schema.ServiceHCA, there bool) {
	for _, w := range list {
		if w.hca != nil {
			w.hca(h, there)
		}
	}
}

// watch adds a watcher and calls it for everything that is present.
func (c *changes) watch(w *watcher) (stop func()) {
	c.notifying.Lock()
	defer c.notifying.Unlock()
	c.mu.Lock()
	c.watchers = append(c.watchers, w)
	ports, hcas := slices.Clone(c.ports), slices.Clone(c.hcas)
	c.mu.Unlock()
	for _, h := range hcas {
		notifyHCA([]*watcher{w}, h, true)
	}
	for _, p := range ports {
		notifyPort([]*watcher{w}, p, true)
	}
	return func() {
		c.notifying.Lock()
		defer c.notifying.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(c.watchers, func(v *watcher) bool { return v == w })
	}
}

// close reports the removal of all ports and adapters.
func (c *changes) close() {
	c.notifying.Lock()
	defer c.notifying.Unlock()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.apply(&schema.QueryServicesReply{})
}
