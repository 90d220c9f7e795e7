package cm

import (
	"time"

	"ciddk/mad"
)

// setDue sets the timer. The caller holds c.mu.
func (c *conn) setDue(d time.Duration) {
	c.due = c.m.clock.Elapsed() + max(d, 1)
	c.m.wheel.Set(&c.timer, c.due)
}

// interval returns how long an answer may take: the peer's response time plus the way there and back (12.9.8.1).
func (c *conn) interval() time.Duration {
	t := c.req.LocalTimeout
	if c.active {
		t = c.req.RemoteTimeout
	}
	return c.m.answerTime(t) + 2*c.packetLifeTime()
}

// responseTime returns how long the peer waits for our message before it repeats its own, without the time on the way.
func (c *conn) responseTime() time.Duration {
	t := c.req.RemoteTimeout
	if c.active {
		t = c.req.LocalTimeout
	}
	return c.m.answerTime(t)
}

// extraTime returns the time that the manager requests with an MRA of its own: four times the peer's interval. When it
// has passed, the peer repeats its message, and the manager requests the time again.
func (c *conn) extraTime(t mad.TimeExp) mad.TimeExp {
	return min(max(t, minAnswer)+2, c.m.cfg.MaxResponseTime)
}

// giveUpTime returns the time after which the peer has given up, if an MRA requested the time t from it.
func (c *conn) giveUpTime(t mad.TimeExp) time.Duration {
	return c.m.boundedTime(t) + time.Duration(c.req.MaxCMRetries+1)*(c.responseTime()+2*c.packetLifeTime())
}

// isEvicted reports whether a connection must leave time-wait early, or a request must end, because there are too many.
// The caller holds c.mu.
func (c *conn) isEvicted() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	switch c.state {
	case StateTimeWait:
		return !c.inList
	case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd:
		return c.displaced
	}
	return false
}

// expire is called by the timer.
func (c *conn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due == 0 {
		return
	}
	if c.m.clock.Elapsed() < c.due && !c.isEvicted() {
		c.m.wheel.Set(&c.timer, c.due)
		return
	}
	mayBeLate := c.isAwaitingPeer() && !c.isEvicted()
	if mayBeLate && !c.port.isExpired(&c.grace, &c.mu, &c.timer, c.due, c.interval()) {
		return
	}
	c.due = 0
	if (c.state == StateREQRcvd || c.state == StateMRAREQSent) && c.isEvicted() {
		c.endDisplaced()
		return
	}
	switch c.state {
	case StateREQSent, StateREPWait, StateREPSent, StateMRAREPRcvd, StateDREQSent:
		if c.retryCount > 0 && !c.isEvicted() {
			c.retryCount--
			c.resume()
			c.resend()
			c.setDue(c.interval())
			return
		}
		c.m.count.timedOut.Add(1)
		c.giveUp(ErrTimeout)
	case StateREQRcvd:
		c.sendMRA(mad.WhichREQ, c.extraTime(c.req.RemoteTimeout), nil)
	case StateREPRcvd:
		c.sendMRA(mad.WhichREP, c.extraTime(c.req.LocalTimeout), nil)
	case StateMRAREQSent, StateMRAREPSent: // the peer has given up
		c.m.count.drop(DropUnanswered)
		c.giveUp(ErrTimeout)
	case StateEstablished:
		c.expireLoading()
	case StateDREQRcvd:
		c.answerDisconnect(nil)
	case StateTimeWait:
		c.emit(Event{Type: EventTimeWaitExit})
		c.close(nil)
	}
}

// isAwaitingPeer reports whether the connection repeats its message until the peer answers. The caller holds c.mu.
func (c *conn) isAwaitingPeer() bool {
	switch c.state {
	case StateREQSent, StateREPWait, StateREPSent, StateMRAREPRcvd, StateDREQSent:
		return true
	}
	return false
}

// resume leaves the state that an MRA from the peer caused, because the message is sent again. The caller holds c.mu.
func (c *conn) resume() {
	switch c.state {
	case StateREPWait:
		c.state = StateREQSent
	case StateMRAREPRcvd:
		c.state = StateREPSent
	}
}

// giveUp ends a connection whose peer or consumer has not answered. The peer gets a REJ, since it may still be waiting.
// The caller holds c.mu.
func (c *conn) giveUp(cause error) {
	switch c.state {
	case StateREQSent, StateREPWait:
		if c.cause != nil {
			cause = c.cause // a peer-to-peer request that was rejected each time
		}
		c.rejectTimeout(mad.WhichREQ)
		c.finish(cause)
		c.close(cause)
	case StateREQRcvd, StateMRAREQSent:
		c.rejectTimeout(mad.WhichREQ)
		c.emit(Event{Type: EventUnreachable, Err: cause})
		c.enterTimeWait(cause)
	case StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent:
		c.rejectTimeout(mad.WhichREP)
		if !c.finish(cause) {
			c.emit(Event{Type: EventUnreachable, Err: cause})
		}
		c.enterTimeWait(cause)
	case StateDREQSent:
		c.finish(cause)
		c.emit(Event{Type: EventDisconnected, Err: cause})
		c.enterTimeWait(cause)
	}
}
