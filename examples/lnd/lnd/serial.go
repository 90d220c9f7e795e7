package lnd

import "sync"

// serial runs functions in order, on a goroutine that exists only while there are any: for the application's handlers, which may block. Who
// may post is bounded by credits, so the queue is short.
type serial struct {
	wg *sync.WaitGroup // of everything that runs

	mu      sync.Mutex
	queue   []func()
	running bool
}

func (s *serial) post(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if !s.running {
		s.running = true
		s.wg.Add(1)
		go s.run()
	}
}

func (s *serial) run() {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		f := shift(&s.queue)
		s.mu.Unlock()
		f()
	}
}
