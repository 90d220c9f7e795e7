package services

import (
	"context"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
)

// madService implements mads.Service.
type madService struct{ s *Services }

var _ mads.Service = (*madService)(nil)

// Ports implements mads.Service.
func (m *madService) Ports() []mads.Port {
	c := &m.s.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]mads.Port, len(c.ports))
	for i, p := range c.ports {
		list[i] = convert.Port(p.Port)
	}
	return list
}

// Watch implements mads.Service.
func (m *madService) Watch(f func(p mads.Port, there bool)) (stop func()) {
	return m.s.changes.watch(&watcher{port: f})
}

// defaultQueue is the number of datagrams that wait for Recv if AgentConfig.Queue is 0.
const defaultQueue = 128

// Register implements mads.Service. The daemon and this process each keep as many datagrams as AgentConfig.Queue says.
// What an agent may do depends on the privileges of the process; see package
// kproxy/services.
func (m *madService) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	const verb = "mads.Register"
	if cfg.Queue < 0 {
		return nil, invalid(verb, "Queue is %d, must not be negative (0: %d)", cfg.Queue, defaultQueue)
	}
	if cfg.OnReceive != nil && len(cfg.Methods) == 0 {
		return nil, invalid(verb, "OnReceive without Methods: nothing would be received")
	}
	if cfg.Manager {
		return nil, &ci.Error{Verb: verb, Status: ci.Unsupported,
			Detail: "Manager is for agents of the daemon's process"}
	}
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	cfg.Queue = min(cfg.Queue, 1<<16)
	a := &agent{cfg: cfg, queue: make(chan *mads.Received, cfg.Queue), closed: make(chan struct{})}
	a.remote = remote{s: m.s}
	var err error
	if a.token, err = m.s.add(verb, a, a.takeAll); err != nil {
		return nil, err
	}
	q := &schema.RegisterAgent{Services: m.s.handle, Token: a.token, Port: convert.ToPort(cfg.Port),
		Queue: uint32(cfg.Queue), Class: uint8(cfg.Class), Version: cfg.Version, OUI: cfg.OUI,
		SubnetManagement: cfg.SubnetManagement, RMPP: cfg.RMPP, Undelivered: cfg.OnUndelivered != nil,
		Name: schema.ClipText(cfg.Name)}
	for _, method := range cfg.Methods {
		q.Methods = append(q.Methods, uint8(method))
	}
	var r schema.Created
	if err := m.s.c.Do(schema.CmdRegisterAgent, q, &r); err != nil {
		m.s.remove(a.token)
		return nil, asClosed(err)
	}
	a.setHandle(r.Handle)
	return a, nil
}

// agent implements mads.Agent.
type agent struct {
	remote
	cfg    mads.AgentConfig
	queue  chan *mads.Received
	once   sync.Once
	closed chan struct{}
	calls  sync.Mutex // held during OnReceive and OnUndelivered
}

var _ mads.Agent = (*agent)(nil)

// closeAgents closes the agents of a port that was removed.
func (s *Services) closeAgents(p mads.Port) {
	s.mu.Lock()
	var list []*agent
	for _, o := range s.objects {
		if a, ok := o.(*agent); ok && a.cfg.Port == p {
			list = append(list, a)
		}
	}
	s.mu.Unlock()
	for _, a := range list {
		_ = a.Close() // the daemon has closed it
	}
}

// Port implements mads.Agent.
func (a *agent) Port() mads.Port { return a.cfg.Port }

func (a *agent) disconnect() {
	if a.end(lostError("Agent")) {
		a.once.Do(func() { close(a.closed) })
	}
}

// Close implements mads.Agent.
func (a *agent) Close() error {
	err := a.close("Agent.Close")
	a.once.Do(func() { close(a.closed) })
	a.calls.Lock() // waits for OnReceive
	defer a.calls.Unlock()
	return err
}

// takeAll takes what the agent has received.
func (a *agent) takeAll() {
	a.mu.Lock()
	h, ended := a.h, a.ended
	if h == 0 {
		a.due = true
	}
	a.mu.Unlock()
	if h == 0 || ended != nil {
		return
	}
	for {
		r, b, err := a.takeOne(h)
		if err != nil || r.Kind == schema.MADNone {
			return // the agent was closed, or the connection is lost: both end the requests
		}
		x := &mads.Received{Port: a.cfg.Port, From: convert.Address(&r.From), GRH: r.GRH, SGID: r.SGID, DGID: r.DGID,
			MAD: b}
		a.receive(r, x)
		if r.Waiting == 0 {
			return
		}
	}
}

