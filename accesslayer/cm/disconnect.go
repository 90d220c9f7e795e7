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

// startDisconnect sends the DREQ, or a DREP if the peer has sent its DREQ already. The answer ends s.
func (c *conn) startDisconnect(ctx context.Context, verb string, private []byte, s *step) error {
	if err := checkPrivate(verb, private, mad.DREQPrivateLen); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callDisconnect); err != nil {
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

// sendDREQ sends a DREQ and enters StateDREQSent. The caller holds c.mu.
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
	c.state, c.retryCount = StateDREQSent, c.req.MaxCMRetries
	c.sendAndKeep(c.dreqTID, &d)
	c.setDue(c.interval())
}

// receiveDREQ takes the DREQ of a connection. The caller holds c.mu.
func (c *conn) receiveDREQ(tid uint64, d *mad.DREQ) {
	c.endLoading()
	if c.state != StateEstablished { // the RTU was lost
		c.establish()
	}
	c.state, c.dreqTID = StateDREQRcvd, tid
	c.emit(Event{Type: EventDisconnect, Private: d.PrivateData[:]})
	c.setDue(c.responseTime() / 2)
}

// AnswerDisconnect implements Conn.
func (c *conn) AnswerDisconnect(private []byte) error {
	if err := checkPrivate("Conn.AnswerDisconnect", private, mad.DREPPrivateLen); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callAnswerDisconnect); err != nil {
		return err
	}
	c.answerDisconnect(private)
	return nil
}

// answerDisconnect sends a DREP and ends the connection. The caller holds c.mu.
func (c *conn) answerDisconnect(private []byte) {
	r := mad.DREP{LocalCommID: c.id, RemoteCommID: c.remoteID}
	copy(r.PrivateData[:], private)
	c.sendAndKeep(c.dreqTID, &r)
	c.finish(nil)
	c.emit(Event{Type: EventDisconnected})
	c.enterTimeWait(errDisconnected)
}

var errDisconnected = closed("Conn", "disconnected")

// Close implements Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
	return nil
}

// closeLocked does the work of Close. The caller holds c.mu.
func (c *conn) closeLocked() {
	if c.consumerClosed {
		return
	}
	c.consumerClosed = true
	c.dropEvents()
	c.finish(closed("Conn", "closed"))
	switch c.state {
	case StateREQSent, StateREPWait: // Manager.Close during Connect
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

// closeNow is Close without waiting for the DREP and without time-wait, for Manager.Close.
func (c *conn) closeNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
	if c.state != StateClosed {
		c.close(ErrClosed)
	}
}

// endStale ends a connection of a peer that has lost its end, as a message from the given address shows.
func (c *conn) endStale(from *mads.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endStaleLocked(from)
}

// endStaleLocked does the work of endStale. CA GUIDs and QPNs are not secret, so a message from another port than the
// peer's does not end the connection. 12.9.8.3.1 requires the end for any sender. The caller holds c.mu.
func (c *conn) endStaleLocked(from *mads.Address) {
	if !c.isPeer(from) {
		return
	}
	err := closed("Conn", "stale: the peer requests another connection with the same QP or communication ID")
	switch c.state {
	case StateREQRcvd, StateMRAREQSent:
		c.emit(Event{Type: EventUnreachable, Err: err})
		c.enterTimeWait(err)
	case StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent:
		c.sendREJ(mad.WhichREP, mad.RejStaleConnection, nil, nil)
		if !c.finish(err) {
			c.emit(Event{Type: EventUnreachable, Err: err})
		}
		c.enterTimeWait(err)
	case StateEstablished:
		c.sendDREQ(nil)
	}
}
