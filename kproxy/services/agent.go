package services

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/kproxy"
	"ciddk/mad"
)

// agent is an agent of a client.
type agent struct {
	session    *kproxy.Session
	item       *kproxy.Item
	cfg        mads.AgentConfig
	privileged bool
	a          mads.Agent

	mu       sync.Mutex
	ended    bool
	list     []*received
	received int // number of elements of list that are not outcomes
	dropped  uint32
	ops      map[uint64]*operation

	requests sync.WaitGroup // those that begin or whose outcome is on its way; none begins when ended is set
}

// operation is a pending request of an agent.
type operation struct {
	stop  context.CancelFunc
	bytes int64 // charged to the client
}

// received is an element of an agent's queue.
type received struct {
	kind  schema.MADKind
	op    uint64
	r     mads.Received
	err   error
	bytes int64 // charged to the client
}

const (
	defaultQueue  = 128 // datagrams
	maxOperations = 256 // of an agent
	overheadMAD   = 256 // bytes of an element of a queue, beside its datagram
)

func (s *Service) registerAgent(c *kproxy.Session, verb string, r *schema.RegisterAgent) (any, error) {
	parent, err := find[*services](c, verb, schema.KindServices, r.Services)
	if err != nil {
		return nil, err
	}
	cfg := mads.AgentConfig{Name: fmt.Sprintf("%s (client %d)", r.Name, c.ID()), Port: convert.Port(r.Port),
		SubnetManagement: r.SubnetManagement, Class: mad.Class(r.Class), Version: r.Version, OUI: r.OUI, RMPP: r.RMPP,
		Queue: int(r.Queue)}
	for _, m := range r.Methods {
		cfg.Methods = append(cfg.Methods, mad.Method(m))
	}
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	a := &agent{session: c, privileged: c.Privileged(verb) == nil, ops: map[uint64]*operation{}}
	if err := a.checkClass(verb, &cfg, r.Undelivered); err != nil {
		return nil, err
	}
	if len(cfg.Methods) > 0 {
		cfg.OnReceive = a.receive
	}
	if r.Undelivered {
		cfg.OnUndelivered = a.undelivered
	}
	a.cfg = cfg
	if a.item, err = c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindAgent, Token: r.Token, Parent: parent.item,
		Bytes: bytesPerObject}); err != nil {
		return nil, err
	}
	if a.a, err = s.cfg.MAD.Register(cfg); err != nil {
		a.item.Remove()
		return nil, err
	}
	if err := a.item.Commit(verb, a); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	return &schema.Created{Handle: a.item.Handle()}, nil
}

func isVendor(c mad.Class) bool { return c.Vendor1() || c.Vendor2() }

// checkClass returns an error for an agent that an unprivileged client must not have. Status: InvalidPermission.
func (a *agent) checkClass(verb string, cfg *mads.AgentConfig, undelivered bool) error {
	why := ""
	switch {
	case a.privileged:
	case cfg.SubnetManagement:
		why = "agents on QP0"
	case cfg.Class == 0:
		why = "agents of all classes"
	case cfg.Class == mad.ClassCM:
		why = "agents of communication management, which is the connection manager's"
	case len(cfg.Methods) > 0 && !isVendor(cfg.Class):
		why = fmt.Sprintf("agents that receive requests of %v", cfg.Class)
	case undelivered:
		why = "reports of datagrams that were not delivered"
	}
	return permit(verb, why)
}

// checkSend returns an error for a datagram that an unprivileged client must not send. Status: InvalidPermission.
func (a *agent) checkSend(verb string, b []byte, isRequest bool) error {
	if a.privileged || len(b) < mad.HeaderLen { // the agent rejects a short one
		return nil
	}
	var h mad.Header
	h.Parse(b)
	isRead := h.Method == mad.Get || h.Method == mad.GetTable || h.Method == mad.GetMulti
	why := ""
	switch {
	case h.Response() && len(a.cfg.Methods) == 0:
		why = "responses of an agent that receives no requests"
	case !isVendor(h.Class) && !isRead:
		why = fmt.Sprintf("method %v of %v", h.Method, h.Class)
	case !isRequest && !h.Response() && h.TID>>32 != 0:
		why = "transaction IDs of more than 32 bits in datagrams without a response"
	}
	return permit(verb, why)
}

// permit returns the error of what only privileged clients may do; "" is nil.
func permit(verb, why string) error {
	if why == "" {
		return nil
	}
	return errorf(verb, ci.InvalidPermission, "%s need the daemon's user id or root", why)
}

// sendMAD sends a datagram, or a request.
func sendMAD(c *kproxy.Session, verb string, r *schema.SendMAD) (any, error) {
	a, err := find[*agent](c, verb, schema.KindAgent, r.Agent)
	if err != nil {
		return nil, err
	}
	if err := a.checkSend(verb, r.MAD, r.Op != 0); err != nil {
		return nil, err
	}
	m := &mads.Message{To: convert.Address(&r.To), MAD: r.MAD, Timeout: time.Duration(r.Timeout),
		Retries: int(r.Retries), MaxResponse: int(r.MaxResponse)}
	if r.Op == 0 {
		err = a.a.Send(m)
	} else {
		err = a.request(verb, r.Op, m)
	}
	if err != nil {
		return nil, err
	}
	return &schema.None{}, nil
}

