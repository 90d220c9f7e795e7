package rdmacm

// HoldPolling keeps the calls of a Conn from polling its CQ until the returned function is called.
func HoldPolling(c *Conn) (release func()) {
	c.e.baton <- struct{}{}
	return func() { <-c.e.baton }
}

// HoldSends takes all send buffers of a Conn, until the returned function is called.
func HoldSends(c *Conn) (release func()) {
	e := &c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	var held []int
	for len(e.free) > 0 {
		held = append(held, e.take(true))
	}
	return func() {
		for _, i := range held {
			e.mu.Lock()
			e.inFlight--
			e.mu.Unlock()
			e.release(i)
		}
	}
}
