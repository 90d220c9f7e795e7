package cm

import (
	"context"

	"ciddk/ci"
	"ciddk/mad"
)

// loading is the loading of alternate paths into a live connection.
type loading struct {
	state lapState
	tid   uint64 // of the last LAP
	sent  []byte // LAP, MRA or APR
	left  uint8
	way   *way // proposed
	ack   ci.TimeExp
}

// LoadAlternate implements Conn.
func (c *conn) LoadAlternate(ctx context.Context, cfg AlternateConfig) (*mad.APR, error) {
	s, ended := waitingStep()
	if err := c.startLoadAlternate(ctx, "Conn.LoadAlternate", cfg, s); err != nil {
		return nil, err
	}
	<-ended
	return s.apr, s.err
}

// StartLoadAlternate implements Conn.
func (c *conn) StartLoadAlternate(ctx context.Context, cfg AlternateConfig, done func(*mad.APR, error)) error {
	const verb = "Conn.StartLoadAlternate"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	return c.startLoadAlternate(ctx, verb, cfg, c.callbackStep(func(s *step) { done(s.apr, s.err) }))
}

// startLoadAlternate sends the LAP. s ends with the answer.
func (c *conn) startLoadAlternate(ctx context.Context, verb string, cfg AlternateConfig, s *step) error {
	if err := checkPrivate(verb, cfg.Private, mad.LAPPrivateLen); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := c.m.resolve(verb, "Path", cfg.Path)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.sendLAP(verb, w, cfg.Private); err != nil {
		return err
	}
	c.begin(ctx, s, func() { c.loading.state = lapIdle })
	return nil
}

// sendLAP proposes an alternate path; c.mu is held.
func (c *conn) sendLAP(verb string, w *way, private []byte) error {
	if err := c.allow(callLoadAlternate); err != nil {
		return err
	}
	switch {
	case !c.active:
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "only the end that asked for the connection proposes paths (12.8)"}
	case !c.port.a.Attr().Caps.Has(ci.CapAPM):
		return &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: "the CA does not migrate paths"}
	case w.Port.CA != c.port.id.CA:
		return invalid(verb, "Path.Port is of another CA than the connection's")
	case c.waiting != nil || c.loading != nil && c.loading.state != lapIdle:
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "another path is being proposed"}
	}
	c.m.mu.Lock()
	tid := c.m.newTID()
	c.m.mu.Unlock()
	l := mad.LAP{LocalCommID: c.id, RemoteCommID: c.remoteID, RemoteQPN: c.rep.LocalQPN, RemoteTimeout: c.req.RemoteTimeout, Alternate: w.wire()}
	copy(l.PrivateData[:], private)
	if err := checked(verb, &l); err != nil {
		return err
	}
	c.loading = &loading{state: lapSent, tid: tid, sent: encode(tid, &l), left: c.req.MaxCMRetries, way: w, ack: c.ackOf(w)}
	c.port.send(&c.to, c.loading.sent)
	c.setDue(c.interval())
	return nil
}

// expireLoading is the timer of a proposal; c.mu is held.
func (c *conn) expireLoading() {
	l := c.loading
	if l == nil || l.state != lapSent && l.state != lapMRARcvd {
		return
	}
	if l.left == 0 {
		l.state = lapIdle
		c.m.count.timedOut.Add(1)
		c.finish(ErrTimeout)
		return
	}
	l.left--
	l.state = lapSent
	c.m.count.resent.Add(1)
	c.port.send(&c.to, l.sent)
	c.setDue(c.interval())
}

// endLoading ends a proposal with the connection; c.mu is held.
func (c *conn) endLoading() {
	if c.loading == nil {
		return
	}
	if c.loading.state == lapSent || c.loading.state == lapMRARcvd {
		c.finish(closed("Conn.LoadAlternate", "the connection is over"))
	}
	c.loading = nil
}

// takeLAP is a proposal; c.mu is held. False: no use for it.
func (c *conn) takeLAP(tid uint64, lap *mad.LAP) bool {
	if lap.RemoteQPN != uint32(c.qp.Num) {
		c.answerLAP(tid, mad.APRInvalidQPN, nil)
		return true
	}
	if c.active || !c.port.a.Attr().Caps.Has(ci.CapAPM) { // only the other end may ask
		c.answerLAP(tid, mad.APRUnsupported, nil)
		return true
	}
	if c.loading == nil {
		c.loading = &loading{}
	}
	l := c.loading
	do := lapReactions[l.state].lap
	if l.tid == tid && l.sent != nil || l.tid == tid && l.state == lapRcvd {
		do = lapReactions[l.state].lapAgain
	}
	switch do {
	case lapRepeat:
		c.m.count.resent.Add(1)
		c.port.send(&c.to, l.sent)
		return true
	case lapAsk:
	default:
		return false
	}
	*l = loading{tid: tid}
	w, reason, info := c.port.pathFrom(&lap.Alternate, c.req.Primary.PKey, 0, c.req.Primary.MTU, &c.to)
	if reason == 0 {
		if index, _, err := c.port.a.FindPKey(w.Port.Num, w.PKey); err == nil {
			w.pkeyIndex = index
		} else {
			c.finishLAP(mad.APRRejected, nil, nil)
			return true
		}
	}
	switch {
	case reason == mad.RejPrimaryGID:
		c.finishLAP(mad.APRInvalidGID, info, nil)
	case reason == mad.RejPrimaryLID:
		c.finishLAP(mad.APRInvalidLID, info, nil)
	case sameWay(&w.Path, &c.req.Primary) || c.alternate != nil && sameWay(&w.Path, &c.alternate.Path):
		c.finishLAP(mad.APRDuplicatePath, nil, nil)
	default:
		l.state, l.way, l.ack = lapRcvd, w, ackTimeoutOf(&lap.Alternate)
		path := w.Path
		c.emit(Event{Type: EventAlternate, Private: lap.PrivateData[:], LAP: lap, Path: &path})
	}
	return true
}

