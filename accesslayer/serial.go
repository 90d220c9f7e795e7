package accesslayer

import "sync"

// serial runs functions one after the other, in the order of post. Its goroutine exists only while functions are
// queued, so an idle access layer has no goroutines. The queue has no bound, since events and destroys must not be
// lost.
type serial struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

// post queues f. It never blocks, so that a driver's callback may call it.
func (s *serial) post(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if !s.running {
		s.running = true
		go s.drain()
	}
}

func (s *serial) drain() {
	for {
		s.mu.Lock()
		batch := s.queue
		s.queue = nil
		if len(batch) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, f := range batch {
			f()
		}
	}
}
