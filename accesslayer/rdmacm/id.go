package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/internal/hold"
	"ciddk/ci"
)

// ID is one end of a connection, from before there is one until after it: rdma_cm_id. Steps are called one after the other; all other
// methods may be called concurrently with everything.
type ID struct {
	m      *Manager
	cfg    IDConfig
	typ    ci.QPType
	ctx    context.Context // ends with Close, and with it every step
	cancel context.CancelCauseFunc
	life   context.Context // ends with the connection; its cause says why
	finish context.CancelCauseFunc
	events queue

	closing  *hold.Once
	closeErr error

	mu       sync.Mutex
	state    state
	why      error // what ended the connection: life has ended of it, or is about to; nil before
	told     bool  // EventDisconnected was queued
	binding  *binding
	at       netip.Addr     // bound to
	local    netip.AddrPort // the address invalid: any
	remote   netip.AddrPort
	src      Source // Port.Num 0: none yet
	path     cm.Path
	qp       ci.QP
	made     *madeQP // nil: the QP is the caller's
	access   ci.Access
	conn     cm.Conn
	lookup   cm.LookupRequest
	request  *RequestParam
	reply    []byte
	peer     Peer
	groups   map[*Group]struct{}
	listener *IDListener
	alive    *keepAlive // nil: none
}

// state is how far an ID is.
type state uint8

const (
	idle state = iota
	bound
	addrResolved
	routeResolved
	connecting
	replied // Establish is next
	requested
	accepting
	established
	rejected
	listening
	closed
)

var stateNames = [...]string{"new", "bound", "its address is resolved", "its route is resolved", "connecting", "waiting for Establish",
	"waiting for Accept or Reject", "being accepted", "connected", "rejected", "listening", "closed"}

func (s state) String() string { return stateNames[s] }

func newID(m *Manager, cfg IDConfig) *ID {
	i := &ID{m: m, cfg: cfg, typ: cfg.Type, closing: hold.NewOnce(), groups: map[*Group]struct{}{}}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	i.life, i.finish = context.WithCancelCause(context.Background())
	i.events.init()
	return i
}

// Manager returns the Manager of the ID.
func (i *ID) Manager() *Manager { return i.m }

// enter begins a step: from one of some states to another. The state is put back by leave.
func (i *ID) enter(verb string, to state, from ...state) (was state, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was = i.state
	for _, s := range from {
		if s == was {
			i.state = to
			return was, nil
		}
	}
	if was == closed {
		return was, net.ErrClosed
	}
	return was, invalidState("ID."+verb, "the ID is in the state: %v", was)
}

// leave ends a step, unless Close came first.
func (i *ID) leave(s state) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != closed {
		i.state = s
	}
}

