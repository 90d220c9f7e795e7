package cm

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// Manager is the connection manager of an access layer's HCAs. It implements Service. It has no goroutines of its own: it runs on those
// of its agents, of its timers, of callers, and, as long as there are events to deliver, on one for each connection with OnEvent.
//
// Locks: a conn's is taken before the manager's, never two conns' at a time, and callers' code runs under none.
type Manager struct {
	al    *accesslayer.AL
	svc   mads.Service
	cfg   Config
	clock clock.Clock
	log   *slog.Logger
	wheel clock.Wheel
	stop  func() // of the watch
	count counters
	seed  maphash.Seed // of sum

	// replies limits answers to messages whose sender may be forged.
	replies mads.ReplyLimit

	mu         sync.Mutex
	closed     bool
	started    bool  // New has seen the ports that are there
	taken      error // why New fails: one of these has another manager
	ports      map[mads.Port]*port
	ids        idSource
	conns      map[uint32]*conn // by our communication ID
	peers      map[peerID]*conn // by the peer's
	peerQPs    map[peerQP]*conn // by the peer's QP: connected ones, and those that ask
	askingPeer []*conn          // peer-to-peer requests that wait for their like
	listeners  listeners
	pending    []*conn // requests that came and are not connections yet
	perPeer    map[mads.Source]int
	debts      debts
	flow       flow
	flooded    bool // as flow said of the last request
	timeWait   waitList
	replied    waitList             // passive ends that wait for their RTU, for longest first
	asking     map[uint32]*query    // SIDR requests sent, by request ID
	asked      map[askedKey]*lookup // SIDR requests that came
	unanswered int                  // of these
	answered   []*lookup            // the others, the oldest first, and some that are over
}

var _ Service = (*Manager)(nil)

// peerID is a communication ID of a peer, which are unique for each of its CAs.
type peerID struct {
	ca uint64
	id uint32
}

type peerQP struct {
	ca  uint64
	qpn uint32
}

// New makes a connection manager on MAD services of the same access layer. There is one for a port: the method Send of class CM is taken.
// Status: InvalidParameter (nil), ResourceBusy (a port has a connection manager; the error names the port and the agent. It can be shared, or
// closed first).
func New(al *accesslayer.AL, svc mads.Service, cfg Config) (*Manager, error) {
	if al == nil || ci.IsNil(svc) {
		return nil, &ci.Error{Verb: "cm.New", Status: ci.InvalidParameter, Detail: "an access layer and MAD services are needed"}
	}
	m := &Manager{al: al, svc: svc, cfg: cfg.withDefaults(), clock: cfg.Clock, log: al.Logger(), ports: map[mads.Port]*port{},
		conns: map[uint32]*conn{}, peers: map[peerID]*conn{}, peerQPs: map[peerQP]*conn{}, perPeer: map[mads.Source]int{},
		asking: map[uint32]*query{}, asked: map[askedKey]*lookup{}, seed: maphash.MakeSeed()}
	if m.clock == nil {
		m.clock = al.Clock()
	}
	m.wheel.Init(m.clock)
	m.ids.init(m.cfg.Rand)
	m.debts.init(m.cfg.Rand)
	m.replies.Init(m.cfg.Rand, m.cfg.MaxRepliesPeer, m.cfg.MaxReplies)
	m.listeners.init()
	m.stop = svc.Watch(m.watch)
	m.mu.Lock()
	m.started = true
	err := m.taken
	m.mu.Unlock()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cm.New: %w", err), m.Close())
	}
	return m, nil
}

// port is a port with MAD services.
type port struct {
	m     *Manager
	id    mads.Port
	a     *accesslayer.Adapter
	agent mads.Agent
	// others are agents of other class versions, which get one answer: REJ, invalid class version.
	others []mads.Agent
}

// watch hears of ports.
func (m *Manager) watch(id mads.Port, there bool) {
	m.mu.Lock()
	p := m.ports[id]
	delete(m.ports, id)
	closed := m.closed
	m.mu.Unlock()
	if p != nil { // gone, or made anew: its agents were closed before, once more does no harm
		p.close()
	}
	if !there || closed {
		return
	}
	p, err := m.open(id)
	if err != nil {
		m.mu.Lock()
		refuse := !m.started && errors.Is(err, ci.ResourceBusy)
		if refuse && m.taken == nil {
			m.taken = fmt.Errorf("port %d of HCA %016x has a connection manager: %w", id.Num, uint64(id.CA), err)
		}
		m.mu.Unlock()
		if !refuse {
			m.log.Error("cm: a port has no connection manager", "port", id, "error", err)
		}
		return
	}
	m.mu.Lock()
	closed = m.closed
	if !closed {
		m.ports[id] = p
	}
	m.mu.Unlock()
	if closed {
		p.close()
	}
}