// takeOne takes one element of the daemon's queue, with all of its parts.
func (a *agent) takeOne(h schema.Handle) (*schema.TakeMADReply, []byte, error) {
	var b []byte
	for {
		r := new(schema.TakeMADReply)
		if err := a.s.c.Do(schema.CmdTakeMAD, &schema.TakeMAD{Agent: h, Offset: uint64(len(b))}, r); err != nil {
			return nil, nil, err
		}
		b = append(b, r.Data...)
		if len(r.Data) == 0 || len(b) >= int(r.Total) {
			return r, b, nil
		}
	}
}

// receive passes an element of the daemon's queue on.
func (a *agent) receive(r *schema.TakeMADReply, x *mads.Received) {
	switch r.Kind {
	case schema.MADOutcome:
		st := a.removeStep(r.Op)
		if st == nil {
			return
		}
		err := convert.Error(&r.Error)
		if r.Error.Code == schema.ErrorCanceled && st.ctx.Err() != nil {
			err = st.ctx.Err()
		}
		st.received(x, err)
	case schema.MADReceived:
		if a.cfg.OnReceive != nil {
			a.callback(func() { a.cfg.OnReceive(x) })
			return
		}
		select {
		case a.queue <- x:
		default: // as many wait as AgentConfig.Queue permits
		}
	case schema.MADUndelivered:
		if f := a.cfg.OnUndelivered; f != nil {
			a.callback(func() { f(&mads.Undelivered{To: x.SGID, MAD: x.MAD, Err: convert.Error(&r.Error)}) })
		}
	}
}

// callback calls f, unless the agent is closed.
func (a *agent) callback(f func()) {
	a.calls.Lock()
	defer a.calls.Unlock()
	if _, ended := a.target(); ended == nil {
		f()
	}
}

// Recv implements mads.Agent.
func (a *agent) Recv(ctx context.Context) (*mads.Received, error) {
	select {
	case r := <-a.queue:
		return r, nil
	default:
	}
	select {
	case r := <-a.queue:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.closed:
		_, err := a.target()
		return nil, err
	}
}

// Send implements mads.Agent.
func (a *agent) Send(m *mads.Message) error {
	q, err := a.message("Agent.Send", m)
	if err != nil {
		return err
	}
	return a.s.do(schema.CmdSendMAD, q)
}

// message returns a request to send a datagram.
func (a *agent) message(verb string, m *mads.Message) (*schema.SendMAD, error) {
	if m == nil {
		return nil, invalid(verb, "the Message is nil")
	}
	if err := checkLen(verb, "MAD", m.MAD, schema.MaxMAD); err != nil {
		return nil, err
	}
	h, err := a.target()
	if err != nil {
		return nil, err
	}
	return &schema.SendMAD{Agent: h, To: convert.ToAddress(&m.To), Timeout: int64(m.Timeout),
		Retries: schema.Int32(m.Retries), MaxResponse: schema.Int32(m.MaxResponse), MAD: m.MAD}, nil
}

// Do implements mads.Agent.
func (a *agent) Do(ctx context.Context, m *mads.Message) (*mads.Received, error) {
	return wait(func(done func(*mads.Received, error)) error { return a.request(ctx, "Agent.Do", m, done) })
}

// StartDo implements mads.Agent.
func (a *agent) StartDo(ctx context.Context, m *mads.Message, done func(*mads.Received, error)) error {
	const verb = "Agent.StartDo"
	if done == nil {
		return invalid(verb, "done is nil")
	}
	return a.request(ctx, verb, m, func(r *mads.Received, err error) { go done(r, err) })
}

func (a *agent) request(ctx context.Context, verb string, m *mads.Message, done func(*mads.Received, error)) error {
	q, err := a.message(verb, m)
	if err != nil {
		return err
	}
	op, err := a.begin(ctx, nil)
	if err != nil {
		return err
	}
	a.mu.Lock()
	st := a.steps[op]
	if st != nil {
		st.received = func(r *mads.Received, err error) {
			if err != nil {
				r = nil
			}
			done(r, err)
		}
		st.done = func(_ *schema.Notice, err error) { done(nil, err) }
	}
	a.mu.Unlock()
	if st == nil {
		_, err := a.target()
		return err
	}
	q.Op = op
	if err := a.s.do(schema.CmdSendMAD, q); err != nil {
		if a.removeStep(op) == nil {
			return nil // the end of the agent has called done
		}
		return err
	}
	a.started(op)
	return nil
}
