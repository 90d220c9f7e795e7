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

// Manager is the connection manager of an access layer's HCAs. It implements Service. It has no goroutines of its own:
// it runs on the goroutines of its agents, its timers and its callers. While events of a connection or outcomes of
// steps wait for delivery, there is one goroutine for that.
//
// Locks: a conn's lock is taken before the manager's, and never together with another conn's. Code of callers runs with
// no lock held.
type Manager struct {
	al    *accesslayer.AL
	svc   mads.Service
	cfg   Config
	clock clock.Clock
	log   *slog.Logger
	wheel clock.Wheel
	stop  func() // ends the calls of setPort
	count counters
	seed  maphash.Seed // of hashREQ

	// replies limits the answers to messages whose sender may be forged.
	replies mads.ReplyLimit

	mu           sync.Mutex
	closed       bool
	started      bool  // New has opened the ports that existed
	portError    error // why New fails: one of these ports has another manager
	ports        map[mads.Port]*port
	ids          idSource
	conns        map[uint32]*conn // by our communication ID
	peers        map[peerID]*conn // by the peer's communication ID
	peerQPs      map[peerQP]*conn // by the peer's QP: connections and requests
	peerRequests []*conn          // peer-to-peer requests that wait for the peer's request
	listeners    listeners
	pending      []*conn // received requests that are not established
	perPeer      map[mads.Source]int
	unfinished   unfinishedSketch
	flow         flow
	flooded      bool // result of flow for the last request
	timeWait     connList
	replied      connList           // passive ends that wait for the RTU
	lookups      map[uint32]*lookup // SIDR requests sent, by request ID
	// SIDR requests received. unansweredCount is how many have no answer. answeredLookups lists the others, oldest
	// first; some of them may have ended.
	lookupRequests  map[lookupKey]*lookupRequest
	unansweredCount int
	answeredLookups []*lookupRequest
}

var _ Service = (*Manager)(nil)

// New creates a connection manager that uses the MAD services of the same access layer. A port has at most one
// connection manager, since the manager takes the method Send of class CM.
// Status: InvalidParameter (nil argument), ResourceBusy (a port has a connection manager; the error names the port and
// the agent. Share that manager, or close it first).
func New(al *accesslayer.AL, svc mads.Service, cfg Config) (*Manager, error) {
	if al == nil || ci.IsNil(svc) {
		return nil, &ci.Error{Verb: "cm.New", Status: ci.InvalidParameter,
			Detail: "the access layer or the MAD service is nil"}
	}
	m := &Manager{
		al: al, svc: svc, cfg: cfg.withDefaults(), clock: cfg.Clock, log: al.Logger(), seed: maphash.MakeSeed(),
		ports: map[mads.Port]*port{}, conns: map[uint32]*conn{}, peers: map[peerID]*conn{},
		peerQPs: map[peerQP]*conn{}, perPeer: map[mads.Source]int{},
		lookups: map[uint32]*lookup{}, lookupRequests: map[lookupKey]*lookupRequest{},
	}
	if m.clock == nil {
		m.clock = al.Clock()
	}
	m.wheel.Init(m.clock)
	m.ids.init(m.cfg.Rand)
	m.unfinished.init(m.cfg.Rand)
	m.replies.Init(m.cfg.Rand, m.cfg.MaxRepliesPeer, m.cfg.MaxReplies)
	m.listeners.init()
	m.stop = svc.Watch(m.setPort)
	m.mu.Lock()
	m.started = true
	err := m.portError
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
	// others are agents of other class versions. They answer with a REJ, reason invalid class version.
	others []mads.Agent
}

