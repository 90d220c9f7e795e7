package rdmacm

import (
	"context"
	"errors"
	"net"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// onEvent gets the events of the ID's connection, one at a time, on a goroutine of the connection manager.
func (i *ID) onEvent(c cm.Conn, e cm.Event) {
	switch e.Type {
	case cm.EventEstablished:
		i.events.push(Event{Type: EventEstablished, Private: e.Private})
	case cm.EventDelayed:
		i.events.push(Event{Type: EventDelayed, Private: e.Private})
	case cm.EventAlternate:
		i.events.push(Event{Type: EventAlternate, Private: e.Private, CM: &e})
	case cm.EventTimeWaitExit:
		i.events.push(Event{Type: EventTimeWaitExit})
	case cm.EventDisconnect:
		i.end(ErrPeerDisconnected)
		if i.QP() != nil { // in Error; a QP of the caller's is not yet: Disconnect answers
			_ = c.AnswerDisconnect(nil) // if not, the manager does in time
		}
		i.tell(e.Private, ErrPeerDisconnected)
	case cm.EventDisconnected:
		i.end(ErrDisconnected)
		i.tell(e.Private, errors.Join(i.Err(), e.Err))
	case cm.EventRejected:
		i.end(e.Err)
		i.events.push(Event{Type: EventRejected, Private: e.Private, Err: e.Err})
	case cm.EventUnreachable:
		i.end(e.Err)
		i.events.push(Event{Type: EventUnreachable, Err: e.Err})
	}
}

// tell queues EventDisconnected, once.
func (i *ID) tell(private []byte, err error) {
	i.mu.Lock()
	was := i.told
	i.told = true
	i.mu.Unlock()
	if !was {
		i.events.push(Event{Type: EventDisconnected, Private: private, Err: err})
	}
}

// end is the end of the connection, whoever brought it about; the first one says why. The ID's QP goes to Error, which flushes its work, and
// rests for the time-wait. Who sees a flushed completion must be able to learn the cause, so that is there first.
func (i *ID) end(err error) {
	if err == nil {
		err = context.Canceled // an end without a cause is an end
	}
	err = ended(err)
	i.mu.Lock()
	was := i.why != nil
	if !was {
		i.why = err
	}
	qp, c, alive := i.qp, i.conn, i.alive
	i.mu.Unlock()
	if was {
		return
	}
	alive.stop()
	if qp != nil && c != nil {
		_ = qp.Modify(ci.ToError()) // it may be destroyed
		qp.TimeWait(c.TimeWait())
	}
	i.finish(err)
}

// abort ends a connection whose QP has failed: the peer is told, and not waited for. After the end it does nothing.
func (i *ID) abort(cause error) {
	if i.Err() != nil {
		return
	}
	i.end(cause)
	i.tell(nil, i.Err())
	if c := i.Conn(); c != nil {
		_ = c.Close() // it returns no error
	}
}

// removed is the end of the HCA with a GUID.
func (i *ID) removed(guid ci.GUID) {
	i.mu.Lock()
	hit, c := i.src.Port.CA == guid && i.state != listening && i.state != closed, i.conn
	i.mu.Unlock()
	if !hit {
		return
	}
	i.end(ErrDeviceRemoved)
	i.events.push(Event{Type: EventDeviceRemoved, Err: ErrDeviceRemoved})
	i.cancel(ErrDeviceRemoved) // steps have nothing to wait for
	if c != nil {
		_ = c.Close()
	}
}

// Disconnect ends the connection: the QP goes to Error, and the peer is told. It returns when the peer has answered; without an answer
// the connection is over as well, and the error is cm.ErrTimeout. When the context ends, the manager goes on asking. The peer may have been
// first: then it is answered, and that is no error. A second one returns at once. Datagrams have nothing to end.
func (i *ID) Disconnect(ctx context.Context) error {
	i.mu.Lock()
	s, c, over := i.state, i.conn, i.why != nil
	i.mu.Unlock()
	switch {
	case s == closed || i.typ == ci.UD && s == established:
		return nil
	case s != established && s != replied || c == nil:
		return i.fail("disconnect", invalidState("ID.Disconnect", "the ID is in the state: %v", s))
	case over:
		if c.State() == cm.StateDREQRcvd {
			return i.fail("disconnect", c.AnswerDisconnect(nil))
		}
		return nil
	}
	i.end(ErrDisconnected)
	if s == replied { // not established: there is nothing yet that a DREQ could end
		return i.fail("disconnect", c.Reject(mad.RejConsumer, nil, nil))
	}
	ctx, cancel := i.during(ctx)
	defer cancel()
	_, err := c.Disconnect(ctx, nil)
	if errors.Is(err, ci.InvalidState) && c.State() >= cm.StateDREQRcvd { // both at the same time
		err = nil
	}
	return i.fail("disconnect", err)
}

// Close disconnects or refuses, without waiting for the peer, leaves groups, destroys what the ID made, and frees its port. It is idempotent.
// Not from a callback.
func (i *ID) Close() error {
	i.closing.Do(func() { i.closeErr = i.close() })
	return i.closeErr
}

func (i *ID) close() error {
	i.mu.Lock()
	was := i.state
	i.state = closed
	c, ln, lookup, made, b := i.conn, i.listener, i.lookup, i.made, i.binding
	var groups []*Group
	for g := range i.groups {
		groups = append(groups, g)
	}
	i.mu.Unlock()
	i.cancel(net.ErrClosed)
	var errs []error
	if ln != nil {
		errs = append(errs, ln.l.Close())
	}
	for _, g := range groups {
		errs = append(errs, g.drop())
	}
	why := ErrDisconnected
	if was != established {
		why = net.ErrClosed
	}
	i.end(why)
	if c != nil {
		errs = append(errs, c.Close())
	}
	if lookup != nil && (was == requested || was == accepting) {
		_ = lookup.Reject(mad.SIDRNoQP, nil, nil) // it may have been answered
	}
	if made != nil {
		errs = append(errs, made.close())
	}
	i.m.ports.release(b)
	i.m.forget(i)
	i.events.close()
	return errors.Join(errs...)
}
