package cm

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// Disconnect implements Conn.
func (c *conn) Disconnect(ctx context.Context, private []byte) ([]byte, error) {
	s, ended := waitingStep()
	if err := c.startDisconnect(ctx, "Conn.Disconnect", private, s); err != nil {
		return nil, err
	}
	<-ended
	return s.private, s.err
}

// StartDisconnect implements Conn.
func (c *conn) StartDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error {
	const verb = "Conn.StartDisconnect"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	return c.startDisconnect(ctx, verb, private, c.callbackStep(func(s *step) { done(s.private, s.err) }))
}

// startDisconnect sends the DREQ, or the DREP if the peer has sent its DREQ. s ends with the answer.
func (c *conn) startDisconnect(ctx context.Context, verb string, private []byte, s *step) error {
	if err := checkPrivate(verb, private, mad.DREQPrivateLen); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callDisconnect); err != nil {
		return err
	}
	if c.state == StateDREQRcvd { // both ends disconnect at the same time
		c.begin(ctx, s, func() {})
		c.answerDisconnect(private)
		return nil
	}
	c.sendDREQ(private)
	c.begin(ctx, s, func() {})
	return nil
}

// sendDREQ sends a DREQ and enters StateDREQSent; c.mu is held.
func (c *conn) sendDREQ(private []byte) {
	c.endLoading()
	c.m.mu.Lock()
	c.dreqTID = c.m.newTID()
	c.m.mu.Unlock()
	remote := c.req.LocalQPN
	if c.active {
		remote = c.rep.LocalQPN
	}
	d := mad.DREQ{LocalCommID: c.id, RemoteCommID: c.remoteID, RemoteQPN: remote}
	copy(d.PrivateData[:], private)
	c.state, c.left = StateDREQSent, c.req.MaxCMRetries
	c.put(c.dreqTID, &d)
	c.setDue(c.interval())
}

// disconnect is a DREQ that came for a connection; c.mu is held.
func (c *conn) disconnect(tid uint64, d *mad.DREQ) {
	c.endLoading()
	if c.state != StateEstablished { // its RTU was lost
		c.establish()
	}
	c.state, c.dreqTID = StateDREQRcvd, tid
	c.emit(Event{Type: EventDisconnect, Private: d.PrivateData[:]})
	c.setDue(c.patience() / 2)
}

// AnswerDisconnect implements Conn.
func (c *conn) AnswerDisconnect(private []byte) error {
	if err := checkPrivate("Conn.AnswerDisconnect", private, mad.DREPPrivateLen); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callAnswerDisconnect); err != nil {
		return err
	}
	c.answerDisconnect(private)
	return nil
}

// answerDisconnect sends DREP, and ends the connection; c.mu is held.
func (c *conn) answerDisconnect(private []byte) {
	r := mad.DREP{LocalCommID: c.id, RemoteCommID: c.remoteID}
	copy(r.PrivateData[:], private)
	c.put(c.dreqTID, &r)
	c.finish(nil)
	c.emit(Event{Type: EventDisconnected})
	c.enterTimeWait(errDisconnected)
}

var errDisconnected = closed("Conn", "disconnected")

// Close implements Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut()
	return nil
}

// shut does what Close does; c.mu is held.
func (c *conn) shut() {
	if c.quiet {
		return
	}
	c.quiet = true
	c.dropEvents()
	c.finish(closed("Conn", "closed"))
	switch c.state {
	case StateREQSent, StateREPWait: // of a manager that closes: Connect has not returned
		c.giveUp(ErrClosed)
	case StateREQRcvd, StateMRAREQSent, StateREPRcvd, StateMRAREPSent:
		c.reject(mad.RejConsumer, nil, nil)
	case StateREPSent, StateMRAREPRcvd:
		c.sendREJ(mad.WhichREP, mad.RejConsumer, nil, nil)
		c.enterTimeWait(ErrClosed)
	case StateEstablished:
		c.sendDREQ(nil)
	case StateDREQRcvd:
		c.answerDisconnect(nil)
	case StateTimeWait:
		c.release()
	}
}

// end is Close without what comes after: the manager closes.
func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut()
	if c.state != StateClosed {
		c.close(ErrClosed)
	}
}

// endStale ends a connection whose peer has forgotten it, as a message from an address says.
func (c *conn) endStale(from *mads.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goStale(from)
}

// goStale is endStale; c.mu is held. CA GUIDs and QPNs are no secrets: who is elsewhere than the peer does not end its connection (12.9.8.3.1 asks for
// the end, whoever asks).
func (c *conn) goStale(from *mads.Address) {
	if !c.isPeer(from) {
		return
	}
	err := closed("Conn", "stale: the peer's QP, or its communication ID, asks for another connection")
	switch c.state {
	case StateREQRcvd, StateMRAREQSent:
		c.emit(Event{Type: EventUnreachable, Err: err})
		c.enterTimeWait(err)
	case StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent:
		which := mad.WhichREP
		c.sendREJ(which, mad.RejStaleConnection, nil, nil)
		if !c.finish(err) {
			c.emit(Event{Type: EventUnreachable, Err: err})
		}
		c.enterTimeWait(err)
	case StateEstablished:
		c.sendDREQ(nil)
	}
}
