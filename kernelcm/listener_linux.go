package kernelcm

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// listener implements cm.Listener. Requests wait for acceptors, or acceptors for requests.
type listener struct {
	s   *Service
	x   *kernelID
	cfg cm.ListenConfig

	mu        sync.Mutex
	closed    bool
	requests  []*abi.EventResp
	acceptors []*acceptor
}

var _ cm.Listener = (*listener)(nil)

// acceptor waits for a request.
type acceptor struct {
	stop func() bool
	done func(*abi.EventResp, error)
}

// defaultBacklog is the number of requests that wait, if the program does not say.
const defaultBacklog = 128

// Listen implements cm.Service. The address is that of the port's binding.
func (s *Service) Listen(cfg cm.ListenConfig) (cm.Listener, error) {
	const verb = "Service.Listen"
	if cfg.Mask != 0 && cfg.Mask != ^mad.ServiceID(0) {
		return nil, unsupported(verb, "listeners of several ports")
	}
	if cfg.Backlog <= 0 {
		cfg.Backlog = defaultBacklog
	}
	l := &listener{s: s, cfg: cfg}
	if err := s.add(verb, l); err != nil {
		return nil, err
	}
	var err error
	if l.x, err = s.take(verb, cfg.Service, netip.Addr{}, l.event); err == nil {
		err = s.d.do(abi.CmdListen, &abi.Listen{ID: l.x.num, Backlog: uint32(cfg.Backlog)}, nil)
		if err != nil {
			_ = l.x.setHandle(nil) // the port remains bound
		}
	}
	if err == nil {
		return l, nil
	}
	s.remove(l)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "another program listens on the port", Err: err}
	}
	return nil, err
}

// event receives requests. Above the backlog they are rejected.
func (l *listener) event(e *abi.EventResp) {
	if e.Event != abi.EventConnectRequest {
		return // the removal of a device: others may have the address
	}
	l.mu.Lock()
	switch {
	case l.closed || len(l.acceptors) == 0 && len(l.requests) >= l.cfg.Backlog:
		l.mu.Unlock()
		l.drop(e)
	case len(l.acceptors) == 0:
		l.requests = append(l.requests, e)
		l.mu.Unlock()
	default:
		a := l.acceptors[0]
		l.acceptors = l.acceptors[1:]
		l.mu.Unlock()
		a.stop()
		go a.done(e, nil)
	}
}

// drop rejects a request that nobody has taken.
func (l *listener) drop(e *abi.EventResp) {
	_ = l.s.d.do(abi.CmdDestroyID, &abi.ByID{ID: e.ID}, &abi.EventsResp{}) // an error means that the file is closed
}

// accept calls done with the next request.
func (l *listener) accept(ctx context.Context, verb string, done func(*abi.EventResp, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return closedError(verb)
	}
	if len(l.requests) > 0 {
		e := l.requests[0]
		l.requests = l.requests[1:]
		go done(e, nil)
		return nil
	}
	a := &acceptor{done: done}
	a.stop = context.AfterFunc(ctx, func() {
		if l.removeAcceptor(a) {
			done(nil, ctx.Err())
		}
	})
	l.acceptors = append(l.acceptors, a)
	return nil
}

func (l *listener) removeAcceptor(a *acceptor) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range l.acceptors {
		if o == a {
			l.acceptors = append(l.acceptors[:i:i], l.acceptors[i+1:]...)
			return true
		}
	}
	return false
}

// Close implements cm.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	requests, acceptors := l.requests, l.acceptors
	l.closed, l.requests, l.acceptors = true, nil, nil
	l.mu.Unlock()
	for _, e := range requests {
		l.drop(e)
	}
	l.x.destroy()
	for _, a := range acceptors {
		a.stop()
		a.done(nil, closedError("Listener.Accept"))
	}
	l.s.remove(l)
	return nil
}

// Accept implements cm.Listener.
func (l *listener) Accept(ctx context.Context) (cm.Conn, error) {
	return wait(func(done func(cm.Conn, error)) error { return l.StartAccept(ctx, done) })
}

// StartAccept implements cm.Listener.
func (l *listener) StartAccept(ctx context.Context, done func(cm.Conn, error)) error {
	return l.accept(ctx, "Listener.Accept", func(e *abi.EventResp, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		c, err := l.s.newConn(l.cfg.Service, e)
		switch {
		case err == nil:
			done(c, nil)
		case errors.Is(err, cm.ErrClosed):
			done(nil, err)
		default: // the request has ended meanwhile: wait for the next one
			if err := l.StartAccept(ctx, done); err != nil {
				done(nil, err)
			}
		}
	})
}

