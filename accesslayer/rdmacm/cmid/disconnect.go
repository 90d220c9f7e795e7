package cmid

import (
	"context"
	"errors"
	"fmt"
	"net"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
	"ciddk/mad"
)

// onEvent receives the events of the ID's connection, one at a time, on a goroutine of the connection manager.
func (i *ID) onEvent(c cm.Conn, e cm.Event) {
	switch e.Type {
	case cm.EventEstablished:
		i.push(Event{Type: EventReadyToUse, Private: e.Private})
	case cm.EventDelayed:
		i.push(Event{Type: EventDelayed, Private: e.Private})
	case cm.EventAlternate:
		i.push(Event{Type: EventAlternate, Private: e.Private, CM: &e})
	case cm.EventTimeWaitExit:
		i.push(Event{Type: EventTimeWaitExit})
	case cm.EventDisconnect:
		i.end(ErrPeerDisconnected)
		if i.QP() != nil { // in Error now; for a QP of the caller's, Disconnect sends the DREP
			_ = c.AnswerDisconnect(nil) // after an error, the connection manager sends it in time
		}
		i.pushDisconnected(e.Private, ErrPeerDisconnected)
	case cm.EventDisconnected:
		i.end(ErrDisconnected)
		i.pushDisconnected(e.Private, errors.Join(i.Err(), e.Err))
	case cm.EventRejected:
		i.end(e.Err)
		i.push(Event{Type: EventRejected, Private: e.Private, Err: e.Err})
	case cm.EventUnreachable:
		i.end(e.Err)
		i.push(Event{Type: EventUnreachable, Err: e.Err})
	}
}

// pushDisconnected queues EventDisconnected, once.
func (i *ID) pushDisconnected(private []byte, err error) {
	i.mu.Lock()
	before := i.isDisconnected
	i.isDisconnected = true
	i.mu.Unlock()
	if !before {
		i.push(Event{Type: EventDisconnected, Private: private, Err: err})
	}
}

// end ends the connection; the first call sets the reason. The ID's QP goes to Error, which flushes its work, and its
// number is quarantined for the time-wait. The reason is set before work is flushed, so that a program that sees a
// flushed completion can find it.
func (i *ID) end(err error) {
	if err == nil {
		err = context.Canceled // an end without a cause
	}
	err = failure.Ended(err)
	i.mu.Lock()
	before := i.why != nil
	if !before {
		i.why = err
	}
	qp, c, alive := i.qp, i.conn, i.alive
	i.mu.Unlock()
	if before {
		return
	}
	alive.stop()
	if qp != nil && c != nil {
		if e := qp.Modify(ci.ToError()); e != nil && !errors.Is(e, ci.InvalidQPHandle) { // else it is destroyed
			err = i.addReason(fmt.Errorf("its QP could not be moved to Error, and its work is not flushed: %w", e))
		}
		qp.TimeWait(c.TimeWait())
	}
	i.finish(err)
}

// addReason adds to the reason of the end, and returns both.
func (i *ID) addReason(err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.why = errors.Join(i.why, err)
	return i.why
}

// Abort ends a connection whose QP has failed. The peer is informed, and Abort does not wait for its reply. After the
// end it does nothing.
func (i *ID) Abort(cause error) {
	if i.Err() != nil {
		return
	}
	i.end(cause)
	i.pushDisconnected(nil, i.Err())
	if c := i.Conn(); c != nil {
		_ = c.Close() // it returns no error
	}
}

// removed ends the ID when the HCA with a GUID is removed: every ID with an address of that HCA, also one that listens
// or is only bound (Linux: cma_process_remove). A step in progress ends with ErrDeviceRemoved, and the port is free. A
// listener for any address continues with the other HCAs.
func (i *ID) removed(guid ci.GUID) {
	i.mu.Lock()
	isAffected := i.src.Port.CA == guid && i.state != closed
	c, ln, b := i.conn, i.listener, i.binding
	i.mu.Unlock()
	if !isAffected {
		return
	}
	i.end(ErrDeviceRemoved)
	if !errors.Is(i.Err(), ErrDeviceRemoved) { // it had ended before
		_ = i.addReason(ErrDeviceRemoved)
	}
	i.push(Event{Type: EventDeviceRemoved, Err: ErrDeviceRemoved})
	i.cancel(ErrDeviceRemoved)
	if ln != nil {
		_ = ln.l.Close() // requests that wait are lost with the HCA
	}
	if b != nil {
		b.Release()
	}
	if c != nil {
		_ = c.Close()
	}
}

