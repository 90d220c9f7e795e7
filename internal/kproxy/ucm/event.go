package ucm

import (
	"encoding/binary"
	"errors"
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
)

// eventNumbers are the numbers of events.
var eventNumbers = map[rdmacm.EventType]uint32{
	rdmacm.EventAddrResolved: eventAddrResolved, rdmacm.EventAddrError: eventAddrError,
	rdmacm.EventRouteResolved: eventRouteResolved, rdmacm.EventRouteError: eventRouteError,
	rdmacm.EventConnectRequest: eventConnectRequest, rdmacm.EventConnectResponse: eventConnectResponse,
	rdmacm.EventConnectError: eventConnectError, rdmacm.EventUnreachable: eventUnreachable,
	rdmacm.EventRejected: eventRejected, rdmacm.EventEstablished: eventEstablished,
	rdmacm.EventDisconnected: eventDisconnected, rdmacm.EventDeviceRemoved: eventDeviceRemoval,
	rdmacm.EventGroupJoined: eventMulticastJoin, rdmacm.EventGroupError: eventMulticastError,
	rdmacm.EventTimeWaitExit: eventTimewaitExit,
}

// getEvent takes the oldest event. Without one, it returns EAGAIN, and the carrier waits if the descriptor does.
func (f *File) getEvent(c *call, _ *getEvent, r *eventResp) error {
	for {
		e, ok := f.channel.TryNext()
		if !ok {
			c.reply.Quiet, c.reply.Wait = f.quiet(), true
			return syscall.EAGAIN
		}
		ok = f.take(&e, r)
		e.Ack()
		if ok {
			c.reply.Quiet = f.quiet()
			return nil
		}
	}
}

// take encodes an event. It reports false if the program does not receive it.
func (f *File) take(e *rdmacm.Event, r *eventResp) bool {
	number, ok := eventNumbers[e.Type]
	if !ok {
		return false
	}
	*r = eventResp{Event: number, Status: status(e)}
	switch e.Type {
	case rdmacm.EventConnectRequest:
		return f.takeRequest(e, r)
	case rdmacm.EventGroupJoined, rdmacm.EventGroupError:
		return f.takeGroup(e, r)
	}
	u := f.front
	u.mu.Lock()
	x := u.byCM[e.ID]
	ok = x != nil && x.file == f && x.uid != 0 && !x.removed
	if ok {
		x.removed = e.Type == rdmacm.EventDeviceRemoved
		x.reported++
		r.UID, r.ID = x.uid, x.number
	}
	u.mu.Unlock()
	if ok {
		x.setParam(e, r)
	}
	return ok
}

// takeRequest makes the ID of a request one of the program. The event is one of the listener.
func (f *File) takeRequest(e *rdmacm.Event, r *eventResp) bool {
	u := f.front
	x := &id{front: u, cm: e.ID, typ: e.ID.Request().Type}
	u.mu.Lock()
	l := u.byCM[e.Listener.ID()]
	ok := l != nil && l.file == f
	if ok {
		x.space, x.family = l.space, l.family
		r.UID = l.uid
		l.reported++
	}
	u.mu.Unlock()
	if !ok {
		_ = x.cm.Close() // the listener was destroyed, and the request is rejected
		return false
	}
	if f.add(x) != nil { // it has closed the ID, which rejects the request
		u.mu.Lock()
		l.reported--
		u.mu.Unlock()
		return false
	}
	r.ID = x.number
	x.setParam(e, r)
	return true
}

// takeGroup encodes an event of a group, which is also one of its ID.
func (f *File) takeGroup(e *rdmacm.Event, r *eventResp) bool {
	u := f.front
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.byGroup[e.Group]
	if g == nil || g.id.file != f {
		return false
	}
	g.reported++
	g.id.reported++
	r.UID, r.ID = g.uid, g.number
	if e.Type == rdmacm.EventGroupJoined {
		peer := g.cm.Peer()
		r.setUD(&udParam{QPNum: uint32(peer.QPN), QKey: uint32(peer.QKey), AH: newAH(&peer.AV)}, nil)
	}
	return true
}

// status returns the status of an event: 0, a reason of the peer, or a negative errno.
func status(e *rdmacm.Event) int32 {
	if e.Err == nil || e.Type == rdmacm.EventDisconnected || e.Type == rdmacm.EventDeviceRemoved {
		return 0
	}
	if r, ok := errors.AsType[*cm.RejectError](e.Err); ok {
		return int32(r.Reason)
	}
	if l, ok := errors.AsType[*cm.LookupError](e.Err); ok {
		return int32(l.Status)
	}
	if errors.Is(e.Err, cm.ErrTimeout) {
		return -int32(syscall.ETIMEDOUT)
	}
	return -int32(errnoOf(e.Err))
}

// setParam sets the parameters of an event of a connection.
func (x *id) setParam(e *rdmacm.Event, r *eventResp) {
	if x.typ == ci.UD {
		p := udParam{}
		if e.Type == rdmacm.EventEstablished {
			peer := x.cm.Peer()
			p = udParam{QPNum: uint32(peer.QPN), QKey: uint32(peer.QKey), AH: newAH(&peer.AV)}
		}
		r.setUD(&p, e.Private)
		return
	}
	var p connParam
	conn := x.cm.Conn()
	switch e.Type {
	case rdmacm.EventConnectRequest:
		q := x.cm.Request()
		p = connParam{QPNum: uint32(q.QPN), ResponderResources: q.InitiatorDepth, InitiatorDepth: q.ResponderResources,
			RetryCount: q.Retries, RNRRetryCount: q.RNRRetries, SRQ: flag(q.SRQ), FlowControl: flag(q.FlowControl)}
	case rdmacm.EventConnectResponse, rdmacm.EventEstablished:
		if conn == nil || conn.Reply() == nil || x.cm.Request() != nil {
			break
		}
		q := conn.Reply()
		p = connParam{QPNum: q.LocalQPN, ResponderResources: q.InitiatorDepth, InitiatorDepth: q.ResponderRes,
			RNRRetryCount: q.RNRRetryCount, SRQ: flag(q.SRQ), FlowControl: flag(q.FlowControl)}
	}
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], e.Private))
	_, _ = binary.Encode(r.Param[:], ne, &p) // it has room
}

func flag(is bool) uint8 {
	if is {
		return 1
	}
	return 0
}

// setUD sets the parameters of an event for datagrams.
func (r *eventResp) setUD(p *udParam, private []byte) {
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], private))
	_, _ = binary.Encode(r.Param[:], ne, p) // it has room
}
