package cm

import (
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// A lookupKey identifies a received SIDR request. Copies of a request have the same key.
type lookupKey struct {
	from peerPort
	qpn  ci.QPN
	id   uint32
}

// A lookupRequest is a received SIDR request. It is kept for a while after its answer, to answer copies.
type lookupRequest struct {
	m      *Manager
	key    lookupKey
	source mads.Source
	port   *port
	from   mads.Address
	tid    uint64
	req    mad.SIDRREQ
	path   Path
	timer  clock.Deadline

	// Guarded by m.mu.
	listener *listener // that holds the request; nil after AcceptLookup
	sent     []byte    // the answer
	ended    bool
}

var _ LookupRequest = (*lookupRequest)(nil)

const (
	// lookupLife is how long a SIDR request without an answer is kept. Linux sends a request 16 times, 4.1 s apart.
	lookupLife = 16 * 4300 * time.Millisecond
	// answeredLife is how long the answer is kept.
	answeredLife = 10 * time.Second
)

// noAnswer is the result of admitLookup for a request that is dropped. It is not a status on the wire.
const noAnswer mad.SIDRStatus = 0xff

// receiveSIDRREQ takes a SIDR_REQ.
func (p *port) receiveSIDRREQ(r *mads.Received, h *mad.Header, s *mad.SIDRREQ) {
	m := p.m
	l := &lookupRequest{
		m: m, key: lookupKey{portOf(&r.From), r.From.QPN, s.RequestID}, source: mads.SourceOf(&r.From.AV),
		port: p, from: r.From, tid: h.TID, req: *s,
	}
	l.timer.Fire = l.remove
	l.path = Path{Port: p.id, AV: r.From.AV, PKey: ci.PKey(s.PKey), MTU: p.attr().MTUOf(r.From.AV.SL)}
	l.path.AV.Port = p.id.Num
	m.mu.Lock()
	if old := m.lookupRequests[l.key]; old != nil && old.req == *s {
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
	if status == noAnswer {
		m.count.drop(drop)
		return
	}
	if status != 0 {
		m.count.drop(drop)
		answer := &mad.SIDRREP{RequestID: s.RequestID, ServiceID: s.ServiceID, Status: status}
		p.reply(&r.From, encode(h.TID, answer))
		return
	}
	m.wheel.Set(&l.timer, m.clock.Elapsed()+lookupLife)
}

// admitLookup passes a SIDR request to a listener and returns status 0. For a request that is not admitted, it returns
// how the request is counted and the status of the answer, or noAnswer. The caller holds m.mu.
func (m *Manager) admitLookup(l *lookupRequest) (Drop, mad.SIDRStatus) {
	if m.closed {
		return DropUnserved, mad.SIDRUnsupportedService // as without a listener: the agents are being closed
	}
	if _, _, err := l.port.a.FindPKey(l.port.id.Num, ci.PKey(l.req.PKey)); err != nil {
		return DropInvalid, mad.SIDRRejected
	}
	attr := l.port.attr()
	t := &target{service: l.req.ServiceID, datagram: true, path: &l.path, lid: attr.LID, private: l.req.PrivateData[:]}
	if int(l.from.AV.GRH.SGIDIndex) < len(attr.GIDs) {
		t.gid = attr.GIDs[l.from.AV.GRH.SGIDIndex].GID
	}
	to := m.listeners.find(t)
	if to == nil {
		return DropUnserved, mad.SIDRUnsupportedService
	}
	now := m.clock.Elapsed()
	m.flooded = m.flow.add(now)
	unfinished := m.unfinished.add(&l.source, now)
	isFull := m.unansweredCount >= m.cfg.MaxPending || !to.hasRoom()
	if isFull && !to.makeRoomForLookup(unfinished) || m.lookupRequests[l.key] != nil {
		if m.flooded {
			return DropOverload, noAnswer
		}
		return DropOverload, mad.SIDRNoQP
	}
	m.lookupRequests[l.key] = l
	m.unansweredCount++
	l.listener = to
	to.lookups.add(l)
	return 0, 0
}

func (l *lookupRequest) detach() { l.listener = nil }

// remove removes the request from the manager. Its copies are new requests then.
func (l *lookupRequest) remove() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.removeLocked()
}

// removeLocked does the work of remove. The caller holds m.mu.
func (l *lookupRequest) removeLocked() {
	m := l.m
	if l.ended {
		return
	}
	l.ended = true
	if m.lookupRequests[l.key] == l {
		delete(m.lookupRequests, l.key)
	}
	if l.sent == nil {
		m.unansweredCount--
	}
	if l.listener != nil {
		m.count.drop(DropUnanswered)
		l.listener.lookups.remove(l)
		l.listener = nil
	}
	m.wheel.Cancel(&l.timer)
}

// Request implements LookupRequest.
func (l *lookupRequest) Request() *mad.SIDRREQ { r := l.req; return &r }

// From implements LookupRequest.
func (l *lookupRequest) From() mads.Address { return l.from }

// Path implements LookupRequest.
func (l *lookupRequest) Path() Path { return l.path }

// Accept implements LookupRequest.
func (l *lookupRequest) Accept(qpn ci.QPN, qkey ci.QKey, private []byte) error {
	return l.answer("LookupRequest.Accept", &mad.SIDRREP{QPN: uint32(qpn), QKey: uint32(qkey)}, private)
}

// Reject implements LookupRequest.
func (l *lookupRequest) Reject(status mad.SIDRStatus, info, private []byte) error {
	const verb = "LookupRequest.Reject"
	if status == mad.SIDRValid {
		return invalid(verb, "the status is %v, which is not a rejection", status)
	}
	if err := checkInfo(verb, info); err != nil {
		return err
	}
	s := &mad.SIDRREP{Status: status, InfoLength: uint8(len(info))}
	copy(s.Info[:], info)
	return l.answer(verb, s, private)
}

func (l *lookupRequest) answer(verb string, s *mad.SIDRREP, private []byte) error {
	if err := checkPrivate(verb, private, mad.SIDRREPPrivateLen); err != nil {
		return err
	}
	s.RequestID, s.ServiceID = l.req.RequestID, l.req.ServiceID
	copy(s.PrivateData[:], private)
	if err := checkMessage(verb, s); err != nil {
		return err
	}
	b := encode(l.tid, s)
	m := l.m
	m.mu.Lock()
	if l.ended || l.sent != nil {
		m.mu.Unlock()
		return &ci.Error{Verb: verb, Status: ci.InvalidState,
			Detail: "the request has been answered, or the peer has given up"}
	}
	l.sent = b
	m.unansweredCount--
	m.keepAnswer(l)
	m.wheel.Cancel(&l.timer)
	m.wheel.Set(&l.timer, m.clock.Elapsed()+answeredLife)
	m.mu.Unlock()
	l.port.send(&l.from, b)
	return nil
}

// keepAnswer keeps the answer for copies of the request. Above the limit, the oldest answer is removed. The caller
// holds m.mu.
func (m *Manager) keepAnswer(l *lookupRequest) {
	m.answeredLookups = append(m.answeredLookups, l)
	for len(m.answeredLookups) > m.cfg.MaxPending || m.answeredLookups[0].ended {
		m.answeredLookups[0].removeLocked()
		m.answeredLookups[0] = nil
		m.answeredLookups = m.answeredLookups[1:]
	}
}

// rejectUnaccepted rejects a request that no call of AcceptLookup has returned.
func (l *lookupRequest) rejectUnaccepted(status mad.SIDRStatus) {
	m := l.m
	m.mu.Lock()
	l.listener = nil
	m.mu.Unlock()
	_ = l.Reject(status, nil, nil) // the only possible error means that there is nothing left to reject
}