func (m *Manager) open(id mads.Port) (*port, error) {
	a, err := m.al.Adapter(id.CA)
	if err != nil {
		return nil, err
	}
	p := &port{m: m, id: id, a: a}
	cfg := mads.AgentConfig{Name: "connection manager", Port: id, Class: mad.ClassCM, Version: mad.ClassVersionCM, Methods: []mad.Method{mad.Send},
		Queue: 4096, OnReceive: p.receive, OnUndelivered: p.undelivered}
	if p.agent, err = m.svc.Register(cfg); err != nil {
		return nil, err
	}
	for _, version := range []uint8{mad.ClassVersionCM - 1, mad.ClassVersionCM + 1} {
		cfg.OnUndelivered = nil
		cfg.Name, cfg.Version, cfg.Queue = fmt.Sprintf("connection manager, class version %d", version), version, 16
		if other, err := m.svc.Register(cfg); err == nil { // MAD services without that version drop what we would reject
			p.others = append(p.others, other)
		}
	}
	return p, nil
}

func (p *port) close() {
	for _, a := range append(p.others, p.agent) {
		if err := a.Close(); err != nil {
			p.m.log.Error("cm: closing an agent", "port", p.id, "error", err)
		}
	}
}

// attr are the port's attributes as last seen.
func (p *port) attr() *ci.PortAttr { return &p.a.Attr().Ports[p.id.Num-1] }

func (p *port) ethernet() bool { return p.attr().Link == ci.LinkEthernet }

// port finds a port. Status: InvalidPort.
func (m *Manager) port(verb string, id mads.Port) (*port, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, closed(verb, "the connection manager is closed")
	}
	p := m.ports[id]
	if p == nil || int(id.Num) > len(p.a.Attr().Ports) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: fmt.Sprintf("port %d of CA %016x has no connection manager: is the HCA there, and does no other Manager have its QP1 and class CM?", id.Num, uint64(id.CA))}
	}
	return p, nil
}

func closed(verb, what string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: what, Err: ErrClosed}
}

func invalid(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
}

// send puts a message on the way. Those that cannot be sent now are lost, as any may be on the wire.
func (p *port) send(to *mads.Address, b []byte) {
	attr := uint16(b[16])<<8 | uint16(b[17])
	if err := p.agent.Send(&mads.Message{To: *to, MAD: b}); err != nil {
		p.m.count.unsent.Add(1)
		return
	}
	p.m.count.sent[attr-firstAttr].Add(1)
}

// reply is send for answers that a message causes whose sender is not known to be where it says: they are limited by destination and in all.
// A peer that is there sends its message again, and gets the answer then.
func (p *port) reply(to *mads.Address, b []byte) {
	if !p.m.replies.Allow(&to.AV, p.m.clock.Now()) {
		p.m.count.withheld.Add(1)
		return
	}
	p.send(to, b)
}

// encode makes a datagram of a message that was checked.
func encode(tid uint64, msg mad.CMMessage) []byte {
	b := make([]byte, mad.Size)
	h := mad.CMHeader(tid, msg)
	h.Put(b)
	msg.Put(b[mad.HeaderLen:])
	return b
}

// span is a time that a peer asks for, within bounds.
func (m *Manager) span(t mad.TimeExp) time.Duration { return min(t, m.cfg.MaxResponseTime).Duration() }

// minAnswer is the least that a manager is thought to take to answer, 17 ms: below that, somebody has not thought of it. Who says 0 would get all copies
// of a message within a round trip, before its answer can have arrived; and anybody in whose name it was said.
const minAnswer = 12

// answerTime is how long a manager takes to answer that says t.
func (m *Manager) answerTime(t mad.TimeExp) time.Duration { return m.span(max(t, minAnswer)) }

// Close implements Service. Afterwards every Conn is closed, and every call has returned or is about to.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	conns := make([]*conn, 0, len(m.conns))
	for _, c := range m.conns {
		conns = append(conns, c)
	}
	ls := slices.Clone(m.listeners.all)
	queries, asked := m.asking, m.asked
	m.asking, m.asked = map[uint32]*query{}, map[askedKey]*lookup{}
	m.mu.Unlock()
	m.stop()
	for _, l := range ls {
		_ = l.Close()
	}
	for _, c := range conns {
		c.end()
	}
	for _, q := range queries {
		q.finish(nil, closed("Service.Lookup", "the connection manager was closed"))
	}
	for _, l := range asked {
		l.forget() // what Accept would answer is too late
	}
	m.wheel.Stop()
	m.mu.Lock()
	ports := m.ports
	m.ports = map[mads.Port]*port{}
	m.mu.Unlock()
	for _, p := range ports {
		p.close()
	}
	return nil
}
