package through

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
)

// hosts are the MAD services and connection managers of a daemon process. Each HCA has its own, as if it were in a host
// of its own, and only while a case uses them: the other cases create special QPs themselves, or count all objects.
// hosts implements mads.Service with the services that have been started.
type hosts struct {
	al     *accesslayer.AL
	client *accesslayer.Client
	log    *slog.Logger

	notifying sync.Mutex // held while watchers are called

	mu       sync.Mutex
	list     []*host
	watchers []*portWatcher
}

var _ mads.Service = (*hosts)(nil)

// host is the services of one HCA.
type host struct {
	guid ci.GUID
	al   *accesslayer.AL
	mads *mads.Manager
	cm   *cm.Manager // nil: not started
}

// portWatcher is a call of Watch.
type portWatcher struct {
	f     func(p mads.Port, there bool)
	stops []func()
}

func newHosts(al *accesslayer.AL, log *slog.Logger) (*hosts, error) {
	c, err := al.Open(accesslayer.ClientConfig{Name: "services of cases"})
	if err != nil {
		return nil, err
	}
	return &hosts{al: al, client: c, log: log}, nil
}

// do executes a request of the worker.
func (s *hosts) do(op operation, guid ci.GUID) error {
	if op == opServe {
		return s.serve(guid)
	}
	h, err := s.host(guid)
	if err != nil {
		return err
	}
	switch op {
	case opManage:
		return s.manage(h)
	case opRelease:
		if h.cm == nil {
			return fmt.Errorf("through: HCA %016x has no connection manager", uint64(guid))
		}
		return h.cm.Close()
	case opDepart:
		return h.al.Deregister(guid)
	}
	s.mu.Lock()
	s.list = slices.DeleteFunc(s.list, func(x *host) bool { return x == h })
	s.mu.Unlock()
	return h.close()
}

// host returns the services of an HCA. Status: InvalidPort (they have not been started).
func (s *hosts) host(guid ci.GUID) (*host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.list {
		if h.guid == guid {
			return h, nil
		}
	}
	return nil, &ci.Error{Verb: "Services", Status: ci.InvalidPort,
		Detail: fmt.Sprintf("HCA %016x has no services now", uint64(guid))}
}

// serve starts MAD services on an HCA.
func (s *hosts) serve(guid ci.GUID) error {
	if _, err := s.host(guid); err == nil {
		return fmt.Errorf("through: HCA %016x has services already", uint64(guid))
	}
	in, err := s.client.HCA(guid)
	if err != nil {
		return err
	}
	h := &host{guid: guid, al: accesslayer.New(accesslayer.Config{Logger: s.log, PollInterval: -1})}
	if err := h.al.Register(in); err != nil {
		return errors.Join(err, h.close())
	}
	if h.mads, err = mads.New(h.al, mads.Config{}); err != nil {
		return errors.Join(err, h.close())
	}
	s.mu.Lock()
	s.list = append(s.list, h)
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	for _, w := range watchers {
		s.follow(w, h)
	}
	return nil
}

