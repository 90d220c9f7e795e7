package cmid

import (
	"context"
	"errors"
	"net"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/mad"
)

// terms are the values of a ConnParam, with the defaults filled in.
type terms struct {
	qp                  cm.QP
	resources, depth    uint8
	retries, rnrRetries uint8
}

// defaultReads is the default number of READs and atomics in flight.
const defaultReads = 16

func (i *ID) terms(verb string, cfg *ConnParam) (t terms, err error) {
	qp := i.QP()
	switch {
	case qp != nil && cfg.QP != nil:
		return t, failure.Invalid(verb, "the ID has a QP, and ConnParam.QP describes another one")
	case qp != nil:
		t.qp = cm.QP{Num: qp.Num(), Type: i.typ}
		attr, err := qp.Query()
		if err != nil {
			return t, err
		}
		t.qp.SRQ = attr.SRQ != nil
		t.qp.StartPSN = i.psn()
	case cfg.QP != nil:
		t.qp = *cfg.QP
		t.qp.Type = i.typ
	case i.typ == ci.UD && i.request == nil: // the sender of a lookup needs no QP yet
	default:
		return t, failure.InvalidState(verb, "there is no QP: CreateQP, UseQP or ConnParam.QP")
	}
	a, err := i.m.al.Adapter(i.Source().Port.CA)
	if err != nil {
		return t, err
	}
	if i.typ == ci.RC {
		attr := a.Attr()
		t.resources, err = readLimit(verb, "ResponderResources", cfg.ResponderResources, attr.MaxRespResPerQP)
		if err != nil {
			return t, err
		}
		t.depth, err = readLimit(verb, "InitiatorDepth", cfg.InitiatorDepth, attr.MaxInitDepthPerQP)
		if err != nil {
			return t, err
		}
	}
	if t.retries, err = number(verb, "Retries", cfg.Retries, 7, 7); err != nil {
		return t, err
	}
	t.rnrRetries, err = number(verb, "RNRRetries", cfg.RNRRetries, 7, 7)
	return t, err
}

// readLimit returns a limit of READs and atomics, of which the HCA supports up to supported.
func readLimit(verb, name string, n, supported int) (uint8, error) {
	return number(verb, name, n, min(defaultReads, supported), min(255, supported))
}

// number returns a setting of a ConnParam: 0 stands for the default, a negative one for 0.
func number(verb, name string, n, usual, limit int) (uint8, error) {
	switch {
	case n > limit:
		return 0, failure.Invalid(verb, "%s is %d, want at most %d", name, n, limit)
	case n < 0:
		return 0, nil
	case n == 0:
		return uint8(usual), nil
	}
	return uint8(n), nil
}

// Connect sends a request to the peer, and returns when the connection is established. If the ID has no QP, it returns
// when the peer has accepted: move the QP, then call Establish. For datagrams it looks up the peer's QP: see Peer.
// After an error it may be called again.
// Errors: *cm.RejectError, *cm.LookupError, cm.ErrTimeout, the context's; errors of moving the QP: the peer is
// informed, and the QP is in Error or cannot be used any more.
func (i *ID) Connect(ctx context.Context, cfg ConnParam) error {
	err := i.await(ctx, opConnect, func(report func(Event)) (*step, error) { return i.connect(&cfg, report) })
	return err
}

// StartConnect starts Connect. The result is one event: EventEstablished, EventConnectResponse if the ID has no QP,
// EventRejected, EventUnreachable, or EventConnectError. The private data is that of the peer's reply.
// Errors: InvalidState, InvalidParameter; then there is no event.
func (i *ID) StartConnect(cfg ConnParam) error {
	_, err := i.connect(&cfg, i.push)
	return err
}

func (i *ID) connect(cfg *ConnParam, report func(Event)) (*step, error) {
	if _, err := i.enter("Connect", connecting, routeResolved); err != nil {
		return nil, i.fail(opConnect, err)
	}
	s := i.newStep(opConnect, 0, report)
	var err error
	if i.typ == ci.UD {
		err = i.startLookup(s, cfg)
	} else {
		err = i.startConnect(s, cfg)
	}
	if err != nil {
		err = s.fail(err)
		s.release()
		i.leave(routeResolved)
		return nil, err
	}
	return s, nil
}

