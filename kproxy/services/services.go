package services

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/kproxy"
)

// Config describes the services of a daemon. AL, MAD and CM are required.
type Config struct {
	AL    *accesslayer.AL
	MAD   mads.Service
	CM    cm.Service
	Ports cmid.Ports // nil: a table of the Service
}

// Service executes the commands of clients. It implements kproxy.Service.
type Service struct {
	cfg       Config
	client    *accesslayer.Client
	stopWatch func()

	mu        sync.Mutex
	serial    uint64 // of the last adapter or port
	hcas      []schema.ServiceHCA
	ports     []schema.ServicePort
	open      map[*services]struct{}
	listeners map[*listener]struct{}
}

var _ kproxy.Service = (*Service)(nil)

// New returns the services of a daemon. Status: InvalidParameter (a missing service), those of
// accesslayer.Client.RegisterPnP.
func New(cfg Config) (*Service, error) {
	if cfg.AL == nil || ci.IsNil(cfg.MAD) || ci.IsNil(cfg.CM) {
		return nil, errorf("services.New", ci.InvalidParameter, "Config.AL, MAD or CM is nil")
	}
	if cfg.Ports == nil {
		table, err := cmid.NewPortTable([2]uint16{}, random)
		if err != nil {
			return nil, err
		}
		cfg.Ports = table
	}
	s := &Service{cfg: cfg, open: map[*services]struct{}{}, listeners: map[*listener]struct{}{}}
	client, err := cfg.AL.Open(accesslayer.ClientConfig{Name: "services of client processes"})
	if err != nil {
		return nil, err
	}
	s.client = client
	_, err = client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Add:    func(a *accesslayer.Adapter) (any, error) { s.changeHCA(a.GUID(), true); return nil, nil },
		Remove: func(a *accesslayer.Adapter, _ any) { s.changeHCA(a.GUID(), false) }})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.stopWatch = cfg.MAD.Watch(s.changePort)
	return s, nil
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Close ends the notices of adapters. The caller closes the server of package kproxy before, and the services of Config
// afterwards.
func (s *Service) Close() error {
	s.stopWatch()
	return s.client.Close()
}

func (s *Service) changeHCA(guid ci.GUID, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hcas = slices.DeleteFunc(s.hcas, func(h schema.ServiceHCA) bool { return h.GUID == guid })
	if there {
		s.serial++
		s.hcas = append(s.hcas, schema.ServiceHCA{GUID: guid, Serial: s.serial})
	}
	s.signal()
}

func (s *Service) changePort(p mads.Port, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := convert.ToPort(p)
	s.ports = slices.DeleteFunc(s.ports, func(x schema.ServicePort) bool { return x.Port == id })
	if there {
		s.serial++
		s.ports = append(s.ports, schema.ServicePort{Port: id, Serial: s.serial})
	}
	s.signal()
}

// checkPort returns an error for a port without MAD services, as cm.Manager does. Status: InvalidPort.
func (s *Service) checkPort(verb string, id schema.PortID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.ports, func(p schema.ServicePort) bool { return p.Port == id }) {
		return errorf(verb, ci.InvalidPort, "port %d of HCA %016x has no connection manager", id.Num, uint64(id.CA))
	}
	return nil
}

// signal reports a change to all clients. mu is held.
func (s *Service) signal() {
	for x := range s.open {
		x.item.Signal()
	}
}

// Do implements kproxy.Service.
func (s *Service) Do(c *kproxy.Session, call *kproxy.Call) (*kproxy.Result, error) {
	reply, err := s.do(c, call)
	if err != nil {
		return nil, err
	}
	return &kproxy.Result{Body: reply}, nil
}

func (s *Service) do(c *kproxy.Session, call *kproxy.Call) (any, error) {
	verb := call.Command.Verb()
	switch r := call.Body.(type) {
	case *schema.OpenServices:
		return s.openServices(c, verb, r)
	case *schema.Services:
		return s.query(c, verb, r)
	case *schema.TakeNotice:
		return takeNotice(c, verb, r)
	case *schema.Cancel:
		return cancel(c, verb, r)
	case *schema.BindPort:
		return s.bindPort(c, verb, r)
	case *schema.ListenPort:
		return listenPort(c, verb, r)
	case *schema.RegisterAgent:
		return s.registerAgent(c, verb, r)
	case *schema.SendMAD:
		return sendMAD(c, verb, r)
	case *schema.TakeMAD:
		return takeMAD(c, verb, r)
	}
	return s.doCM(c, call)
}

// doCM executes the commands of the connection manager.
func (s *Service) doCM(c *kproxy.Session, call *kproxy.Call) (any, error) {
	verb := call.Command.Verb()
	switch r := call.Body.(type) {
	case *schema.CMListen:
		return s.listen(c, verb, r)
	case *schema.CMAccept:
		return accept(c, verb, r)
	case *schema.CMConnect:
		return s.connect(c, verb, r)
	case *schema.CMReply:
		return replyTo(c, verb, r)
	case *schema.CMConnCall:
		return callConn(c, verb, r)
	case *schema.CMLoadAlternate:
		return loadAlternate(c, verb, r)
	case *schema.CMConn:
		return queryConn(c, verb, r)
	case *schema.CMQPAttr:
		return queryQPAttr(c, verb, r)
	case *schema.CMLookup:
		return s.lookup(c, verb, r)
	case *schema.CMAnswerLookup:
		return answerLookup(c, verb, r)
	}
	return nil, errorf(verb, ci.Unsupported, "%v is not a command of the services", call.Command)
}

func errorf(verb string, s ci.Status, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf(format, args...)}
}

// services is what one client has opened: the parent of its objects.
type services struct {
	s    *Service
	item *kproxy.Item
}

func (s *Service) openServices(c *kproxy.Session, verb string, r *schema.OpenServices) (any, error) {
	item, err := c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindServices, Token: r.Token, Queue: r.Async,
		Bytes: bytesPerObject})
	if err != nil {
		return nil, err
	}
	x := &services{s: s, item: item}
	s.mu.Lock()
	s.open[x] = struct{}{}
	s.mu.Unlock()
	if err := item.Commit(verb, x); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	return &schema.Created{Handle: item.Handle()}, nil
}

// bytesPerObject is an estimate of what an object of the services holds.
const bytesPerObject = 512

func (p *services) Destroy() error {
	p.Abandon()
	return nil
}

func (p *services) Abandon() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	delete(p.s.open, p)
}

func (p *services) Status() string { return "" }

func (s *Service) query(c *kproxy.Session, verb string, r *schema.Services) (any, error) {
	x, err := find[*services](c, verb, schema.KindServices, r.Services)
	if err != nil {
		return nil, err
	}
	x.item.Rearm()
	s.mu.Lock()
	defer s.mu.Unlock()
	const maxPorts = 1024
	return &schema.QueryServicesReply{HCAs: slices.Clone(s.hcas[:min(len(s.hcas), schema.MaxHCAs)]),
		Ports: slices.Clone(s.ports[:min(len(s.ports), maxPorts)])}, nil
}

// find returns the object of a handle.
func find[T kproxy.Servant](c *kproxy.Session, verb string, k schema.Kind, h schema.Handle) (t T, err error) {
	servant, _, err := c.Servant(verb, k, h)
	if err != nil {
		return t, err
	}
	t, ok := servant.(T)
	if !ok {
		return t, errorf(verb, ci.InvalidHandle, "the object is of another kind")
	}
	return t, nil
}
