package kernelcm

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// Service is the connection manager of the kernel. It implements cm.Service. All methods may be called concurrently.
type Service struct {
	d  *device
	al *accesslayer.AL

	mu       sync.Mutex
	closed   bool
	bindings []*binding
	open     map[closer]struct{}
}

// closer is a connection, a listener, or a lookup.
type closer interface{ Close() error }

var _ cm.Service = (*Service)(nil)

// New opens the connection manager of the kernel, for devices that an access layer has. Errors: those of opening the
// device file, and what to do.
func New(al *accesslayer.AL) (*Service, error) {
	if al == nil {
		return nil, &ci.Error{Verb: "kernelcm.New", Status: ci.InvalidParameter, Detail: "an access layer is needed"}
	}
	d, err := openDevice()
	if err != nil {
		return nil, fmt.Errorf("kernelcm: %w", err)
	}
	return &Service{d: d, al: al, open: map[closer]struct{}{}}, nil
}

// Ports returns the ports of the machine's port spaces, which all processes of a network namespace share.
func (s *Service) Ports() cmid.Ports { return ports{s} }

// Resolver returns what finds devices and paths by the routes of the kernel.
func (s *Service) Resolver() resolve.Resolver { return resolver{s} }

// Close implements cm.Service.
func (s *Service) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	if closed {
		return nil
	}
	for _, c := range open {
		_ = c.Close() // it returns no error
	}
	return s.d.close()
}

// add adds what Close closes.
func (s *Service) add(verb string, c closer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return closedError(verb)
	}
	s.open[c] = struct{}{}
	return nil
}

func (s *Service) remove(c closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func closedError(verb string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Err: cm.ErrClosed}
}

func unsupported(verb, what string) error {
	return &ci.Error{Verb: verb, Status: ci.Unsupported,
		Detail: "the kernel's connection manager does not offer " + what}
}

// wait makes the blocking form of a step.
func wait[T any](start func(done func(T, error)) error) (T, error) {
	type result struct {
		t   T
		err error
	}
	c := make(chan result, 1)
	if err := start(func(t T, err error) { c <- result{t, err} }); err != nil {
		var none T
		return none, err
	}
	r := <-c
	return r.t, r.err
}

// Connect implements cm.Service.
func (s *Service) Connect(ctx context.Context, cfg cm.ConnectConfig) (cm.Conn, error) {
	return wait(func(done func(cm.Conn, error)) error {
		return s.connect(ctx, "Service.Connect", cfg, func(_ *conn, f func()) { f() }, done)
	})
}

// StartConnect implements cm.Service.
func (s *Service) StartConnect(ctx context.Context, cfg cm.ConnectConfig, done func(cm.Conn, error)) error {
	return s.connect(ctx, "Service.StartConnect", cfg, func(c *conn, f func()) { c.events.Deliver(f) }, done)
}

// connect resolves the address of the peer, which the IP header of the request names, and sends the request. The
// kernel makes the header itself.
func (s *Service) connect(ctx context.Context, verb string, cfg cm.ConnectConfig, deliver func(*conn, func()),
	done func(cm.Conn, error)) error {
	switch {
	case cfg.Alternate != nil:
		return unsupported(verb, "alternate paths")
	case cfg.Peer:
		return unsupported(verb, "peer-to-peer requests")
	case cfg.QP.Type != ci.RC:
		return unsupported(verb, fmt.Sprintf("QPs of type %v", cfg.QP.Type))
	}
	c := &conn{s: s, state: cm.StateREQSent}
	c.events.Init(c, cfg.OnEvent)
	d := &dial{s: s, verb: verb, answer: abi.EventConnectResponse, later: c.event, param: abi.ConnParam{
		QPNum: uint32(cfg.QP.Num), SRQ: flag(cfg.QP.SRQ), ResponderResources: cfg.ResponderResources,
		InitiatorDepth: cfg.InitiatorDepth, FlowControl: flag(cfg.FlowControl), RetryCount: cfg.RetryCount,
		RNRRetryCount: cfg.RNRRetry}}
	d.done = func(e *abi.EventResp, err error) {
		if err == nil {
			err = c.replied(d.x, &cfg, e)
		}
		deliver(c, func() {
			if err != nil {
				_ = c.Close() // it returns no error
				done(nil, err)
				return
			}
			done(c, nil)
		})
	}
	return d.start(ctx, cfg.Service, cfg.Private)
}

// Lookup implements cm.Service.
func (s *Service) Lookup(ctx context.Context, cfg cm.LookupConfig) (*cm.LookupReply, error) {
	return wait(func(done func(*cm.LookupReply, error)) error { return s.lookup(ctx, "Service.Lookup", cfg, done) })
}

// StartLookup implements cm.Service.
func (s *Service) StartLookup(ctx context.Context, cfg cm.LookupConfig, done func(*cm.LookupReply, error)) error {
	return s.lookup(ctx, "Service.StartLookup", cfg, func(r *cm.LookupReply, err error) { go done(r, err) })
}

func (s *Service) lookup(ctx context.Context, verb string, cfg cm.LookupConfig,
	done func(*cm.LookupReply, error)) error {
	d := &dial{s: s, verb: verb, answer: abi.EventEstablished}
	d.done = func(e *abi.EventResp, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		var p abi.UDParam
		_, _ = binary.Decode(e.Param[:], ne, &p) // it has room
		_ = d.x.setHandle(nil)                   // the port remains bound
		done(&cm.LookupReply{QPN: ci.QPN(p.QPNum), QKey: ci.QKey(p.QKey),
			Private: padded(p.PrivateData[:], p.PrivateDataLen, mad.SIDRREPPrivateLen),
			From:    mads.Address{AV: p.AH.AV(), QPN: 1}}, nil)
	}
	return d.start(ctx, cfg.Service, cfg.Private)
}

// checkPrivate returns an error if private data is longer than a message carries.
func checkPrivate(verb string, private []byte, limit int) error {
	if len(private) > limit {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter,
			Detail: fmt.Sprintf("the private data has %d bytes, the limit is %d", len(private), limit)}
	}
	return nil
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// padded returns private data with the length that it has in a message.
func padded(b []byte, n uint8, length int) []byte {
	p := make([]byte, length)
	copy(p, b[:min(int(n), len(b))])
	return p
}
