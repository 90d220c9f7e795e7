package cm

import (
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// conn is one end of a connection.
type conn struct {
	m     *Manager
	id    uint32
	timer clock.Deadline // calls expire

	// Guarded by m.mu.
	listener   *listener // where it waits for Accept
	counted    bool      // in m.pending, at place, and in m.perPeer[from]
	place      int
	from       mads.Source
	peer       peerID // its names in the tables
	peerQP     peerQP
	listed     bool          // in m.timeWait or m.replied
	replied    time.Duration // since when it is in m.replied; 0: it is not
	crowded    bool          // its place was needed: it shall give up
	prev, next *conn

	heir   *conn         // made by release
	reqSum uint64        // of the REQ, of a connection that release made
	rest   time.Duration // TimeWait, likewise

	mu        sync.Mutex
	*exchange // req, rep
	state     State
	active    bool        // sent the REQ
	rtu       bool        // passive: RTU came
	quiet     bool        // closed by the consumer: no more events
	answered  bool        // the peer's QP is known: rep, or, passive, the request
	accepted  bool        // passive: rep and qp are what was accepted
	left      uint8       // times that the message goes out again
	asked     mad.TimeExp // in the last MRA
	remoteID  uint32
	port      *port
	to        mads.Address
	tid       uint64 // of the REQ, and all that belongs to it
	dreqTID   uint64
	qp        QP
	asking    *ConnectConfig // active: what is wanted of a peer-to-peer request
	due       time.Duration  // when expire has something to do; 0: never
	late      lateness       // of due, while the peer's answer is awaited
	sent      []byte         // what repeat repeats
	why       error          // what ended it
	waiting   *step
	loading   *loading // of alternate paths
	alternate *way     // agreed on
	altAck    ci.TimeExp

	notices    []notice
	ready      bell // rings when there is an event for Next, or will be none
	onEvent    func(Conn, Event)
	delivering bool // deliver runs
}

var _ Conn = (*conn)(nil)

func newConn(m *Manager) *conn {
	c := &conn{m: m, exchange: &exchange{}}
	c.timer.Fire = c.expire
	return c
}

// allow tells whether a call may be made now; c.mu is held.
func (c *conn) allow(k call) error {
	for _, s := range calls[k] {
		if c.state == s {
			return nil
		}
	}
	return &ci.Error{Verb: "Conn." + callNames[k], Status: ci.InvalidState, Detail: "in state " + c.state.String(), Err: c.why}
}

func (c *conn) taken() { c.listener = nil }

// ID implements Conn.
func (c *conn) ID() uint32 { return c.id }

// RemoteID implements Conn.
func (c *conn) RemoteID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remoteID
}

// State implements Conn.
func (c *conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heir != nil {
		return c.heir.State()
	}
	return c.state
}

// Request implements Conn.
func (c *conn) Request() *Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.req
	if r.Alternate != nil {
		a := *r.Alternate
		r.Alternate = &a
	}
	return &r
}

// Reply implements Conn.
func (c *conn) Reply() *mad.REP {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active && !c.answered || !c.active && !c.accepted {
		return nil
	}
	r := c.rep
	return &r
}

// TimeWait implements Conn.
func (c *conn) TimeWait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeWaitLen()
}

func (c *conn) timeWaitLen() time.Duration {
	var d time.Duration
	switch {
	case !c.answered:
		return 0
	case c.exchange == &released:
		return c.rest
	case c.active:
		d = 2*c.life() + c.m.span(c.rep.TargetAckDelay)
	default:
		d = c.m.span(c.req.REQ.Primary.AckTimeout)
	}
	return min(d, c.m.cfg.TimeWaitLimit)
}

// setDue sets the timer; c.mu is held.
func (c *conn) setDue(d time.Duration) {
	c.due = c.m.clock.Now() + max(d, 1)
	c.m.wheel.Set(&c.timer, c.due)
}

// put sends a message, and keeps it as the one to repeat; c.mu is held.
func (c *conn) put(tid uint64, msg mad.CMMessage) {
	c.sent = encode(tid, msg)
	c.port.send(&c.to, c.sent)
}

