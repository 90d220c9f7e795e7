package ibsim

// arm sets the timer of watch, unless it is set. The caller holds s.mu.
func (s *Server) arm() {
	if s.watched || s.closed {
		return
	}
	s.watched = true
	if s.timer == nil {
		s.timer = s.cfg.Clock.AfterFunc(s.cfg.Watch, s.watch)
		return
	}
	s.timer.Reset(s.cfg.Watch)
}

// watch disconnects the clients whose process has ended. Without clients, it runs no more.
func (s *Server) watch() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.done.Add(1)
	s.mu.Unlock()
	defer s.done.Done()
	s.sweep()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = false
	for _, k := range s.clients {
		if k != nil {
			s.arm()
			return
		}
	}
}

// sweep disconnects the clients whose process has ended without a word.
func (s *Server) sweep() {
	s.mu.Lock()
	clients := append([]*client(nil), s.clients...)
	s.mu.Unlock()
	for _, k := range clients {
		if k != nil && !k.isAlive() {
			s.disconnect(k, "the process has ended")
		}
	}
}
