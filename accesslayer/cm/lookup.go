package cm

import (
	"bytes"
	"context"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// A lookup is a SIDR request that this end has sent.
type lookup struct {
	m        *Manager
	id       uint32
	port     *port
	to       mads.Address
	sent     []byte
	interval time.Duration // between copies
	timer    clock.Deadline

	// Guarded by m.mu.
	isOver     bool
	retryCount int           // how often the request will still be repeated
	due        time.Duration // when expire acts
	grace      gracePeriod
	stop       func() bool               // cancels the reaction to the end of the context
	ended      func(*LookupReply, error) // called once with m.mu held; must not block
}

// Lookup implements Service.
func (m *Manager) Lookup(ctx context.Context, cfg LookupConfig) (*LookupReply, error) {
	var reply *LookupReply
	var err error
	ended := make(chan struct{})
	errStart := m.startLookup(ctx, "Service.Lookup", cfg, func(r *LookupReply, reason error) {
		reply, err = r, reason
		close(ended)
	})
	if errStart != nil {
		return nil, errStart
	}
	<-ended
	return reply, err
}

// StartLookup implements Service.
func (m *Manager) StartLookup(ctx context.Context, cfg LookupConfig, done func(*LookupReply, error)) error {
	const verb = "Service.StartLookup"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	return m.startLookup(ctx, verb, cfg, func(r *LookupReply, err error) { go done(r, err) })
}

// startLookup sends a SIDR request. If it returns nil, ended is called once with m.mu held.
func (m *Manager) startLookup(ctx context.Context, verb string, cfg LookupConfig,
	ended func(*LookupReply, error)) error {
	if err := checkPrivate(verb, cfg.Private, mad.SIDRREQPrivateLen); err != nil {
		return err
	}
	if cfg.Timeout < 0 || cfg.Retries < 0 {
		return invalid(verb, "Timeout is %v and Retries is %d, want at least 0", cfg.Timeout, cfg.Retries)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := m.resolve(verb, "Path", cfg.Path)
	if err != nil {
		return err
	}
	l := &lookup{m: m, port: r.port, to: r.address(), interval: cfg.Timeout, retryCount: cfg.Retries, ended: ended}
	if l.interval == 0 {
		l.interval = m.answerTime(defaultResponse) + 2*m.boundedTime(r.LifeTime)
	}
	if l.retryCount == 0 {
		l.retryCount = defaultRetries
	}
	l.timer.Fire = l.expire
	s := mad.SIDRREQ{PKey: uint16(r.PKey), ServiceID: cfg.Service}
	copy(s.PrivateData[:], cfg.Private)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return managerClosed(verb)
	}
	l.id = m.newID()
	s.RequestID = l.id
	l.sent = encode(m.newTID(), &s)
	m.lookups[l.id] = l
	l.stop = afterDone(ctx, func() { l.finish(nil, ctx.Err()) })
	m.mu.Unlock()
	l.send()
	return nil
}

// send sends the request and sets the timer.
func (l *lookup) send() {
	m := l.m
	l.port.send(&l.to, l.sent)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.isOver {
		l.due = m.clock.Elapsed() + l.interval
		m.wheel.Set(&l.timer, l.due)
	}
}

// finish ends the lookup, unless it has ended.
func (l *lookup) finish(r *LookupReply, err error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.end(r, err)
}

// end does the work of finish. The caller holds m.mu.
func (l *lookup) end(r *LookupReply, err error) {
	if l.isOver {
		return
	}
	l.isOver = true
	delete(l.m.lookups, l.id)
	l.m.wheel.Cancel(&l.timer)
	l.stop()
	l.ended(r, err)
}

// expire is called by the timer.
func (l *lookup) expire() {
	m := l.m
	m.mu.Lock()
	if l.isOver || !l.port.isExpired(&l.grace, &m.mu, &l.timer, l.due, l.interval) {
		m.mu.Unlock()
		return
	}
	if l.retryCount == 0 {
		m.count.timedOut.Add(1)
		l.end(nil, ErrTimeout)
		m.mu.Unlock()
		return
	}
	l.retryCount--
	m.mu.Unlock()
	m.count.resent.Add(1)
	l.send()
}

// receiveSIDRREP takes a SIDR_REP.
func (p *port) receiveSIDRREP(r *mads.Received, s *mad.SIDRREP) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lookups[s.RequestID]
	if l == nil || !l.port.isSame(&l.to, &r.From) {
		m.count.drop(DropUnknown)
		return
	}
	if s.Status != mad.SIDRValid {
		l.end(nil, &LookupError{Status: s.Status, Info: bytes.Clone(s.AdditionalInfo()), Private: s.PrivateData[:]})
		return
	}
	l.end(&LookupReply{QPN: ci.QPN(s.QPN), QKey: ci.QKey(s.QKey), Private: s.PrivateData[:], From: r.From}, nil)
}
