package cm

import (
	"context"

	"ciddk/ci"
	"ciddk/mad"
)

// loading is the state of a proposal for an alternate path of an established connection.
type loading struct {
	state      lapState
	tid        uint64 // of the last LAP
	sent       []byte // the last LAP, MRA or APR
	retryCount uint8
	route      *route // the proposed path
	ackTimeout ci.TimeExp
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

// startLoadAlternate sends the LAP. The answer ends s.
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

// sendLAP proposes an alternate path. The caller holds c.mu.
func (c *conn) sendLAP(verb string, r *route, private []byte) error {
	if err := c.checkCall(callLoadAlternate); err != nil {
		return err
	}
	switch {
	case !c.active:
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "only the active end can propose a path (12.8)"}
	case !c.port.a.Attr().Caps.Has(ci.CapAPM):
		return &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: "the CA does not migrate paths"}
	case r.Port.CA != c.port.id.CA:
		return invalid(verb, "Path.Port is on another CA than the connection")
	case c.step != nil || c.loading != nil && c.loading.state != lapIdle:
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "another proposal is pending"}
	}
	c.m.mu.Lock()
	tid := c.m.newTID()
	c.m.mu.Unlock()
	l := mad.LAP{LocalCommID: c.id, RemoteCommID: c.remoteID, RemoteQPN: c.rep.LocalQPN,
		RemoteTimeout: c.req.RemoteTimeout, Alternate: r.cmPath()}
	copy(l.PrivateData[:], private)
	if err := checkMessage(verb, &l); err != nil {
		return err // of a value that resolve and Connect do not check
	}
	c.loading = &loading{state: lapSent, tid: tid, sent: encode(tid, &l), retryCount: c.req.MaxCMRetries, route: r,
		ackTimeout: c.ackTimeoutFor(r)}
	c.port.send(&c.to, c.loading.sent)
	c.setDue(c.interval())
	return nil
}

// expireLoading handles the timer of a proposal: it repeats the LAP or gives up. The caller holds c.mu.
func (c *conn) expireLoading() {
	l := c.loading
	if l == nil || l.state != lapSent && l.state != lapMRARcvd {
		return
	}
	if l.retryCount == 0 {
		l.state = lapIdle
		c.m.count.timedOut.Add(1)
		c.finish(ErrTimeout)
		return
	}
	l.retryCount--
	l.state = lapSent
	c.m.count.resent.Add(1)
	c.port.send(&c.to, l.sent)
	c.setDue(c.interval())
}

// endLoading ends a proposal because the connection ends. The caller holds c.mu.
func (c *conn) endLoading() {
	if c.loading == nil {
		return
	}
	if c.loading.state == lapSent || c.loading.state == lapMRARcvd {
		c.finish(closed("Conn.LoadAlternate", "the connection has ended"))
	}
	c.loading = nil
}

// receiveLAP takes a proposal of the peer. It returns false if the current state ignores it. The caller holds c.mu.
func (c *conn) receiveLAP(tid uint64, lap *mad.LAP) bool {
	if lap.RemoteQPN != uint32(c.qp.Num) {
		c.sendOneAPR(tid, mad.APRInvalidQPN, nil)
		return true
	}
	if c.active || !c.port.a.Attr().Caps.Has(ci.CapAPM) { // only the active end may send a LAP
		c.sendOneAPR(tid, mad.APRUnsupported, nil)
		return true
	}
	if c.loading == nil {
		c.loading = &loading{}
	}
	l := c.loading
	action := lapReactions[l.state].lap
	if isCopy := l.tid == tid && (l.sent != nil || l.state == lapRcvd); isCopy {
		action = lapReactions[l.state].lapAgain
	}
	switch action {
	case lapRepeat:
		c.m.count.resent.Add(1)
		c.port.send(&c.to, l.sent)
		return true
	case lapTake:
	default:
		return false
	}
	*l = loading{tid: tid}
	r, reason, info := c.port.returnPath(&lap.Alternate, c.req.Primary.PKey, 0, c.req.Primary.MTU, &c.to)
	if reason == 0 {
		if index, _, err := c.port.a.FindPKey(r.Port.Num, r.PKey); err == nil {
			r.pkeyIndex = index
		} else {
			c.sendAPR(mad.APRRejected, nil, nil)
			return true
		}
	}
	switch {
	case reason == mad.RejPrimaryGID:
		c.sendAPR(mad.APRInvalidGID, info, nil)
	case reason == mad.RejPrimaryLID:
		c.sendAPR(mad.APRInvalidLID, info, nil)
	case isSameRoute(&r.Path, &c.req.Primary) || c.alternate != nil && isSameRoute(&r.Path, &c.alternate.Path):
		c.sendAPR(mad.APRDuplicatePath, nil, nil)
	default:
		l.state, l.route, l.ackTimeout = lapRcvd, r, ackTimeoutOf(&lap.Alternate)
		path := r.Path
		c.emit(Event{Type: EventAlternate, Private: lap.PrivateData[:], LAP: lap, Path: &path})
	}
	return true
}

