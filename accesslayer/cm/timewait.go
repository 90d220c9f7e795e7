package cm

import (
	"time"

	"ciddk/mad"
)

// TimeWait implements Conn.
func (c *conn) TimeWait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeWaitLocked()
}

// timeWaitLocked returns the value of TimeWait. The caller holds c.mu.
func (c *conn) timeWaitLocked() time.Duration {
	var d time.Duration
	switch {
	case !c.peerQPKnown:
		return 0
	case c.active:
		d = 2*c.packetLifeTime() + c.m.boundedTime(c.rep.TargetAckDelay)
	default:
		d = c.m.boundedTime(c.req.REQ.Primary.AckTimeout)
	}
	return min(d, c.m.cfg.TimeWaitLimit)
}

// enterTimeWait ends the connection. The last message may have to be repeated in time-wait: a REJ, until the peer has
// given up. The caller holds c.mu.
func (c *conn) enterTimeWait(cause error) {
	c.endLoading()
	c.state, c.cause = StateTimeWait, cause
	d := c.timeWaitLocked()
	if c.sentAttr() == mad.AttrREJ {
		d = min(max(d, c.giveUpTime(0)), c.m.cfg.TimeWaitLimit)
	}
	m := c.m
	m.mu.Lock()
	m.forgetQP(c)
	m.removePending(c)
	if c.listener != nil { // it has ended before Accept, and must not use a place in the backlog
		c.listener.dequeue(c)
	}
	m.timeWait.add(c)
	var oldest *conn
	if m.timeWait.count > m.cfg.MaxTimeWait {
		oldest = m.timeWait.first
		m.timeWait.remove(oldest)
	}
	m.mu.Unlock()
	c.setDue(d)
	if oldest != nil && oldest != c { // its timer ends it, since its lock must not be taken here
		m.wheel.Set(&oldest.timer, 1)
	}
	c.release()
}

// close ends the connection without time-wait. The caller holds c.mu.
func (c *conn) close(cause error) {
	c.state, c.due = StateClosed, 0
	if c.cause == nil {
		c.cause = cause
	}
	c.endLoading()
	c.m.mu.Lock()
	c.m.remove(c)
	c.m.mu.Unlock()
	c.m.wheel.Cancel(&c.timer)
	c.sent = nil
	c.wake()
	c.ready.ring()
}
