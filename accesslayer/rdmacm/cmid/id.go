package cmid

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/internal/hold"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/mad"
)

// ID is one end of a connection, from before there is one until after it (rdma_cm_id). Steps are called one after the
// other. All other methods may be called concurrently with everything.
type ID struct {
	m      *Manager
	cfg    IDConfig
	typ    ci.QPType
	ctx    context.Context // ends with Close or hot removal, and with it every step
	cancel context.CancelCauseFunc
	life   context.Context // ends with the connection; its cause is the reason
	finish context.CancelCauseFunc

	closing  *hold.Once
	closeErr error

	acks        ackCounter
	waiting     atomic.Int32 // events on the channel
	eventsMu    sync.Mutex   // guards the fields below; no lock but the channel's is taken while it is held
	events      *EventChannel
	isShared    bool // events is IDConfig.Events
	eventsEnded bool

	mu             sync.Mutex
	state          state
	why            error // the reason for which the connection ended; life ends after it is set
	isDisconnected bool  // EventDisconnected was queued
	binding        Binding
	at             netip.Addr     // bound to
	local          netip.AddrPort // an invalid address: any
	remote         netip.AddrPort
	src            resolve.Source // Port.Num 0: none yet
	path           cm.Path
	qp             ci.QP
	made           *madeQP // nil: the QP is the caller's
	access         ci.Access
	conn           cm.Conn
	lookup         cm.LookupRequest
	request        *RequestParam
	reply          []byte
	peer           Peer
	groups         map[*Group]struct{}
	listener       *Listener
	alive          *keepAlive // nil: none
}

// state is the progress of an ID.
type state uint8

const (
	idle state = iota
	bound
	addrResolved
	routeResolved
	connecting // or resolving
	replied    // Establish is next
	requested
	accepting
	established
	rejected
	listening
	closed
)

var stateNames = [...]string{"new", "bound", "its address is resolved", "its route is resolved",
	"a step is in progress", "waiting for Establish", "waiting for Accept or Reject", "being accepted", "connected",
	"rejected", "listening", "closed"}

func (s state) String() string { return stateNames[s] }

func newID(m *Manager, cfg IDConfig) *ID {
	i := &ID{m: m, cfg: cfg, typ: cfg.Type, closing: hold.NewOnce(), groups: map[*Group]struct{}{}, events: cfg.Events}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	i.life, i.finish = context.WithCancelCause(context.Background())
	i.isShared = i.events != nil
	if !i.isShared {
		i.events = NewEventChannel(nil)
	}
	return i
}

// Manager returns the Manager of the ID.
func (i *ID) Manager() *Manager { return i.m }

// enter begins a step: it moves the ID from one of some states to another. leave ends the step.
func (i *ID) enter(verb string, to state, from ...state) (was state, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was = i.state
	if was == closed {
		return was, net.ErrClosed
	}
	if i.ctx.Err() != nil {
		return was, context.Cause(i.ctx)
	}
	if slices.Contains(from, was) {
		i.state = to
		return was, nil
	}
	return was, failure.InvalidState("ID."+verb, "the ID is in the state: %v", was)
}

// leave ends a step, unless the ID was closed.
func (i *ID) leave(s state) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != closed {
		i.state = s
	}
}

func (i *ID) isClosed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state == closed
}

// fail returns the error of a step as a *net.OpError.
func (i *ID) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return failure.Op(op, i.LocalAddr(), i.RemoteAddr(), err)
}

// SetTrafficClass sets IDConfig.TrafficClass. It applies to paths that are resolved later.
// Status: InvalidState (the route is resolved).
func (i *ID) SetTrafficClass(class uint8) error {
	return i.set("SetTrafficClass", addrResolved, func(c *IDConfig) { c.TrafficClass = class })
}

// SetLifeTime sets IDConfig.LifeTime. It applies to paths that are resolved later.
// Status: InvalidParameter (above mad.MaxTimeExp), InvalidState (the route is resolved).
func (i *ID) SetLifeTime(t mad.TimeExp) error {
	if t == 0 || t > mad.MaxTimeExp {
		return i.fail("set", failure.Invalid("ID.SetLifeTime", "the time is %d, want 1 to %d", t, mad.MaxTimeExp))
	}
	return i.set("SetLifeTime", addrResolved, func(c *IDConfig) { c.LifeTime = t })
}

// SetReuseAddr sets IDConfig.ReuseAddr. An ID that is bound can only allow reuse. Errors: InvalidState (the ID listens,
// or is bound and reuse is false), EADDRINUSE.
func (i *ID) SetReuseAddr(reuse bool) error {
	last := idle
	if reuse {
		last = rejected
	}
	return i.set("SetReuseAddr", last, func(c *IDConfig) { c.ReuseAddr = reuse })
}

// SetIPv6Only sets IDConfig.IPv6Only, also of an ID that is bound. Errors: InvalidState (the ID listens, or has
// resolved an address), EADDRINUSE (another ID has the port on the addresses that the ID takes in addition).
func (i *ID) SetIPv6Only(only bool) error {
	return i.set("SetIPv6Only", bound, func(c *IDConfig) { c.IPv6Only = only })
}