// request sends a request. Its outcome is added to the queue.
func (a *agent) request(verb string, op uint64, m *mads.Message) error {
	size := int64(len(m.MAD) + overheadMAD)
	if err := a.session.Charge(verb, size); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	err := a.begin(verb, op, &operation{stop: stop, bytes: size})
	if err != nil {
		stop()
		a.session.Discharge(size)
		return err
	}
	err = a.a.StartDo(ctx, m, func(r *mads.Received, err error) {
		defer a.requests.Done()
		a.finish(op)
		x := &received{kind: schema.MADOutcome, op: op, err: err}
		if err == nil {
			x.r = *r
		}
		a.push(x)
	})
	if err != nil {
		a.finish(op)
		a.requests.Done()
	}
	return err
}

func (a *agent) begin(verb string, op uint64, o *operation) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	outcomes := len(a.list) - a.received
	switch {
	case a.ended:
		return errorf(verb, ci.InvalidHandle, "the agent is closed")
	case a.ops[op] != nil:
		return errorf(verb, ci.InvalidParameter, "operation %d is pending", op)
	case len(a.ops)+outcomes >= maxOperations:
		return errorf(verb, ci.InsufficientResources, "%d requests of the agent are pending, which is the limit",
			maxOperations)
	}
	a.ops[op] = o
	a.requests.Add(1)
	return nil
}

// finish removes a request that has ended.
func (a *agent) finish(op uint64) {
	a.mu.Lock()
	o := a.ops[op]
	delete(a.ops, op)
	a.mu.Unlock()
	if o != nil {
		o.stop()
		a.session.Discharge(o.bytes)
	}
}

func (a *agent) cancel(op uint64) {
	a.mu.Lock()
	o := a.ops[op]
	a.mu.Unlock()
	if o != nil {
		o.stop()
	}
}

// receive is called with unsolicited datagrams. It does not block.
func (a *agent) receive(r *mads.Received) { a.push(&received{kind: schema.MADReceived, r: *r}) }

// undelivered is called with reports of the network. It does not block.
func (a *agent) undelivered(u *mads.Undelivered) {
	a.push(&received{kind: schema.MADUndelivered, r: mads.Received{SGID: u.To, MAD: bytes.Clone(u.MAD)}, err: u.Err})
}

// push adds an element to the queue. Without room or quota, a datagram is dropped and counted, and the outcome of a
// request becomes an error.
func (a *agent) push(x *received) {
	const verb = "Agent.Recv"
	isOutcome := x.kind == schema.MADOutcome
	size := int64(len(x.r.MAD) + overheadMAD)
	if err := a.session.Charge(verb, size); err == nil {
		x.bytes = size
	} else if isOutcome {
		x.r, x.err = mads.Received{}, err
	}
	a.mu.Lock()
	isRejected := a.ended || !isOutcome && (x.bytes == 0 || a.received >= a.cfg.Queue)
	if isRejected {
		a.dropped++
	} else {
		a.list = append(a.list, x)
		if !isOutcome {
			a.received++
		}
	}
	a.mu.Unlock()
	if isRejected {
		a.session.Discharge(x.bytes)
		return
	}
	a.item.Signal()
}

// takeMAD returns a part of the first element of the queue. The last part removes it.
func takeMAD(c *kproxy.Session, verb string, r *schema.TakeMAD) (any, error) {
	a, err := find[*agent](c, verb, schema.KindAgent, r.Agent)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reply := &schema.TakeMADReply{Dropped: a.dropped}
	if len(a.list) == 0 {
		a.dropped = 0
		a.item.Rearm()
		return reply, nil
	}
	x := a.list[0]
	if r.Offset > uint64(len(x.r.MAD)) {
		return nil, errorf(verb, ci.InvalidParameter, "offset %d of %d bytes", r.Offset, len(x.r.MAD))
	}
	a.dropped = 0
	reply.Op, reply.Kind, reply.Total = x.op, x.kind, uint32(len(x.r.MAD))
	reply.From, reply.GRH = convert.ToAddress(&x.r.From), x.r.GRH
	reply.SGID, reply.DGID, reply.Error = x.r.SGID, x.r.DGID, convert.ToError(x.err)
	rest := x.r.MAD[r.Offset:]
	if len(rest) > schema.MaxMAD {
		reply.Data, reply.Waiting = rest[:schema.MaxMAD], waiting(len(a.list))
		return reply, nil
	}
	reply.Data = rest
	a.list[0] = nil
	if a.list = a.list[1:]; len(a.list) == 0 {
		a.list = nil
		a.item.Rearm()
	}
	if x.kind != schema.MADOutcome {
		a.received--
	}
	reply.Waiting = waiting(len(a.list))
	a.session.Discharge(x.bytes)
	return reply, nil
}

// Destroy closes the agent. When it returns, its client may use again what the agent and its requests held.
func (a *agent) Destroy() error { a.Abandon(); return nil }

// Abandon closes the agent.
func (a *agent) Abandon() {
	a.mu.Lock()
	ended, list := a.ended, a.list
	a.ended, a.list, a.received = true, nil, 0
	var stops []context.CancelFunc
	for _, o := range a.ops {
		stops = append(stops, o.stop)
	}
	a.mu.Unlock()
	if ended {
		return
	}
	for _, stop := range stops {
		stop() // the end of the request takes back its charge
	}
	_ = a.a.Close()   // it has no error
	a.requests.Wait() // for callbacks, which do not block
	for _, x := range list {
		a.session.Discharge(x.bytes)
	}
}

// Status returns the class of an agent that receives requests.
func (a *agent) Status() string {
	if len(a.cfg.Methods) == 0 {
		return ""
	}
	return fmt.Sprintf("agent: %v at port %d of HCA %016x", a.cfg.Class, a.cfg.Port.Num, uint64(a.cfg.Port.CA))
}
