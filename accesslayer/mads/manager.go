package mads

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/accesslayer/internal/hold"
	"ciddk/ci"
	"ciddk/clock"
)

// Manager provides MAD services on all ports of all HCAs of an access layer that have special QPs. It owns QP0 and QP1
// of each port, so an access layer has at most one. It implements Service.
type Manager struct {
	al     *accesslayer.AL
	cfg    Config
	client *accesslayer.Client
	wheel  clock.Wheel
	hiTID  atomic.Uint32

	notifying hold.Mutex // held while watchers are called; taken before mu

	mu       sync.Mutex
	ports    []*port // in order of the registration of HCAs, then by number
	removed  []*port // of removed HCAs, for Counters
	watchers []*watcher
	closed   bool
	closing  chan struct{} // closed at the end of Close
	closeErr error
}

type watcher struct{ f func(p Port, there bool) }

var _ Service = (*Manager)(nil)

// New starts MAD services. It returns when the services on the registered HCAs have started. An HCA whose special QPs
// cannot be created is logged and has no services. New must not be called from a callback of PnP. Status:
// InvalidParameter (al is nil), ResourceBusy (the access layer has MAD services; the error names their user, with whom
// they can be shared), InvalidState with ErrClosed (al is closed), Timeout (as accesslayer.Client.RegisterPnP).
func New(al *accesslayer.AL, cfg Config) (*Manager, error) {
	if al == nil {
		return nil, &ci.Error{Verb: "mads.New", Status: ci.InvalidParameter, Detail: "al is nil"}
	}
	cfg = cfg.withDefaults()
	client, err := al.Open(accesslayer.ClientConfig{Name: cfg.Name, Sole: "MAD services (QP0 and QP1)"})
	if err != nil {
		return nil, fmt.Errorf("mads.New: %w", err)
	}
	m := &Manager{al: al, cfg: cfg, client: client, notifying: hold.NewMutex(), closing: make(chan struct{})}
	m.wheel.Init(al.Clock())
	first := cfg.FirstAgent
	if first == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // it never fails
		first = binary.BigEndian.Uint32(b[:])
	}
	m.hiTID.Store(first - 1)
	_, err = client.RegisterPnP(accesslayer.PnPConfig{Add: m.add, Remove: m.remove, Port: m.changed, Sync: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mads.New: %w", err), client.Close())
	}
	return m, nil
}

// Close ends the services. It closes the agents, reports the removal of all ports to watchers, and destroys the QPs. It
// is idempotent. It waits for callbacks, so it must not be called from one.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		<-m.closing
		return m.closeErr
	}
	m.closed = true
	m.mu.Unlock()
	m.closeErr = m.client.Close() // removes every HCA
	m.wheel.Stop()
	close(m.closing)
	return m.closeErr
}

// nextAgent returns the upper half of an agent's transaction IDs. It is never 0, which others use for datagrams without
// an ID.
func (m *Manager) nextAgent() uint32 {
	for {
		if hi := m.hiTID.Add(1); hi != 0 {
			return hi
		}
	}
}

func closedError(verb, what string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: what, Err: accesslayer.ErrClosed}
}

// add is called for each HCA.
func (m *Manager) add(a *accesslayer.Adapter) (any, error) {
	h, err := m.open(a)
	if err != nil {
		return nil, err
	}
	m.notifying.Lock()
	defer m.notifying.Unlock()
	for _, p := range h.ports {
		m.mu.Lock()
		m.ports = append(m.ports, p)
		watchers := slices.Clone(m.watchers)
		m.mu.Unlock()
		for _, w := range watchers {
			w.f(p.id, true)
		}
	}
	return h, nil
}

// remove is called once for each HCA that was added.
func (m *Manager) remove(_ *accesslayer.Adapter, data any) {
	h := data.(*hca)
	m.notifying.Lock()
	defer m.notifying.Unlock()
	for _, p := range slices.Backward(h.ports) {
		m.mu.Lock()
		m.ports = slices.DeleteFunc(m.ports, func(q *port) bool { return p == q })
		m.removed = append(slices.DeleteFunc(m.removed, func(q *port) bool { return q.id == p.id }), p)
		watchers := slices.Clone(m.watchers)
		m.mu.Unlock()
		p.close()
		for _, w := range watchers {
			w.f(p.id, false)
		}
	}
	h.close()
}

// changed is called for events of ports. The tables of the port are read at each use. Only address vectors are cached,
// and they may refer to an entry that has changed.
func (m *Manager) changed(_ *accesslayer.Adapter, data any, e accesslayer.PortEvent) {
	switch e.Type {
	case accesslayer.PortGID, accesslayer.PortLID, accesslayer.PortActive, accesslayer.PortDown:
	default:
		return
	}
	for _, p := range data.(*hca).ports {
		if p.id.Num == e.Port {
			p.forgetAVs()
		}
	}
}

// Ports implements Service.
func (m *Manager) Ports() []Port {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]Port, len(m.ports))
	for i, p := range m.ports {
		ids[i] = p.id
	}
	return ids
}

// Watch implements Service.
func (m *Manager) Watch(f func(p Port, there bool)) (stop func()) {
	if f == nil { // count as a watcher without effect
		f = func(Port, bool) {}
	}
	w := &watcher{f: f}
	m.notifying.Lock()
	defer m.notifying.Unlock()
	m.mu.Lock()
	m.watchers = append(m.watchers, w)
	ports := slices.Clone(m.ports)
	m.mu.Unlock()
	for _, p := range ports {
		f(p.id, true)
	}
	return func() {
		m.notifying.Lock()
		defer m.notifying.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = slices.DeleteFunc(m.watchers, func(v *watcher) bool { return v == w })
	}
}

// Register implements Service.
func (m *Manager) Register(cfg AgentConfig) (Agent, error) {
	const verb = "mads.Register"
	if err := cfg.check(verb); err != nil {
		return nil, err
	}
	m.mu.Lock()
	closed := m.closed
	i := slices.IndexFunc(m.ports, func(p *port) bool { return p.id == cfg.Port })
	var p *port
	if i >= 0 {
		p = m.ports[i]
	}
	m.mu.Unlock()
	switch {
	case closed:
		return nil, closedError(verb, "the MAD services are closed")
	case p == nil:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: fmt.Sprintf("port %d of HCA %016x has no "+
			"MAD services (is the HCA registered, and does this Manager own its QP1?)", cfg.Port.Num,
			uint64(cfg.Port.CA))}
	}
	e := p.qp[1]
	if cfg.SubnetManagement {
		if e = p.qp[0]; e == nil {
			return nil, &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: fmt.Sprintf("port %d has no QP0 (it is "+
				"an Ethernet port, or the HCA uses QP0 itself)", cfg.Port.Num)}
		}
	}
	return e.register(verb, cfg)
}

// Counters returns the counters of every port, including ports that were removed.
func (m *Manager) Counters() map[Port]Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[Port]Counters)
	for _, p := range m.removed {
		all[p.id] = p.count.snapshot()
	}
	for _, p := range m.ports {
		all[p.id] = p.count.snapshot()
	}
	return all
}