func (i *ID) startConnect(s *step, cfg *ConnParam) error {
	t, err := i.terms("ID.Connect", cfg)
	if err != nil {
		return err
	}
	local, remote := i.LocalAddr(), i.RemoteAddr()
	private, err := i.cfg.privateData(local.AddrPort, remote.Addr(), cfg.Private, false)
	if err != nil {
		return err
	}
	request := cm.ConnectConfig{
		Service: i.cfg.serviceID(remote.Port()), QP: t.qp, Primary: i.Path(), Private: private,
		ResponderResources: t.resources, InitiatorDepth: t.depth, RetryCount: t.retries, RNRRetry: t.rnrRetries,
		FlowControl: cfg.FlowControl, OnEvent: i.onEvent,
	}
	return i.m.cm.StartConnect(s.ctx, request, func(c cm.Conn, err error) { i.connected(s, c, err, cfg.MinRNRTimer) })
}

// connected receives the result of a request. Events of the connection follow after it returns.
func (i *ID) connected(s *step, c cm.Conn, err error, minRNRTimer uint8) {
	if !s.claim() {
		return
	}
	to := routeResolved
	if err == nil {
		to, err = i.takeReply(c, minRNRTimer)
	}
	switch {
	case err != nil:
		i.forgetPath(err)
		s.finish(routeResolved, connectFailure(err))
	case to == replied:
		s.finish(to, Event{Type: EventConnectResponse, Private: i.Reply()})
	default:
		s.finish(to, Event{Type: EventEstablished, Private: i.Reply()})
	}
}

// takeReply completes a connection that the peer has accepted.
func (i *ID) takeReply(c cm.Conn, minRNRTimer uint8) (state, error) {
	rep := c.Reply()
	i.mu.Lock()
	i.conn = c
	if rep != nil {
		i.reply = rep.PrivateData[:]
	}
	isClosed := i.state == closed
	i.mu.Unlock()
	if isClosed { // Close did not find the connection
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	if i.QP() == nil {
		return replied, nil
	}
	if err := i.move(c, func(a *ci.QPAttr) { a.MinRNRTimer = minRNRTimer }, ci.QPRTR, ci.QPRTS); err != nil {
		_ = c.Reject(mad.RejNoResources, nil, nil) // an error means that the peer does not wait any more
		i.forgetConn(c)
		return 0, err
	}
	if err := c.Confirm(nil); err != nil {
		i.forgetConn(c)
		return 0, err
	}
	return established, nil
}

// forgetConn closes a connection that was not established.
func (i *ID) forgetConn(c cm.Conn) {
	_ = c.Close()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conn, i.reply = nil, nil
}

// Establish completes a Connect of an ID without a QP, when the caller's QP is in RTS: it sends RTU. It does not block
// and has no event. Status: InvalidState.
func (i *ID) Establish() error {
	_, err := i.enter("Establish", connecting, replied)
	if err != nil {
		return i.fail("establish", err)
	}
	to := replied
	if err = i.Conn().Confirm(nil); err == nil {
		to = established
	}
	i.leave(to)
	return i.fail("establish", err)
}

// startLookup is startConnect for datagrams.
func (i *ID) startLookup(s *step, cfg *ConnParam) error {
	local, remote := i.LocalAddr(), i.RemoteAddr()
	private, err := i.cfg.privateData(local.AddrPort, remote.Addr(), cfg.Private, true)
	if err != nil {
		return err
	}
	path := i.Path()
	request := cm.LookupConfig{Service: i.cfg.serviceID(remote.Port()), Path: path, Private: private}
	return i.m.cm.StartLookup(s.ctx, request, func(r *cm.LookupReply, err error) {
		if !s.claim() {
			return
		}
		if err != nil {
			i.forgetPath(err)
			s.finish(routeResolved, connectFailure(err))
			return
		}
		i.mu.Lock()
		i.peer = Peer{AV: path.AV, QPN: r.QPN, QKey: r.QKey}
		i.reply = r.Private
		i.mu.Unlock()
		s.finish(established, Event{Type: EventEstablished, Private: r.Private})
	})
}

// forgetPath makes the resolver drop the paths to a peer that has not answered: it may have another LID now.
func (i *ID) forgetPath(err error) {
	f, ok := i.m.resolver.(resolve.Forgetter)
	if !ok || !errors.Is(err, cm.ErrTimeout) {
		return
	}
	i.mu.Lock()
	port, remote := i.src.Port, i.remote.Addr()
	i.mu.Unlock()
	f.Forget(port, remote)
}