// isSameRoute reports whether two paths connect the same ports with the same addresses.
func isSameRoute(a, b *Path) bool {
	isSameLID := a.AV.DLID == b.AV.DLID && a.AV.PathBits == b.AV.PathBits
	isSameGID := a.AV.GRH.DGID == b.AV.GRH.DGID && a.AV.GRH.SGIDIndex == b.AV.GRH.SGIDIndex
	return a.Port == b.Port && isSameLID && isSameGID
}

// sendOneAPR sends an APR and keeps no state of it. The caller holds c.mu.
func (c *conn) sendOneAPR(tid uint64, status mad.APRStatus, info []byte) {
	c.port.send(&c.to, encode(tid, c.newAPR(status, info, nil)))
}

func (c *conn) newAPR(status mad.APRStatus, info, private []byte) *mad.APR {
	a := &mad.APR{LocalCommID: c.id, RemoteCommID: c.remoteID, Status: status, InfoLength: uint8(len(info))}
	copy(a.Info[:], info)
	copy(a.PrivateData[:], private)
	return a
}

// sendAPR answers the proposal. The caller holds c.mu.
func (c *conn) sendAPR(status mad.APRStatus, info, private []byte) {
	l := c.loading
	l.state = lapIdle
	l.sent = encode(l.tid, c.newAPR(status, info, private))
	if status == mad.APRLoaded {
		c.alternate, c.alternateAck = l.route, l.ackTimeout
	}
	l.route = nil
	c.port.send(&c.to, l.sent)
}

// AnswerAlternate implements Conn.
func (c *conn) AnswerAlternate(status mad.APRStatus, info, private []byte) error {
	const verb = "Conn.AnswerAlternate"
	if err := checkPrivate(verb, private, mad.APRPrivateLen); err != nil {
		return err
	}
	if err := checkInfo(verb, info); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callAnswerAlternate); err != nil {
		return err
	}
	if l := c.loading; l == nil || l.state != lapRcvd && l.state != lapMRASent {
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "there is no proposal to answer"}
	}
	c.sendAPR(status, info, private)
	return nil
}

// sendMRAofLAP answers a LAP with an MRA. The caller holds c.mu.
func (c *conn) sendMRAofLAP(t mad.TimeExp, private []byte) error {
	l := c.loading
	if l == nil || l.state != lapRcvd && l.state != lapMRASent {
		return &ci.Error{Verb: "Conn.Delay", Status: ci.InvalidState, Detail: "there is no message to answer"}
	}
	a := mad.MRA{LocalCommID: c.id, RemoteCommID: c.remoteID, Message: mad.WhichLAP, ServiceTimeout: t}
	copy(a.PrivateData[:], private)
	l.state = lapMRASent
	l.sent = encode(l.tid, &a)
	c.port.send(&c.to, l.sent)
	return nil
}

// receiveMRAofLAP takes an MRA that answers our LAP. It returns false if the current state ignores it. The caller holds
// c.mu.
func (c *conn) receiveMRAofLAP(a *mad.MRA) bool {
	l := c.loading
	if l == nil || lapReactions[l.state].mra != lapLonger {
		return false
	}
	l.state = lapMRARcvd
	c.setDue(max(c.m.boundedTime(a.ServiceTimeout)+2*c.packetLifeTime(), c.interval()))
	c.emit(Event{Type: EventDelayed, Private: a.PrivateData[:]})
	return true
}

// receiveAPR takes the answer to our LAP. It returns false if the current state ignores it. The caller holds c.mu.
func (c *conn) receiveAPR(tid uint64, a *mad.APR) bool {
	l := c.loading
	if l == nil || lapReactions[l.state].apr != lapDone || l.tid != tid {
		return false
	}
	l.state, c.due = lapIdle, 0
	var err error
	if a.Status == mad.APRLoaded {
		c.alternate, c.alternateAck = l.route, l.ackTimeout
	} else {
		err = &AlternateError{APR: *a}
	}
	if s := c.step; s != nil {
		s.apr = a
	}
	c.finish(err)
	return true
}

// Migrated implements Conn.
func (c *conn) Migrated() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callMigrated); err != nil {
		return err
	}
	if c.alternate == nil {
		return &ci.Error{Verb: "Conn.Migrated", Status: ci.InvalidState, Detail: "there is no alternate path"}
	}
	r := c.alternate
	c.m.mu.Lock()
	p := c.m.ports[r.Port]
	c.m.mu.Unlock()
	if p != nil { // otherwise messages keep using the old port
		c.port, c.to = p, r.address()
	}
	c.req.Primary, c.req.Alternate, c.alternate = r.Path, nil, nil
	return nil
}