// during is the context of a step: it ends with the ID, too.
func (i *ID) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(i.ctx, func() { cancel(context.Cause(i.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// fail is the error of a step: net.ErrClosed if the ID was closed meanwhile, ErrDeviceRemoved if its HCA has gone.
func (i *ID) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if i.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(i.ctx)
	}
	return opError(op, i.LocalAddr(), i.RemoteAddr(), err)
}

// Bind chooses the local address and port. The zero address stands for any, port 0 for a free one.
// Errors: EADDRINUSE; EADDRNOTAVAIL (no HCA has the address); InvalidState (bound before).
func (i *ID) Bind(local netip.AddrPort) error {
	_, err := i.enter("Bind", idle, idle)
	if err == nil {
		err = i.bind(local)
	}
	return i.fail("bind", err)
}

func (i *ID) bind(local netip.AddrPort) error {
	addr := canonical(local.Addr())
	var src Source
	if addr.IsValid() && !addr.IsUnspecified() {
		list := sources(i.m.al)
		var ok bool
		if src, ok = own(list, addr); !ok {
			return fmt.Errorf("%w: no HCA has %v; there are: %s", syscall.EADDRNOTAVAIL, addr, names(list))
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.state == closed:
		return net.ErrClosed
	case i.binding != nil:
		return invalidState("ID.Bind", "bound to %v before", i.local)
	}
	if i.cfg.Service == 0 {
		b, err := i.m.ports.bind(i.cfg.Space, netip.AddrPortFrom(addr, local.Port()), i.cfg.ReuseAddr)
		if err != nil {
			return err
		}
		i.binding = b
		i.local = netip.AddrPortFrom(addr, b.port)
	} else {
		i.local = netip.AddrPortFrom(addr, 0)
	}
	i.at, i.src = addr, src
	i.state = bound
	return nil
}

func (i *ID) query() Query {
	i.mu.Lock()
	defer i.mu.Unlock()
	return Query{Local: i.local, Remote: i.remote, Service: i.cfg.serviceID(i.remote.Port()), TrafficClass: i.cfg.TrafficClass, PKey: i.cfg.PKey,
		LifeTime: i.cfg.LifeTime}
}

// ResolveAddr finds the HCA, port and GID from which to reach remote, or with a bound address those of that: see Source. An ID that is not
// bound yet gets a free port. It may be called again before Connect, but for an ID with a QP only with the same HCA as result.
// Errors: those of Resolver.ResolveAddr.
func (i *ID) ResolveAddr(ctx context.Context, remote netip.AddrPort) error {
	was, err := i.enter("ResolveAddr", connecting, idle, bound, addrResolved, routeResolved)
	if err != nil {
		return i.fail("resolve address", err)
	}
	to := was
	if err = i.resolveAddr(ctx, was, netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())); err == nil {
		to = addrResolved
	} else if was == idle && i.Bound() {
		to = bound
	}
	i.leave(to)
	return i.fail("resolve address", err)
}

// Bound tells whether the ID has a local port.
func (i *ID) Bound() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.binding != nil
}

func (i *ID) resolveAddr(ctx context.Context, was state, remote netip.AddrPort) error {
	if was == idle {
		if err := i.bind(netip.AddrPort{}); err != nil {
			return err
		}
		i.leave(connecting) // bind made it bound
	}
	ctx, cancel := i.during(ctx)
	defer cancel()
	q := i.query()
	q.Remote, q.Service = remote, i.cfg.serviceID(remote.Port())
	q.Local = netip.AddrPortFrom(i.at, q.Local.Port()) // what an earlier one resolved does not count; only steps write it
	src, err := i.m.resolver.ResolveAddr(ctx, q)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.qp != nil && i.src.Port.CA != src.Port.CA {
		return invalidState("ID.ResolveAddr", "%v is reached from HCA %016x, and the QP is of another one", remote, uint64(src.Port.CA))
	}
	i.remote, i.src = remote, src
	i.local = netip.AddrPortFrom(src.Addr, i.local.Port())
	return nil
}

// ResolveRoute finds the path: see Path. Errors: those of Resolver.ResolveRoute.
func (i *ID) ResolveRoute(ctx context.Context) error {
	was, err := i.enter("ResolveRoute", connecting, addrResolved, routeResolved)
	if err != nil {
		return i.fail("resolve route", err)
	}
	to := was
	if err = i.resolveRoute(ctx); err == nil {
		to = routeResolved
	}
	i.leave(to)
	return i.fail("resolve route", err)
}

func (i *ID) resolveRoute(ctx context.Context) error {
	ctx, cancel := i.during(ctx)
	defer cancel()
	p, err := i.m.resolver.ResolveRoute(ctx, i.query(), i.Source())
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.path = p
	return nil
}

// SetPath is for those who know the path, instead of ResolveRoute, or change what that found. Status: InvalidState, InvalidPort (not the
// port of Source).
func (i *ID) SetPath(p cm.Path) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.state != addrResolved && i.state != routeResolved:
		return invalidState("ID.SetPath", "the ID is in the state: %v", i.state)
	case p.Port != i.src.Port:
		return &ci.Error{Verb: "ID.SetPath", Status: ci.InvalidPort, Detail: fmt.Sprintf("the path begins at %+v, the ID's port is %+v", p.Port, i.src.Port)}
	}
	i.path, i.state = p, routeResolved
	return nil
}

// Done is closed when the connection is over, whoever ended it, and when the ID is closed. ID.Err says why. Work that is still posted is
// flushed before: the order is Err, the ID's QP in Error, Done. So the queues hold all that ever comes when Done is closed, as far as the
// HCA flushes at once, and who sees ci.WCFlushErr before that finds the cause in Err already.
func (i *ID) Done() <-chan struct{} { return i.life.Done() }