// manage starts the connection manager of an HCA.
func (s *hosts) manage(h *host) error {
	if h.cm != nil {
		return fmt.Errorf("through: HCA %016x has a connection manager already", uint64(h.guid))
	}
	m, err := cm.New(h.al, h.mads, cm.Config{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	h.cm = m
	s.mu.Unlock()
	return nil
}

// close ends the services of an HCA.
func (h *host) close() error {
	var errs []error
	if h.cm != nil {
		errs = append(errs, h.cm.Close())
	}
	if h.mads != nil {
		errs = append(errs, h.mads.Close())
	}
	return errors.Join(append(errs, h.al.Close())...)
}

// Close ends all services.
func (s *hosts) Close() error {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	var errs []error
	for _, h := range list {
		errs = append(errs, h.close())
	}
	return errors.Join(append(errs, s.client.Close())...)
}

// follow passes the changes of an HCA's ports to a watcher.
func (s *hosts) follow(w *portWatcher, h *host) {
	stop := h.mads.Watch(func(p mads.Port, there bool) {
		s.notifying.Lock()
		defer s.notifying.Unlock()
		w.f(p, there)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	w.stops = append(w.stops, stop)
}

// Ports implements mads.Service.
func (s *hosts) Ports() (ports []mads.Port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.list {
		ports = append(ports, h.mads.Ports()...)
	}
	return ports
}

// Watch implements mads.Service.
func (s *hosts) Watch(f func(p mads.Port, there bool)) (stop func()) {
	w := &portWatcher{f: f}
	s.mu.Lock()
	s.watchers = append(s.watchers, w)
	list := slices.Clone(s.list)
	s.mu.Unlock()
	for _, h := range list {
		s.follow(w, h)
	}
	return func() {
		s.mu.Lock()
		s.watchers = slices.DeleteFunc(s.watchers, func(x *portWatcher) bool { return x == w })
		stops := w.stops
		s.mu.Unlock()
		for _, stop := range stops {
			stop()
		}
	}
}

// Register implements mads.Service.
func (s *hosts) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	h, err := s.host(cfg.Port.CA)
	if err != nil {
		return nil, err
	}
	return h.mads.Register(cfg)
}

// managers returns a cm.Service of the connection managers that have been started.
func (s *hosts) managers() cm.Service { return managers{s} }

// anyManaged returns an HCA with a connection manager, or 0.
func (s *hosts) anyManaged() ci.GUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.list {
		if h.cm != nil {
			return h.guid
		}
	}
	return 0
}

// managers implements cm.Service. Each request names the HCA whose manager executes it.
type managers struct{ s *hosts }

var _ cm.Service = managers{}

// of returns the connection manager of an HCA. Status: InvalidPort (it has not been started).
func (m managers) of(p mads.Port) (*cm.Manager, error) {
	h, err := m.s.host(p.CA)
	if err != nil {
		return nil, err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if h.cm == nil {
		return nil, &ci.Error{Verb: "Services", Status: ci.InvalidPort,
			Detail: fmt.Sprintf("HCA %016x has no connection manager now", uint64(p.CA))}
	}
	return h.cm, nil
}

// Listen implements cm.Service. Any manager rejects a port without a CA.
func (m managers) Listen(cfg cm.ListenConfig) (cm.Listener, error) {
	port := cfg.Port
	if port.CA == 0 && port.Num != 0 {
		port.CA = m.s.anyManaged()
	}
	x, err := m.of(port)
	if err != nil {
		return nil, err
	}
	return x.Listen(cfg)
}

// Connect implements cm.Service.
func (m managers) Connect(ctx context.Context, cfg cm.ConnectConfig) (cm.Conn, error) {
	x, err := m.of(cfg.Primary.Port)
	if err != nil {
		return nil, err
	}
	return x.Connect(ctx, cfg)
}

// StartConnect implements cm.Service.
func (m managers) StartConnect(ctx context.Context, cfg cm.ConnectConfig, done func(cm.Conn, error)) error {
	x, err := m.of(cfg.Primary.Port)
	if err != nil {
		return err
	}
	return x.StartConnect(ctx, cfg, done)
}

// Lookup implements cm.Service.
func (m managers) Lookup(ctx context.Context, cfg cm.LookupConfig) (*cm.LookupReply, error) {
	x, err := m.of(cfg.Path.Port)
	if err != nil {
		return nil, err
	}
	return x.Lookup(ctx, cfg)
}

// StartLookup implements cm.Service.
func (m managers) StartLookup(ctx context.Context, cfg cm.LookupConfig, done func(*cm.LookupReply, error)) error {
	x, err := m.of(cfg.Path.Port)
	if err != nil {
		return err
	}
	return x.StartLookup(ctx, cfg, done)
}

// Close implements cm.Service. The requests of the worker close the managers.
func (m managers) Close() error { return nil }
