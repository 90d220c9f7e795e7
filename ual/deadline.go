package ual

import (
	"fmt"
	"time"

	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
)

// DefaultCallTimeout is the time in which a daemon must reply to a request, unless Config.CallTimeout sets another one.
const DefaultCallTimeout = time.Minute

// grace is the time that a reply has after its deadline. A process that was stopped itself finds its deadlines passed
// when it continues, while the replies wait in its socket.
const grace = time.Second

// deadlines are the deadlines of a client's calls: one timer, which runs while calls wait. Client.mu guards the fields.
type deadlines struct {
	clock    clock.Clock
	limit    time.Duration // of a call
	watchdog clock.Timer   // nil until the first call
	watching bool          // it is set
}

// watch sets the timer to expire after d, unless it is set. mu is held.
func (c *Client) watch(d time.Duration) {
	switch {
	case c.watching:
		return
	case c.watchdog == nil:
		c.watchdog = c.clock.AfterFunc(d, c.check)
	default:
		c.watchdog.Reset(d)
	}
	c.watching = true
}

// check closes the connection if the oldest call has waited too long, and otherwise sets the timer for it.
func (c *Client) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching = false
	if c.err != nil {
		return
	}
	var oldest *call
	for _, x := range c.calls {
		if x != nil && (oldest == nil || x.since < oldest.since) {
			oldest = x
		}
	}
	if oldest == nil {
		return
	}
	left := oldest.since + c.limit - c.clock.Elapsed()
	switch {
	case left > 0:
		c.watch(left)
	case !oldest.late:
		oldest.late = true
		c.watch(grace)
	default:
		c.err = &hungError{pid: int(c.server.PID), socket: c.c.Address(), cmd: oldest.cmd, limit: c.limit}
		c.isLost.Store(true)
		c.late.Store(true)
		c.c.Close()
	}
}

// hungError is the reason why a client has closed its connection: the daemon did not reply.
type hungError struct {
	pid    int // 0 before Hello
	socket string
	cmd    schema.Command
	limit  time.Duration
}

// Error returns the text of the error.
func (e *hungError) Error() string {
	return fmt.Sprintf("the daemon (process %d, socket %q) did not reply to %s within %v; it may be stopped",
		e.pid, e.socket, e.cmd.Verb(), e.limit)
}
