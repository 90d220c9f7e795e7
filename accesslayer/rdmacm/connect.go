package rdmacm

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// terms are a ConnParam with everything filled in.
type terms struct {
	qp                  cm.QP
	resources, depth    uint8
	retries, rnrRetries uint8
}

// defaultReads is how many READs and atomics there may be at a time if the application has no opinion.
const defaultReads = 16

func (i *ID) terms(verb string, cfg *ConnParam) (t terms, err error) {
	qp := i.QP()
	switch {
	case qp != nil && cfg.QP != nil:
		return t, invalid(verb, "the ID has a QP, and ConnParam.QP describes another one")
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
	case i.typ == ci.UD && i.request == nil: // who asks needs none yet
	default:
		return t, invalidState(verb, "there is no QP: CreateQP, UseQP or ConnParam.QP")
	}
	a, err := i.m.al.Adapter(i.Source().Port.CA)
	if err != nil {
		return t, err
	}
	attr := a.Attr()
	if i.typ == ci.RC {
		if t.resources, err = number(verb, "ResponderResources", cfg.ResponderResources, min(defaultReads, attr.MaxRespResPerQP), min(255, attr.MaxRespResPerQP)); err != nil {
			return t, err
		}
		if t.depth, err = number(verb, "InitiatorDepth", cfg.InitiatorDepth, min(defaultReads, attr.MaxInitDepthPerQP), min(255, attr.MaxInitDepthPerQP)); err != nil {
			return t, err
		}
	}
	if t.retries, err = number(verb, "Retries", cfg.Retries, 7, 7); err != nil {
		return t, err
	}
	t.rnrRetries, err = number(verb, "RNRRetries", cfg.RNRRetries, 7, 7)
	return t, err
}

// number is a setting of a ConnParam: 0 stands for the usual value, negative ones for 0.
func number(verb, name string, n, usual, most int) (uint8, error) {
	switch {
	case n > most:
		return 0, invalid(verb, "%s is %d, at most %d", name, n, most)
	case n < 0:
		return 0, nil
	case n == 0:
		return uint8(usual), nil
	}
	return uint8(n), nil
}

// Connect asks the peer, and returns when the connection is established; without a QP of the ID's, when the peer has agreed: move the QP, then
// Establish. For datagrams it asks for the peer's QP: see Peer. After an error it may be called again.
// Errors: *cm.RejectError, *cm.LookupError, cm.ErrTimeout, the context's; errors of moving the QP: the peer was told, and the QP is in
// Error or not usable any more.
func (i *ID) Connect(ctx context.Context, cfg ConnParam) error {
	const verb = "Connect"
	_, err := i.enter(verb, connecting, routeResolved)
	if err != nil {
		return i.fail("connect", err)
	}
	var to state
	ctx, cancel := i.during(ctx)
	defer cancel()
	if i.typ == ci.UD {
		to, err = established, i.connectDatagram(ctx, &cfg)
	} else {
		to, err = i.connect(ctx, &cfg)
	}
	if err != nil {
		to = routeResolved
	}
	i.leave(to)
	if to == established {
		i.watchPeer()
	}
	return i.fail("connect", err)
}

func (i *ID) connect(ctx context.Context, cfg *ConnParam) (state, error) {
	const verb = "ID.Connect"
	t, err := i.terms(verb, cfg)
	if err != nil {
		return 0, err
	}
	local, remote := i.LocalAddr(), i.RemoteAddr()
	private, err := i.cfg.privateData(local.AddrPort, remote.Addr(), cfg.Private, false)
	if err != nil {
		return 0, err
	}
	c, err := i.m.cm.Connect(ctx, cm.ConnectConfig{
		Service: i.cfg.serviceID(remote.Port()), QP: t.qp, Primary: i.Path(), Private: private,
		ResponderResources: t.resources, InitiatorDepth: t.depth, RetryCount: t.retries, RNRRetry: t.rnrRetries,
		FlowControl: cfg.FlowControl, OnEvent: i.onEvent,
	})
	if err != nil {
		return 0, err
	}
	rep := c.Reply()
	i.mu.Lock()
	i.conn = c
	if rep != nil {
		i.reply = rep.PrivateData[:]
	}
	gone := i.state == closed
	i.mu.Unlock()
	if gone { // Close did not see it
		return 0, joinClosed(c)
	}
	if i.QP() == nil {
		return replied, nil
	}
	if err := i.move(c, func(a *ci.QPAttr) { a.MinRNRTimer = cfg.MinRNRTimer }, ci.QPRTR, ci.QPRTS); err != nil {
		_ = c.Reject(mad.RejNoResources, nil, nil) // the peer's wait is all there is to end
		i.forgetConn(c)
		return 0, err
	}
	if err := c.Confirm(nil); err != nil {
		i.forgetConn(c)
		return 0, err
	}
	return established, nil
}

// forgetConn is for a connection that did not come about.
func (i *ID) forgetConn(c cm.Conn) {
	_ = c.Close()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conn, i.reply = nil, nil
}

// Establish ends a Connect without a QP of the ID's, when the QP is in RTS: RTU is sent. Status: InvalidState.
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

func (i *ID) connectDatagram(ctx context.Context, cfg *ConnParam) error {
	local, remote := i.LocalAddr(), i.RemoteAddr()
	private, err := i.cfg.privateData(local.AddrPort, remote.Addr(), cfg.Private, true)
	if err != nil {
		return err
	}
	path := i.Path()
	r, err := i.m.cm.Lookup(ctx, cm.LookupConfig{Service: i.cfg.serviceID(remote.Port()), Path: path, Private: private})
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.peer = Peer{AV: path.AV, QPN: r.QPN, QKey: r.QKey}
	i.reply = r.Private
	return nil
}