// AcceptLookup implements cm.Listener.
func (l *listener) AcceptLookup(ctx context.Context) (cm.LookupRequest, error) {
	return wait(func(done func(cm.LookupRequest, error)) error { return l.StartAcceptLookup(ctx, done) })
}

// StartAcceptLookup implements cm.Listener.
func (l *listener) StartAcceptLookup(ctx context.Context, done func(cm.LookupRequest, error)) error {
	return l.accept(ctx, "Listener.AcceptLookup", func(e *abi.EventResp, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		r, err := l.s.newLookup(l.cfg.Service, e)
		if err == nil {
			done(r, nil)
		} else if err := l.StartAcceptLookup(ctx, done); err != nil {
			done(nil, err)
		}
	})
}

// hopLimit is that of replies, as Linux has it for datagrams.
const hopLimit = 64

// lookup implements cm.LookupRequest.
type lookup struct {
	x       *kernelID
	request mad.SIDRREQ
	path    cm.Path

	answer sync.Once
}

var _ cm.LookupRequest = (*lookup)(nil)

// newLookup returns the request whose event a listener has received.
func (s *Service) newLookup(service mad.ServiceID, e *abi.EventResp) (*lookup, error) {
	r := &lookup{x: s.d.add(nil)}
	r.x.num = e.ID
	if err := r.read(s, service, e); err != nil {
		r.x.destroy()
		return nil, err
	}
	return r, nil
}

// read makes the SIDR_REQ of a request from what the kernel tells of it.
func (r *lookup) read(s *Service, service mad.ServiceID, e *abi.EventResp) error {
	a, err := r.x.addresses()
	if err != nil {
		return err
	}
	port, err := s.port(&a)
	if err != nil {
		return err
	}
	h, err := mad.NewIPCM(a.remote, a.local.Addr())
	if err != nil {
		return err
	}
	var p abi.UDParam
	_, _ = binary.Decode(e.Param[:], ne, &p) // it has room
	r.request = mad.SIDRREQ{PKey: uint16(a.pkey), ServiceID: service}
	h.Put(r.request.PrivateData[:])
	copy(r.request.PrivateData[mad.IPCMLen:], p.PrivateData[:min(int(p.PrivateDataLen), len(p.PrivateData))])
	// The kernel does not tell the path of such a request, only its ends.
	r.path = cm.Path{Port: a.port, PKey: a.pkey, AV: ci.AVAttr{Port: a.port.Num, Global: true,
		GRH: ci.GRH{DGID: a.peer, SGIDIndex: gidIndex(port, a.localGID), HopLimit: hopLimit}}}
	return nil
}

// Request implements cm.LookupRequest.
func (r *lookup) Request() *mad.SIDRREQ { return new(r.request) }

// From implements cm.LookupRequest.
func (r *lookup) From() mads.Address { return mads.Address{AV: r.path.AV, QPN: 1} }

// Path implements cm.LookupRequest.
func (r *lookup) Path() cm.Path { return r.path }

// Accept implements cm.LookupRequest.
func (r *lookup) Accept(qpn ci.QPN, qkey ci.QKey, private []byte) error {
	const verb = "LookupRequest.Accept"
	if err := checkPrivate(verb, private, mad.SIDRREPPrivateLen); err != nil {
		return err
	}
	p := abi.ConnParam{QPNum: uint32(qpn), QKey: uint32(qkey), Valid: 1}
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], private))
	return r.once(verb, abi.CmdAccept, &abi.Accept{UID: r.x.uid, ID: r.x.num, Param: p})
}

// Reject implements cm.LookupRequest. The status that the peer receives is rejected.
func (r *lookup) Reject(_ mad.SIDRStatus, _, private []byte) error {
	const verb = "LookupRequest.Reject"
	if err := checkPrivate(verb, private, mad.SIDRREPPrivateLen); err != nil {
		return err
	}
	q := &abi.Reject{ID: r.x.num}
	q.PrivateDataLen = uint8(copy(q.PrivateData[:], private))
	return r.once(verb, abi.CmdReject, q)
}

// once answers the request, and forgets it.
func (r *lookup) once(verb string, cmd uint32, q any) error {
	err := error(&ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the request was answered"})
	r.answer.Do(func() {
		err = r.x.d.do(cmd, q, nil)
		r.x.destroy()
	})
	return err
}
