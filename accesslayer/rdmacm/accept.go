package rdmacm

import (
	"context"
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// Accept agrees to a request, and returns when the connection is established. Receives should be posted before. For datagrams it tells
// the peer the QP. Without a QP of the ID's, ConnParam.QP describes one that is in RTR (UD: RTS) already; it goes to RTS afterwards.
// Errors: as of Connect; ErrQPFailed, which ID.Err says as well: the peer may send before its RTU is here, and what it sent was bad.
func (i *ID) Accept(ctx context.Context, cfg ConnParam) error {
	_, err := i.enter("Accept", accepting, requested)
	if err != nil {
		return i.fail("accept", err)
	}
	ctx, cancel := i.during(ctx)
	defer cancel()
	if i.typ == ci.UD {
		err = i.acceptDatagram(&cfg)
	} else {
		err = i.accept(ctx, &cfg)
	}
	if err != nil {
		i.leave(requested) // what was wrong with cfg can be corrected; all else shows again
	} else {
		i.leave(established)
		i.watchPeer()
	}
	return i.fail("accept", err)
}

func (i *ID) accept(ctx context.Context, cfg *ConnParam) error {
	t, err := i.terms("ID.Accept", cfg)
	if err != nil {
		return err
	}
	if len(cfg.Private) > AcceptLen {
		return invalid("ID.Accept", "%d bytes of private data, there is room for %d", len(cfg.Private), AcceptLen)
	}
	// Neither end does more READs than the other can take, so that the QPs agree (12.7.29, 12.7.30).
	t.resources, t.depth = min(t.resources, i.request.InitiatorDepth), min(t.depth, i.request.ResponderResources)
	cut := func(a *ci.QPAttr) { a.RespRes, a.InitDepth = t.resources, t.depth }
	c, own := i.Conn(), i.QP() != nil
	if own {
		if err := i.move(c, func(a *ci.QPAttr) { cut(a); a.RQPSN, a.MinRNRTimer = t.qp.StartPSN, cfg.MinRNRTimer }, ci.QPRTR); err != nil {
			_ = c.Reject(mad.RejNoResources, nil, nil)
			return err
		}
	}
	err = c.Accept(ctx, cm.AcceptConfig{QP: t.qp, Private: cfg.Private, ResponderResources: t.resources, InitiatorDepth: t.depth,
		RNRRetry: t.rnrRetries, FlowControl: cfg.FlowControl, OnEvent: i.onEvent})
	if err != nil || !own {
		return err
	}
	if err = i.move(c, cut, ci.QPRTS); err == nil {
		return nil
	}
	if attr, bad := i.QP().Query(); bad == nil && attr.State == ci.QPError {
		// Not the step is to blame: the QP was in Error before. Either the connection has ended and took it there, or the QP did so of itself, by a
		// request that came before the RTU (IBTA volume 1, 9.9.3: a fatal NAK takes the responder to Error).
		err = ErrQPFailed
		i.end(err)
	}
	if why := i.Err(); why != nil && !errors.Is(why, ErrQPFailed) { // the peer came and went in one moment
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
	if len(cfg.Private) > AnswerLen {
		return invalid("ID.Accept", "%d bytes of private data, there is room for %d", len(cfg.Private), AnswerLen)
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

// Reject refuses a request. private goes to the peer's application (REJ, reason consumer; SIDR: rejected), up to RejectLen bytes, of
// datagrams AnswerLen.
func (i *ID) Reject(private []byte) error {
	_, err := i.enter("Reject", rejected, requested)
	if err != nil {
		return i.fail("reject", err)
	}
	room := RejectLen
	if i.lookup != nil {
		room = AnswerLen
	}
	switch {
	case len(private) > room:
		err = invalid("ID.Reject", "%d bytes of private data, there is room for %d", len(private), room)
	case i.lookup != nil:
		err = i.lookup.Reject(mad.SIDRRejected, nil, private)
	default:
		err = i.Conn().Reject(mad.RejConsumer, nil, private)
	}
	if err != nil {
		i.leave(requested)
	}
	return i.fail("reject", err)
}

// delay is what Delay asks for: 69 s.
const delay mad.TimeExp = 24

// Delay tells the peer that the answer takes time, up to 69 s if its manager agrees: Accept or Reject within that (MRA). It may be repeated.
// Status: InvalidState (no request, or one for datagrams).
func (i *ID) Delay() error {
	i.mu.Lock()
	s, c := i.state, i.conn
	i.mu.Unlock()
	if s != requested || c == nil {
		return i.fail("delay", invalidState("ID.Delay", "the ID is in the state: %v", s))
	}
	return i.fail("delay", c.Delay(delay, nil))
}

// Notify tells that the peer's first message has come on a QP that is not the ID's (ci.EventQPComm), which establishes a connection whose RTU was
// lost. For QPs that CreateQP made it is done. Status: InvalidState.
func (i *ID) Notify() error {
	c := i.Conn()
	if c == nil {
		return i.fail("notify", invalidState("ID.Notify", "there is no connection"))
	}
	return i.fail("notify", c.Established())
}
