package cm

import (
	"context"
	"slices"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// query is a SIDR request that we have sent.
type query struct {
	m     *Manager
	id    uint32
	port  *port
	to    mads.Address
	sent  []byte
	every time.Duration
	timer clock.Deadline

	// Guarded by m.mu.
	over  bool
	left  int
	due   time.Duration // when expire has something to do
	late  lateness
	stop  func() bool               // ends the wait for the context
	ended func(*LookupReply, error) // called once with m.mu held; it does not block
}

// Lookup implements Service.
func (m *Manager) Lookup(ctx context.Context, cfg LookupConfig) (*LookupReply, error) {
	var reply *LookupReply
	var err error
	ended := make(chan struct{})
	start := m.startLookup(ctx, "Service.Lookup", cfg, func(r *LookupReply, reason error) {
		reply, err = r, reason
		close(ended)
	})
	if start != nil {
		return nil, start
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
func (m *Manager) startLookup(ctx context.Context, verb string, cfg LookupConfig, ended func(*LookupReply, error)) error {
	if err := checkPrivate(verb, cfg.Private, mad.SIDRREQPrivateLen); err != nil {
		return err
	}
	if cfg.Timeout < 0 || cfg.Retries < 0 {
		return invalid(verb, "Timeout or Retries is negative")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := m.resolve(verb, "Path", cfg.Path)
	if err != nil {
		return err
	}
	q := &query{m: m, port: w.port, to: w.address(), every: cfg.Timeout, left: cfg.Retries, ended: ended}
	if q.every == 0 {
		q.every = m.answerTime(defaultResponse) + 2*m.span(w.LifeTime)
	}
	if q.left == 0 {
		q.left = defaultRetries
	}
	q.timer.Fire = q.expire
	s := mad.SIDRREQ{PKey: uint16(w.PKey), ServiceID: cfg.Service}
	copy(s.PrivateData[:], cfg.Private)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return closed(verb, "the connection manager is closed")
	}
	q.id = m.newID()
	s.RequestID = q.id
	q.sent = encode(m.newTID(), &s)
	m.asking[q.id] = q
	q.stop = afterDone(ctx, func() { q.finish(nil, ctx.Err()) })
	m.mu.Unlock()
	q.send()
	return nil
}

// send sends the request, and sets the timer.
func (q *query) send() {
	m := q.m
	q.port.send(&q.to, q.sent)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !q.over {
		q.due = m.clock.Now() + q.every
		m.wheel.Set(&q.timer, q.due)
	}
}

// finish ends a lookup, once.
func (q *query) finish(r *LookupReply, err error) {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	q.end(r, err)
}

// end is finish; m.mu is held.
func (q *query) end(r *LookupReply, err error) {
	if q.over {
		return
	}
	q.over = true
	delete(q.m.asking, q.id)
	q.m.wheel.Cancel(&q.timer)
	q.stop()
	q.ended(r, err)
}

// expire is the timer of a lookup.
func (q *query) expire() {
	m := q.m
	m.mu.Lock()
	if q.over || !q.port.isLate(&q.late, &m.mu, &q.timer, q.due, q.every) {
		m.mu.Unlock()
		return
	}
	if q.left == 0 {
		m.count.timedOut.Add(1)
		q.end(nil, ErrTimeout)
		m.mu.Unlock()
		return
	}
	q.left--
	m.mu.Unlock()
	m.count.resent.Add(1)
	q.send()
}

// lookedUp takes a SIDR_REP.
func (p *port) lookedUp(r *mads.Received, s *mad.SIDRREP) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.asking[s.RequestID]
	if q == nil {
		m.count.drop(DropUnknown)
		return
	}
	if s.Status != mad.SIDRValid {
		q.end(nil, &LookupError{Status: s.Status, Info: append([]byte(nil), s.AdditionalInfo()...), Private: s.PrivateData[:]})
		return
	}
	q.end(&LookupReply{QPN: ci.QPN(s.QPN), QKey: ci.QKey(s.QKey), Private: s.PrivateData[:], From: r.From}, nil)
}

// askedKey tells copies of a SIDR request from others.
type askedKey struct {
	from peerPort
	qpn  ci.QPN
	id   uint32
}

// lookup is a SIDR request that came. It stays for a while after its answer, which its copies get.
type lookup struct {
	m      *Manager
	key    askedKey
	source mads.Source
	port   *port
	from   mads.Address
	tid    uint64
	req    mad.SIDRREQ
	path   Path
	timer  clock.Deadline

	// Guarded by m.mu.
	listener *listener // where it waits
	sent     []byte    // the answer
	over     bool
}

var _ LookupRequest = (*lookup)(nil)

// lookupLife is how long a SIDR request is remembered: Linux sends one 16 times, 4.1 s apart.
const lookupLife = 16 * 4300 * time.Millisecond

// answeredLife is how long its answer is.
const answeredLife = 10 * time.Second

// lookup takes a SIDR_REQ.
func (p *port) lookup(r *mads.Received, h *mad.Header, s *mad.SIDRREQ) {
	m := p.m
	l := &lookup{m: m, key: askedKey{portOf(&r.From), r.From.QPN, s.RequestID}, source: mads.SourceOf(&r.From.AV), port: p, from: r.From, tid: h.TID, req: *s}
	l.timer.Fire = l.forget
	l.path = Path{Port: p.id, AV: r.From.AV, PKey: ci.PKey(s.PKey), MTU: p.attr().MTU}
	l.path.AV.Port = p.id.Num
	m.mu.Lock()
	if old := m.asked[l.key]; old != nil && old.req == *s {
		sent := old.sent
		m.mu.Unlock()
		if sent != nil {
			m.count.resent.Add(1)
			p.reply(&r.From, sent)
		} else {
			m.count.drop(DropLate)
		}
		return
	}
	drop, status := m.admitLookup(l)
	m.mu.Unlock()
	if status == sidrSilence {
		m.count.drop(drop)
		return
	}
	if status != 0 {
		m.count.drop(drop)
		p.reply(&r.From, encode(h.TID, &mad.SIDRREP{RequestID: s.RequestID, ServiceID: s.ServiceID, Status: status}))
		return
	}
	m.wheel.Set(&l.timer, m.clock.Now()+lookupLife)
}

// admitLookup hands a SIDR request to a listener, or tells why not; m.mu is held.
func (m *Manager) admitLookup(l *lookup) (Drop, mad.SIDRStatus) {
	if m.closed {
		return DropUnserved, mad.SIDRUnsupportedService
	}
	if _, _, err := l.port.a.FindPKey(l.port.id.Num, ci.PKey(l.req.PKey)); err != nil {
		return DropInvalid, mad.SIDRRejected
	}
	t := &target{service: l.req.ServiceID, datagram: true, path: &l.path, lid: l.port.attr().LID, private: l.req.PrivateData[:]}
	if gids := l.port.attr().GIDs; int(l.from.AV.GRH.SGIDIndex) < len(gids) {
		t.gid = gids[l.from.AV.GRH.SGIDIndex].GID
	}
	to := m.listeners.find(t)
	if to == nil {
		return DropUnserved, mad.SIDRUnsupportedService
	}
	now := m.clock.Now()
	m.flooded = m.flow.add(now)
	debt := m.debts.request(&l.source, now)
	full := m.unanswered >= m.cfg.MaxPending || !to.hasRoom()
	if full && !to.makeRoomForLookup(debt) || m.asked[l.key] != nil {
		if m.flooded {
			return DropOverload, sidrSilence
		}
		return DropOverload, mad.SIDRNoQP
	}
	m.asked[l.key] = l
	m.unanswered++
	l.listener = to
	to.lookups.add(l)
	return 0, 0
}

// sidrSilence is no status: the request is dropped without an answer.
const sidrSilence mad.SIDRStatus = 0xff

func (l *lookup) taken() { l.listener = nil }

// forget ends a SIDR request's being remembered.
func (l *lookup) forget() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.forgetLocked()
}

// forgetLocked is forget; m.mu is held.
func (l *lookup) forgetLocked() {
	m := l.m
	if l.over {
		return
	}
	l.over = true
	if m.asked[l.key] == l {
		delete(m.asked, l.key)
	}
	if l.sent == nil {
		m.unanswered--
	}
	if to := l.listener; to != nil {
		m.count.drop(DropUnanswered)
		if i := slices.Index(to.lookups.requests, l); i >= 0 {
			to.lookups.requests = slices.Delete(to.lookups.requests, i, i+1)
		}
		l.listener = nil
	}
	m.wheel.Cancel(&l.timer)
}

// Request implements LookupRequest.
func (l *lookup) Request() *mad.SIDRREQ { r := l.req; return &r }

// From implements LookupRequest.
func (l *lookup) From() mads.Address { return l.from }

// Path implements LookupRequest.
func (l *lookup) Path() Path { return l.path }

// Accept implements LookupRequest.
func (l *lookup) Accept(qpn ci.QPN, qkey ci.QKey, private []byte) error {
	return l.answer("LookupRequest.Accept", &mad.SIDRREP{QPN: uint32(qpn), QKey: uint32(qkey)}, private)
}

// Reject implements LookupRequest.
func (l *lookup) Reject(status mad.SIDRStatus, info, private []byte) error {
	const verb = "LookupRequest.Reject"
	if status == mad.SIDRValid {
		return invalid(verb, "the status says that a QP is valid")
	}
	s := &mad.SIDRREP{Status: status}
	if len(info) > mad.CMInfoLen {
		return invalid(verb, "%d bytes of additional information, room for %d", len(info), mad.CMInfoLen)
	}
	copy(s.Info[:], info)
	s.InfoLength = uint8(len(info))
	return l.answer(verb, s, private)
}

func (l *lookup) answer(verb string, s *mad.SIDRREP, private []byte) error {
	if err := checkPrivate(verb, private, mad.SIDRREPPrivateLen); err != nil {
		return err
	}
	s.RequestID, s.ServiceID = l.req.RequestID, l.req.ServiceID
	copy(s.PrivateData[:], private)
	if err := checked(verb, s); err != nil {
		return err
	}
	b := encode(l.tid, s)
	m := l.m
	m.mu.Lock()
	if l.over || l.sent != nil {
		m.mu.Unlock()
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the request was answered, or the peer has given up"}
	}
	l.sent = b
	m.unanswered--
	m.remember(l)
	m.wheel.Cancel(&l.timer)
	m.wheel.Set(&l.timer, m.clock.Now()+answeredLife)
	m.mu.Unlock()
	l.port.send(&l.from, b)
	return nil
}

// remember keeps the answer for copies of the request, in the place of the oldest one if there are too many; m.mu is held.
func (m *Manager) remember(l *lookup) {
	m.answered = append(m.answered, l)
	for len(m.answered) > m.cfg.MaxPending || m.answered[0].over {
		m.answered[0].forgetLocked()
		m.answered[0] = nil
		m.answered = m.answered[1:]
	}
}

// refuse rejects a request that nobody has accepted.
func (l *lookup) refuse(status mad.SIDRStatus) {
	m := l.m
	m.mu.Lock()
	l.listener = nil
	m.mu.Unlock()
	_ = l.Reject(status, nil, nil) // answered, or too late: nothing is left to do
}