// sameWay tells whether two paths are the same way between the same ports.
func sameWay(a, b *Path) bool {
	return a.Port == b.Port && a.AV.DLID == b.AV.DLID && a.AV.PathBits == b.AV.PathBits && a.AV.GRH.DGID == b.AV.GRH.DGID &&
		a.AV.GRH.SGIDIndex == b.AV.GRH.SGIDIndex
}

// answerLAP sends an APR that nothing is remembered of; c.mu is held.
func (c *conn) answerLAP(tid uint64, status mad.APRStatus, info []byte) {
	c.port.send(&c.to, encode(tid, c.apr(status, info, nil)))
}

func (c *conn) apr(status mad.APRStatus, info, private []byte) *mad.APR {
	a := &mad.APR{LocalCommID: c.id, RemoteCommID: c.remoteID, Status: status, InfoLength: uint8(len(info))}
	copy(a.Info[:], info)
	copy(a.PrivateData[:], private)
	return a
}

// finishLAP answers the proposal; c.mu is held.
func (c *conn) finishLAP(status mad.APRStatus, info, private []byte) {
	l := c.loading
	l.state = lapIdle
	l.sent = encode(l.tid, c.apr(status, info, private))
	if status == mad.APRLoaded {
		c.alternate, c.altAck = l.way, l.ack
	}
	l.way = nil
	c.port.send(&c.to, l.sent)
}

// AnswerAlternate implements Conn.
func (c *conn) AnswerAlternate(status mad.APRStatus, info, private []byte) error {
	const verb = "Conn.AnswerAlternate"
	if err := checkPrivate(verb, private, mad.APRPrivateLen); err != nil {
		return err
	}
	if len(info) > mad.CMInfoLen {
		return invalid(verb, "%d bytes of additional information, room for %d", len(info), mad.CMInfoLen)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callAnswerAlternate); err != nil {
		return err
	}
	if l := c.loading; l == nil || l.state != lapRcvd && l.state != lapMRASent {
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "no path was proposed, or it has been answered"}
	}
	c.finishLAP(status, info, private)
	return nil
}

// delayLoading sends an MRA for a LAP; c.mu is held.
func (c *conn) delayLoading(t mad.TimeExp, private []byte) error {
	l := c.loading
	if l == nil || l.state != lapRcvd && l.state != lapMRASent {
		return &ci.Error{Verb: "Conn.Delay", Status: ci.InvalidState, Detail: "nothing is to be answered"}
	}
	a := mad.MRA{LocalCommID: c.id, RemoteCommID: c.remoteID, Message: mad.WhichLAP, ServiceTimeout: t}
	copy(a.PrivateData[:], private)
	l.state = lapMRASent
	l.sent = encode(l.tid, &a)
	c.port.send(&c.to, l.sent)
	return nil
}

// lapDelayed is an MRA for our LAP; c.mu is held.
func (c *conn) lapDelayed(a *mad.MRA) bool {
	l := c.loading
	if l == nil || lapReactions[l.state].mra != lapLonger {
		return false
	}
	l.state = lapMRARcvd
	c.setDue(max(c.m.span(a.ServiceTimeout)+2*c.life(), c.interval()))
	c.emit(Event{Type: EventDelayed, Private: a.PrivateData[:]})
	return true
}

// takeAPR is the answer to our proposal; c.mu is held.
func (c *conn) takeAPR(tid uint64, a *mad.APR) bool {
	l := c.loading
	if l == nil || lapReactions[l.state].apr != lapDone || l.tid != tid {
		return false
	}
	l.state, c.due = lapIdle, 0
	var err error
	if a.Status == mad.APRLoaded {
		c.alternate, c.altAck = l.way, l.ack
	} else {
		err = &AlternateError{APR: *a}
	}
	if w := c.waiting; w != nil {
		w.apr = a
	}
	c.finish(err)
	return true
}

// Migrated implements Conn.
func (c *conn) Migrated() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callMigrated); err != nil {
		return err
	}
	if c.alternate == nil {
		return &ci.Error{Verb: "Conn.Migrated", Status: ci.InvalidState, Detail: "no alternate path was agreed on"}
	}
	w := c.alternate
	c.m.mu.Lock()
	p := c.m.ports[w.Port]
	c.m.mu.Unlock()
	if p != nil { // without services there, messages go on as before
		c.port, c.to = p, w.address()
	}
	c.req.Primary, c.req.Alternate, c.alternate = w.Path, nil, nil
	return nil
}
