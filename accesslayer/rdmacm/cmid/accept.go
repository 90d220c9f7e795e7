package cmid

import (
	"context"
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
	"ciddk/mad"
)

// Accept accepts a request, and returns when the connection is established. Receives should be posted before. For
// datagrams it sends the QP to the peer. If the ID has no QP, ConnParam.QP describes one that is in RTR (UD: RTS); the
// caller moves it to RTS afterwards. A request with an invalid ConnParam may be accepted again.
// Errors: as of Connect; ErrQPFailed, which ID.Err returns as well: the peer may send before its RTU arrives, and an
// invalid request of the peer took the QP to Error.
func (i *ID) Accept(ctx context.Context, cfg ConnParam) error {
	err := i.await(ctx, opAccept, func(report func(Event)) (*step, error) { return i.accept(&cfg, report) })
	return err
}

// StartAccept starts Accept. The result is one event: EventEstablished, EventRejected, EventUnreachable, or
// EventConnectError. For datagrams there is no event: the step is complete when StartAccept returns.
// Errors: those of the ID's state, of cfg and of the QP; then there is no event.
func (i *ID) StartAccept(cfg ConnParam) error {
	_, err := i.accept(&cfg, i.push)
	return err
}

func (i *ID) accept(cfg *ConnParam, report func(Event)) (*step, error) {
	if _, err := i.enter("Accept", accepting, requested); err != nil {
		return nil, i.fail(opAccept, err)
	}
	if i.typ == ci.UD {
		err := i.acceptDatagram(cfg)
		if err == nil {
			i.leave(established)
		} else {
			i.leave(requested)
		}
		return nil, i.fail(opAccept, err)
	}
	s := i.newStep(opAccept, 0, report)
	if err := i.startAccept(s, cfg); err != nil {
		err = s.fail(err)
		s.release()
		i.leave(requested)
		return nil, err
	}
	return s, nil
}

func (i *ID) startAccept(s *step, cfg *ConnParam) error {
	t, err := i.terms("ID.Accept", cfg)
	if err != nil {
		return err
	}
	if err := checkPrivate("ID.Accept", cfg.Private, AcceptLen); err != nil {
		return err
	}
	// Neither end starts more READs than the other one answers, so that the QPs agree (12.7.29, 12.7.30).
	t.resources = min(t.resources, i.request.InitiatorDepth)
	t.depth = min(t.depth, i.request.ResponderResources)
	c := i.Conn()
	if i.QP() != nil {
		t.qp.StartPSN = 0 // that of the service, which QPAttr returns
		toRTR := func(a *ci.QPAttr) {
			t.cut(a)
			a.MinRNRTimer = cfg.MinRNRTimer
		}
		if err := i.move(c, toRTR, ci.QPRTR); err != nil {
			_ = c.Reject(mad.RejNoResources, nil, nil)
			return err
		}
	}
	reply := cm.AcceptConfig{QP: t.qp, Private: cfg.Private, ResponderResources: t.resources, InitiatorDepth: t.depth,
		RNRRetry: t.rnrRetries, FlowControl: cfg.FlowControl, OnEvent: i.onEvent}
	return c.StartAccept(s.ctx, reply, func(err error) { i.accepted(s, c, t, err) })
}

// cut limits the READs of a QP to the numbers that both ends agreed on.
func (t *terms) cut(a *ci.QPAttr) { a.RespRes, a.InitDepth = t.resources, t.depth }

// accepted receives the result of a reply. Events of the connection follow after it returns.
func (i *ID) accepted(s *step, c cm.Conn, t terms, err error) {
	if !s.claim() {
		return
	}
	if err == nil && i.QP() != nil {
		err = i.toRTS(c, t)
	}
	if err != nil {
		s.finish(requested, connectFailure(err))
		return
	}
	s.finish(established, Event{Type: EventEstablished})
}

// toRTS moves the QP of an accepted connection to RTS.
func (i *ID) toRTS(c cm.Conn, t terms) error {
	err := i.move(c, t.cut, ci.QPRTS)
	if err == nil {
		return nil
	}
	if attr, queryErr := i.QP().Query(); queryErr == nil && attr.State == ci.QPError {
		// The step is not the reason: the QP was in Error before. Either the connection has ended and moved it there,
		// or the QP failed because of a request that arrived before the RTU (IBTA volume 1, 9.9.3: a fatal NAK takes
		// the responder to Error).
		err = ErrQPFailed
		i.end(err)
	}
	if why := i.Err(); why != nil && !errors.Is(why, ErrQPFailed) { // the peer has disconnected already
		return nil
	}
	_ = c.Close()
	return err
}

func (i *ID) acceptDatagram(cfg *ConnParam) error {
	t, err := i.terms("ID.Accept", cfg)
	if err != nil {
		return err
	}
	if err := checkPrivate("ID.Accept", cfg.Private, AnswerLen); err != nil {
		return err
	}
	key := cfg.QKey
	if key == 0 {
		key = QKey
	}
	if qp := i.QP(); qp != nil && key != QKey {
		if err := qp.Modify(ci.QPFieldQKey, ci.QPAttr{QKey: key}); err != nil {
			return err
		}
	}
	return i.lookup.Accept(t.qp.Num, key, cfg.Private)
}

// checkPrivate checks the length of private data.
func checkPrivate(verb string, private []byte, limit int) error {
	if len(private) > limit {
		return failure.Invalid(verb, "the private data has %d bytes, want at most %d", len(private), limit)
	}
	return nil
}

// Reject rejects a request. private goes to the peer's application (REJ, reason consumer; SIDR: rejected), up to
// RejectLen bytes, of datagrams AnswerLen. It does not block and has no event.
func (i *ID) Reject(private []byte) error { return i.RejectFor(mad.RejConsumer, private) }

// RejectFor is Reject with another reason. It also rejects the reply that EventConnectResponse has announced.
func (i *ID) RejectFor(reason mad.RejReason, private []byte) error {
	was, err := i.enter("Reject", rejected, requested, replied)
	if err != nil {
		return i.fail("reject", err)
	}
	limit := RejectLen
	if i.lookup != nil {
		limit = AnswerLen
	}
	switch err = checkPrivate("ID.Reject", private, limit); {
	case err != nil:
	case i.lookup != nil:
		err = i.lookup.Reject(mad.SIDRRejected, nil, private)
	default:
		err = i.Conn().Reject(reason, nil, private)
	}
	if err != nil {
		i.leave(was)
	}
	return i.fail("reject", err)
}

// delay is the time that Delay requests: 69 s.
const delay mad.TimeExp = 24

// Delay requests more time from the peer for Accept or Reject (MRA), up to 69 s if its manager agrees. It may be
// repeated. Status: InvalidState (no request, or a request for datagrams).
func (i *ID) Delay() error {
	i.mu.Lock()
	s, c := i.state, i.conn
	i.mu.Unlock()
	if s != requested || c == nil {
		return i.fail("delay", failure.InvalidState("ID.Delay", "the ID is in the state: %v", s))
	}
	return i.fail("delay", c.Delay(delay, nil))
}

// Notify reports that the peer's first message has arrived on a QP that is not the ID's (ci.EventQPComm). This
// establishes a connection whose RTU was lost. For QPs that CreateQP created, the ID calls Notify itself.
// Status: InvalidState.
func (i *ID) Notify() error {
	c := i.Conn()
	if c == nil {
		return i.fail("notify", failure.InvalidState("ID.Notify", "there is no connection"))
	}
	return i.fail("notify", c.Established())
}