// again sends it again; c.mu is held. Copies of answers to a peer that has not shown yet that it is where its messages come from are limited.
func (c *conn) again() {
	if !c.active && c.state != StateDREQSent || c.state == StateTimeWait {
		c.port.reply(&c.to, padded(c.sent))
	} else {
		c.port.send(&c.to, c.sent)
	}
	c.m.count.resent.Add(1)
	if c.sentAttr() == mad.AttrMRA { // the peer waits anew
		c.setDue(c.lastPatience(c.asked))
	}
}

// sentAttr is which message repeat repeats, 0 for none.
func (c *conn) sentAttr() uint16 {
	if c.sent == nil {
		return 0
	}
	return uint16(c.sent[16])<<8 | uint16(c.sent[17])
}

// interval is how long an answer takes at most: the peer's time, and the way there and back (12.9.8.1).
func (c *conn) interval() time.Duration {
	t := c.req.LocalTimeout
	if c.active {
		t = c.req.RemoteTimeout
	}
	return c.m.answerTime(t) + 2*c.life()
}

// patience is how long the peer waits for what we have to say, before it asks again.
func (c *conn) patience() time.Duration {
	t := c.req.RemoteTimeout
	if c.active {
		t = c.req.LocalTimeout
	}
	return c.m.answerTime(t)
}

// enterTimeWait ends the connection; c.mu is held. What was said last may have to be said again: a REJ until the peer has stopped asking.
func (c *conn) enterTimeWait(why error) {
	c.endLoading()
	c.state, c.why = StateTimeWait, why
	d := c.timeWaitLen()
	if c.sentAttr() == mad.AttrREJ {
		d = min(max(d, c.lastPatience(0)), c.m.cfg.TimeWaitLimit)
	}
	m := c.m
	m.mu.Lock()
	m.forgetQP(c)
	m.settle(c)
	if c.listener != nil { // it was not accepted, and shall not take the place of one that can be
		c.listener.dequeue(c)
	}
	m.timeWait.add(c)
	var oldest *conn
	if m.timeWait.n > m.cfg.MaxTimeWait {
		oldest = m.timeWait.first
		m.timeWait.remove(oldest)
	}
	m.mu.Unlock()
	c.setDue(d)
	if oldest != nil && oldest != c { // its lock is not ours to take: its timer does it
		m.wheel.Set(&oldest.timer, 1)
	}
	c.release()
}