// Disconnect ends the connection: the QP goes to Error, and the peer is informed. It returns when the peer has replied.
// Without a reply the connection is over as well, and the error is cm.ErrTimeout. When the context ends, the connection
// manager continues to wait for the reply. If the peer has disconnected first, its DREQ is answered, and that is no
// error. A second call returns at once. For datagrams it does nothing.
func (i *ID) Disconnect(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return i.fail(opDisconnect, err)
	}
	result := make(chan error, 1)
	if err := i.disconnect(func(err error) { result <- err }); err != nil {
		return i.fail(opDisconnect, err)
	}
	select {
	case err := <-result:
		return i.fail(opDisconnect, err)
	case <-ctx.Done():
		return i.fail(opDisconnect, ctx.Err())
	}
}

// StartDisconnect starts Disconnect. When the connection is over, there is one EventDisconnected, whichever end
// disconnected first. For datagrams there is none. Errors: InvalidState (there is no connection).
func (i *ID) StartDisconnect() error {
	return i.fail(opDisconnect, i.disconnect(func(error) {}))
}

// disconnect starts to disconnect. done is called once with the result, unless there is an error.
func (i *ID) disconnect(done func(error)) error {
	i.mu.Lock()
	s, c, over := i.state, i.conn, i.why != nil
	i.mu.Unlock()
	switch {
	case s == closed || i.typ == ci.UD && s == established:
		done(nil)
		return nil
	case s != established && s != replied || c == nil:
		return failure.InvalidState("ID.Disconnect", "the ID is in the state: %v", s)
	case over && c.State() == cm.StateDREQRcvd:
		err := c.AnswerDisconnect(nil)
		if errors.Is(err, ci.InvalidState) && c.State() != cm.StateDREQRcvd { // answered in the meantime
			err = nil
		}
		if err == nil {
			done(nil)
		}
		return err
	case over:
		done(nil)
		return nil
	}
	i.end(ErrDisconnected)
	if s == replied { // not established: the peer waits for RTU, and REJ ends that
		err := c.Reject(mad.RejConsumer, nil, nil)
		i.pushDisconnected(nil, ErrDisconnected)
		if err == nil {
			done(nil)
		}
		return err
	}
	err := c.StartDisconnect(i.ctx, nil, func(private []byte, err error) {
		if i.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = context.Cause(i.ctx)
		}
		i.pushDisconnected(private, errors.Join(ErrDisconnected, err))
		done(err)
	})
	if errors.Is(err, ci.InvalidState) && c.State() >= cm.StateDREQRcvd { // both ends at the same time
		done(nil)
		return nil
	}
	return err
}

// Close disconnects or rejects without waiting for the peer, leaves groups, destroys what the ID created, and releases
// its port. A step in progress ends: a blocking call returns net.ErrClosed. Events that were not taken from the ID's
// EventChannel are discarded, and Close waits until those that were taken are acknowledged: see Event.Ack. It is
// idempotent. Do not call it from a callback.
func (i *ID) Close() error {
	i.closing.Do(func() { i.closeErr = i.close() })
	return i.closeErr
}

func (i *ID) close() error {
	i.mu.Lock()
	was := i.state
	i.state = closed
	c, ln := i.conn, i.listener
	lookup, made, b := i.lookup, i.made, i.binding
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
		_ = lookup.Reject(mad.SIDRNoQP, nil, nil) // an error means that it was answered before
	}
	if made != nil {
		errs = append(errs, made.close())
	}
	if b != nil {
		b.Release()
	}
	i.m.forget(i)
	errs = append(errs, i.dropEvents())
	return errors.Join(errs...)
}