// setPort opens a port that is available and closes one that is not. The MAD services call it.
func (m *Manager) setPort(id mads.Port, isAvailable bool) {
	m.mu.Lock()
	p := m.ports[id]
	delete(m.ports, id)
	closed := m.closed
	m.mu.Unlock()
	if p != nil { // removed or replaced; closing agents that are already closed has no effect
		p.close()
	}
	if !isAvailable || closed {
		return
	}
	p, err := m.openPort(id)
	if err != nil {
		m.mu.Lock()
		fails := !m.started && errors.Is(err, ci.ResourceBusy)
		if fails && m.portError == nil {
			m.portError = fmt.Errorf("port %d of HCA %016x has a connection manager: %w", id.Num, uint64(id.CA), err)
		}
		m.mu.Unlock()
		if !fails {
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

func (m *Manager) openPort(id mads.Port) (*port, error) {
	a, err := m.al.Adapter(id.CA)
	if err != nil {
		return nil, err
	}
	p := &port{m: m, id: id, a: a}
	cfg := mads.AgentConfig{
		Name: "connection manager", Port: id, Class: mad.ClassCM, Version: mad.ClassVersionCM,
		Methods: []mad.Method{mad.Send}, Queue: 4096, OnReceive: p.receive, OnUndelivered: p.receiveUndelivered,
	}
	if p.agent, err = m.svc.Register(cfg); err != nil {
		return nil, err
	}
	for _, version := range []uint8{mad.ClassVersionCM - 1, mad.ClassVersionCM + 1} {
		cfg.OnUndelivered = nil
		cfg.Name = fmt.Sprintf("connection manager, class version %d", version)
		cfg.Version, cfg.Queue = version, 16
		// MAD services that do not support the version drop its messages. Then there is nothing to reject.
		if other, err := m.svc.Register(cfg); err == nil {
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

// attr returns the port's latest attributes.
func (p *port) attr() *ci.PortAttr { return &p.a.Attr().Ports[p.id.Num-1] }

func (p *port) isEthernet() bool { return p.attr().Link == ci.LinkEthernet }

// port returns a port by its ID. Status: InvalidPort.
func (m *Manager) port(verb string, id mads.Port) (*port, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, managerClosed(verb)
	}
	p := m.ports[id]
	if p == nil || int(id.Num) > len(p.a.Attr().Ports) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPort,
			Detail: fmt.Sprintf("port %d of HCA %016x has no connection manager: the HCA is not registered, or "+
				"another manager has class CM of the port's QP1", id.Num, uint64(id.CA))}
	}
	return p, nil
}

// closed returns an InvalidState error that wraps ErrClosed.
func closed(verb, detail string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: detail, Err: ErrClosed}
}

func managerClosed(verb string) error { return closed(verb, "the connection manager is closed") }

func invalid(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
}

// send sends a message. A message that cannot be sent is counted, and otherwise treated as lost on the wire.
func (p *port) send(to *mads.Address, b []byte) {
	attr := uint16(b[16])<<8 | uint16(b[17])
	if err := p.agent.Send(&mads.Message{To: *to, MAD: b}); err != nil {
		p.m.count.unsent.Add(1)
		return
	}
	p.m.count.sent[attr-firstAttr].Add(1)
}

// reply sends an answer to a message whose sender may be forged. Such answers are limited for each destination and in
// all. If an answer is withheld, the peer repeats its message and gets the answer then.
func (p *port) reply(to *mads.Address, b []byte) {
	if !p.m.replies.Allow(&to.AV, p.m.clock.Elapsed()) {
		p.m.count.withheld.Add(1)
		return
	}
	p.send(to, b)
}

// encode returns the datagram of a message that checkMessage has accepted.
func encode(tid uint64, msg mad.CMMessage) []byte {
	b := make([]byte, mad.Size)
	h := mad.CMHeader(tid, msg)
	h.Put(b)
	msg.Put(b[mad.HeaderLen:])
	return b
}

// boundedTime returns a time that a peer requested, limited to Config.MaxResponseTime.
func (m *Manager) boundedTime(t mad.TimeExp) time.Duration {
	return min(t, m.cfg.MaxResponseTime).Duration()
}

// minAnswer is the shortest response time that the manager assumes, 17 ms. With 0, all copies of a message would be
// sent within a round trip, before an answer can arrive. A forged request could use that for amplification.
const minAnswer = 12

// answerTime returns the response time of a manager that announces t.
func (m *Manager) answerTime(t mad.TimeExp) time.Duration { return m.boundedTime(max(t, minAnswer)) }

// Close implements Service. When it returns, every Conn is closed. Every call that waited has returned or is about to,
// and the done function of every pending step has been called or is about to be.
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
	lookups, requests := m.lookups, m.lookupRequests
	m.lookups, m.lookupRequests = map[uint32]*lookup{}, map[lookupKey]*lookupRequest{}
	m.mu.Unlock()
	m.stop()
	for _, l := range ls {
		_ = l.Close()
	}
	for _, c := range conns {
		c.closeNow()
	}
	for _, l := range lookups {
		l.finish(nil, closed("Service.Lookup", "the connection manager was closed"))
	}
	for _, r := range requests {
		r.remove() // the consumer can no longer answer it
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