// set changes the configuration of an ID that is in a state up to last.
func (i *ID) set(verb string, last state, change func(*IDConfig)) error {
	i.mu.Lock()
	s := i.state
	var err error
	if s <= last {
		was := i.cfg
		change(&i.cfg)
		err = i.rebind(was)
	}
	i.mu.Unlock()
	switch {
	case s == closed:
		return i.fail("set", net.ErrClosed)
	case s > last:
		return i.fail("set", failure.InvalidState("ID."+verb, "the ID is in the state: %v", s))
	}
	return i.fail("set", err)
}

// Done is closed when the connection is over, whichever end ended it, and when the ID is closed. ID.Err returns the
// reason. Work that is still posted is flushed before: the order is Err, the ID's QP in Error, Done. Therefore, as far
// as the HCA flushes at once, the queues hold all completions when Done is closed, and a program that sees
// ci.WCFlushErr earlier finds the cause in Err.
func (i *ID) Done() <-chan struct{} { return i.life.Done() }

// Err returns nil before the end, and then an error that is ErrEnded, with its cause. It is set before work is flushed,
// a little before Done is closed. Work that is flushed while Err is nil means that the QP failed by itself. The reason
// is then the status of the completion before the flushed ones or, if a request of the peer was invalid, an event of
// the QP (QPConfig.OnEvent). For the peer, the connection continues until one end disconnects.
func (i *ID) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

// Context returns a context that ends when Done is closed, with Err as its cause. Use it to wait for completions.
func (i *ID) Context() context.Context { return i.life }

// LocalAddr returns the address of this end.
func (i *ID) LocalAddr() Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	return Addr{Space: i.cfg.Space, AddrPort: i.local, Service: i.cfg.Service}
}

// RemoteAddr returns the address of the other end.
func (i *ID) RemoteAddr() Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	return Addr{Space: i.cfg.Space, AddrPort: i.remote, Service: i.cfg.Service}
}

// Source returns the port and GID that ResolveAddr, Bind to an address, or the request chose.
func (i *ID) Source() resolve.Source {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.src
}

// Path returns the path of ResolveRoute, SetPath or the request.
func (i *ID) Path() cm.Path {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.path
}

// placed returns the port of the ID. It fails if no port is chosen yet.
func (i *ID) placed(verb string) (resolve.Source, error) {
	s := i.Source()
	if s.Port.Num == 0 {
		return s, failure.InvalidState("ID."+verb, "no HCA is chosen yet: Bind to an address, or ResolveAddr")
	}
	return s, nil
}

// CA returns the Manager's open of the ID's HCA: see Manager.Device. Status: InvalidState (no HCA is chosen yet).
func (i *ID) CA() (*accesslayer.CA, error) {
	s, err := i.placed("CA")
	if err != nil {
		return nil, err
	}
	ca, _, err := i.m.Device(s.Port.CA)
	return ca, err
}

// PD returns the PD that IDs on the HCA share. Status: as CA.
func (i *ID) PD() (*accesslayer.PD, error) {
	s, err := i.placed("PD")
	if err != nil {
		return nil, err
	}
	_, pd, err := i.m.Device(s.Port.CA)
	return pd, err
}

// QP returns the QP of the ID, nil if it has none.
func (i *ID) QP() ci.QP {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.qp
}

// SendCQ returns the CQ that CreateQP created for sends, or nil; with QPConfig.OneCQ it is the same as RecvCQ.
func (i *ID) SendCQ() *accesslayer.CQ {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made == nil {
		return nil
	}
	return i.made.sendCQ
}

// RecvCQ returns the CQ that CreateQP created for receives, or nil.
func (i *ID) RecvCQ() *accesslayer.CQ {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made == nil {
		return nil
	}
	return i.made.recvCQ
}

// Conn returns the connection of the connection manager, nil before Connect and for datagrams. It has alternate paths,
// communication IDs and states.
func (i *ID) Conn() cm.Conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.conn
}

// Request returns the parameters of the peer's request, of an ID that came from a listener; nil of others. It is read
// only.
func (i *ID) Request() *RequestParam { return i.request }

// Peer returns the peer of a datagram ID after Connect. Of a request for datagrams only the address is set.
func (i *ID) Peer() Peer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.peer
}

// Reply returns the private data with which the peer accepted, AcceptLen or AnswerLen bytes, nil before. It is read
// only.
func (i *ID) Reply() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reply
}

// Peer is a destination of datagrams. AV describes the address vector.
type Peer struct {
	AV   ci.AVAttr
	QPN  ci.QPN
	QKey ci.QKey
}

// RequestParam contains the parameters of a peer's request.
type RequestParam struct {
	Private []byte // ConnectLen bytes; LookupLen of datagrams, NativeLen and NativeUDLen with IDConfig.Service
	// ResponderResources is the number of READs and atomics that the peer answers at a time, InitiatorDepth the number
	// that it sends at a time.
	ResponderResources, InitiatorDepth uint8
	Retries, RNRRetries                uint8
	FlowControl, SRQ                   bool
	QPN                                ci.QPN    // of the peer; 0 of datagrams
	Type                               ci.QPType // the service of the peer's QP
}