// close ends the connection without time-wait; c.mu is held.
func (c *conn) close(why error) {
	c.state, c.due = StateClosed, 0
	if c.why == nil {
		c.why = why
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

// evicted reports whether time-wait, or a request, ends early because there are too many; c.mu is held.
func (c *conn) evicted() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	switch c.state {
	case StateTimeWait:
		return !c.listed
	case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd:
		return c.crowded
	}
	return false
}

// expire is the timer.
func (c *conn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due == 0 {
		return
	}
	if c.m.clock.Now() < c.due && !c.evicted() {
		c.m.wheel.Set(&c.timer, c.due)
		return
	}
	if c.awaitsPeer() && !c.evicted() && !c.port.isLate(&c.late, &c.mu, &c.timer, c.due, c.interval()) {
		return
	}
	c.due = 0
	if (c.state == StateREQRcvd || c.state == StateMRAREQSent) && c.evicted() {
		c.forgetDisplaced()
		return
	}
	switch c.state {
	case StateREQSent, StateREPWait, StateREPSent, StateMRAREPRcvd, StateDREQSent:
		if c.left > 0 && !c.evicted() {
			c.left--
			c.resume()
			c.again()
			c.setDue(c.interval())
			return
		}
		c.m.count.timedOut.Add(1)
		c.giveUp(ErrTimeout)
	case StateREQRcvd:
		c.delay(mad.WhichREQ, c.more(c.req.RemoteTimeout), nil)
	case StateREPRcvd:
		c.delay(mad.WhichREP, c.more(c.req.LocalTimeout), nil)
	case StateMRAREQSent, StateMRAREPSent: // the peer asked for the last time long ago
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

// awaitsPeer reports whether the connection waits for an answer of the peer, and repeats its message; c.mu is held.
func (c *conn) awaitsPeer() bool {
	switch c.state {
	case StateREQSent, StateREPWait, StateREPSent, StateMRAREPRcvd, StateDREQSent:
		return true
	}
	return false
}

// resume ends what an MRA had begun: the message is on its way again; c.mu is held.
func (c *conn) resume() {
	switch c.state {
	case StateREPWait:
		c.state = StateREQSent
	case StateMRAREPRcvd:
		c.state = StateREPSent
	}
}

// giveUp ends a connection whose peer, or whose consumer, does not do its part; c.mu is held. A peer that may still be there is told.
func (c *conn) giveUp(why error) {
	switch c.state {
	case StateREQSent, StateREPWait:
		if c.why != nil {
			why = c.why // peer-to-peer: rejected each time
		}
		c.rejectTimeout(mad.WhichREQ)
		c.finish(why)
		c.close(why)
	case StateREQRcvd, StateMRAREQSent:
		c.rejectTimeout(mad.WhichREQ)
		c.emit(Event{Type: EventUnreachable, Err: why})
		c.enterTimeWait(why)
	case StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent:
		c.rejectTimeout(mad.WhichREP)
		if !c.finish(why) {
			c.emit(Event{Type: EventUnreachable, Err: why})
		}
		c.enterTimeWait(why)
	case StateDREQSent:
		c.finish(why)
		c.emit(Event{Type: EventDisconnected, Err: why})
		c.enterTimeWait(why)
	}
}

// rejectTimeout tells the peer that we do not wait any longer. It may not know our communication ID, and finds its connection by our
// CA's GUID and the ID (12.6.7.2).
func (c *conn) rejectTimeout(which mad.CMWhich) {
	c.sendREJ(which, mad.RejTimeout, c.caGUID(), nil)
}

func (c *conn) caGUID() []byte {
	g := uint64(c.port.id.CA)
	return []byte{byte(g >> 56), byte(g >> 48), byte(g >> 40), byte(g >> 32), byte(g >> 24), byte(g >> 16), byte(g >> 8), byte(g)}
}

// sendREJ sends a REJ whose lengths were checked; c.mu is held.
func (c *conn) sendREJ(which mad.CMWhich, reason mad.RejReason, info, private []byte) {
	j := mad.REJ{LocalCommID: c.id, RemoteCommID: c.remoteID, Message: which, Reason: reason, InfoLength: uint8(len(info))}
	copy(j.Info[:], info)
	copy(j.PrivateData[:], private)
	c.sent = encode(c.tid, &j)
	c.port.reply(&c.to, c.sent)
}

// more is what the manager asks for by itself with an MRA: four times what the peer waits anyway. When that is over the peer asks
// again, and gets as much again.
func (c *conn) more(t mad.TimeExp) mad.TimeExp {
	return min(max(t, minAnswer)+2, c.m.cfg.MaxResponseTime)
}

// delay sends an MRA; c.mu is held. The peer's patience is then as long as it says, and what it tries after that.
func (c *conn) delay(which mad.CMWhich, t mad.TimeExp, private []byte) {
	a := mad.MRA{LocalCommID: c.id, RemoteCommID: c.remoteID, Message: which, ServiceTimeout: t}
	copy(a.PrivateData[:], private)
	c.sent = encode(c.tid, &a)
	c.port.reply(&c.to, c.sent)
	c.state, c.asked = StateMRAREPSent, t
	if which == mad.WhichREQ {
		c.state = StateMRAREQSent
	}
	c.setDue(c.lastPatience(t))
}

// lastPatience is when nobody waits any more for an answer that t was asked for.
func (c *conn) lastPatience(t mad.TimeExp) time.Duration {
	return c.m.span(t) + time.Duration(c.req.MaxCMRetries+1)*(c.patience()+2*c.life())
}

// checkPrivate judges private data. Status: InvalidParameter.
func checkPrivate(verb string, private []byte, room int) error {
	if len(private) > room {
		return invalid(verb, "%d bytes of private data, room for %d", len(private), room)
	}
	return nil
}

// checked judges a message that is to be sent.
func checked(verb string, msg mad.CMMessage) error {
	if err := msg.Check(); err != nil {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "a value does not fit into the message", Err: err}
	}
	return nil
}