// Err returns nil before the end, and then an error that is ErrEnded, with its cause. It is set before work is flushed, a little before Done
// is closed. Work that is flushed while Err is nil means that the QP failed by itself. The reason is then the status of the completion before the
// flushed ones or, if a request of the peer was invalid, an event of the QP (QPConfig.OnEvent); for the peer the connection goes on until
// somebody disconnects.
func (i *ID) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

// Context ends when Done is closed, and its cause is Err: wait for completions with it.
func (i *ID) Context() context.Context { return i.life }

// Next waits for the next event. Events that nobody takes are kept; there are few.
// Errors: the context's; net.ErrClosed when the ID was closed and all events were taken.
func (i *ID) Next(ctx context.Context) (Event, error) { return i.events.next(ctx) }

// LocalAddr is this end.
func (i *ID) LocalAddr() Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	return Addr{Space: i.cfg.Space, AddrPort: i.local, Service: i.cfg.Service}
}

// RemoteAddr is the other end.
func (i *ID) RemoteAddr() Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	return Addr{Space: i.cfg.Space, AddrPort: i.remote, Service: i.cfg.Service}
}

// Source is the port and GID that ResolveAddr, Bind to an address or the request chose.
func (i *ID) Source() Source {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.src
}

// Path is the path that ResolveRoute or the request gave.
func (i *ID) Path() cm.Path {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.path
}

// placed gives the port, and fails as long as there is none.
func (i *ID) placed(verb string) (Source, error) {
	s := i.Source()
	if s.Port.Num == 0 {
		return s, invalidState("ID."+verb, "no HCA is chosen yet: Bind to an address, or ResolveAddr")
	}
	return s, nil
}

// CA is the Manager's open of the ID's HCA: see Manager.Device. Status: InvalidState (no HCA chosen yet).
func (i *ID) CA() (*accesslayer.CA, error) {
	s, err := i.placed("CA")
	if err != nil {
		return nil, err
	}
	ca, _, err := i.m.Device(s.Port.CA)
	return ca, err
}

// PD is the PD that IDs share on the HCA. Status: as CA.
func (i *ID) PD() (*accesslayer.PD, error) {
	s, err := i.placed("PD")
	if err != nil {
		return nil, err
	}
	_, pd, err := i.m.Device(s.Port.CA)
	return pd, err
}

// QP is the ID's, nil if it has none.
func (i *ID) QP() ci.QP {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.qp
}

// SendCQ is what CreateQP made, nil if it did not; with QPConfig.OneCQ the same as RecvCQ.
func (i *ID) SendCQ() *accesslayer.CQ {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made == nil {
		return nil
	}
	return i.made.sendCQ
}

// RecvCQ is what CreateQP made, nil if it did not.
func (i *ID) RecvCQ() *accesslayer.CQ {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made == nil {
		return nil
	}
	return i.made.recvCQ
}

// Conn is the connection as the connection manager has it, nil before Connect and for datagrams: for alternate paths, IDs and states.
func (i *ID) Conn() cm.Conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.conn
}

// Request says what the peer asks for, of an ID that came from a Listener; nil of others. Read only.
func (i *ID) Request() *RequestParam { return i.request }

// Peer is the peer of a datagram ID, after Connect; of a request its address only.
func (i *ID) Peer() Peer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.peer
}

// Reply is the private data with which the peer agreed, AcceptLen or AnswerLen bytes, nil before. Read only.
func (i *ID) Reply() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reply
}

// Peer is where datagrams go: make an address vector of AV.
type Peer struct {
	AV   ci.AVAttr
	QPN  ci.QPN
	QKey ci.QKey
}

// RequestParam is what a peer asks for.
type RequestParam struct {
	Private []byte // ConnectLen bytes, or LookupLen and so on
	// ResponderResources are the READs and atomics that the peer answers at a time, InitiatorDepth those it sends.
	ResponderResources, InitiatorDepth uint8
	Retries, RNRRetries                uint8
	FlowControl, SRQ                   bool
	QPN                                ci.QPN    // the peer's; of datagrams not known
	Type                               ci.QPType // its service
}
