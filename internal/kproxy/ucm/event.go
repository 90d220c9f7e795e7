package ucm

import (
	"encoding/binary"
	"errors"
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
)

// eventNumbers are the numbers of events.
var eventNumbers = map[cmid.EventType]uint32{
	cmid.EventAddrResolved: abi.EventAddrResolved, cmid.EventAddrError: abi.EventAddrError,
	cmid.EventRouteResolved: abi.EventRouteResolved, cmid.EventRouteError: abi.EventRouteError,
	cmid.EventConnectRequest: abi.EventConnectRequest, cmid.EventConnectResponse: abi.EventConnectResponse,
	cmid.EventConnectError: abi.EventConnectError, cmid.EventUnreachable: abi.EventUnreachable,
	cmid.EventRejected: abi.EventRejected, cmid.EventEstablished: abi.EventEstablished,
	cmid.EventDisconnected: abi.EventDisconnected, cmid.EventDeviceRemoved: abi.EventDeviceRemoval,
	cmid.EventGroupJoined: abi.EventMulticastJoin, cmid.EventGroupError: abi.EventMulticastError,
	cmid.EventTimeWaitExit: abi.EventTimewaitExit,
}

// getEvent takes the oldest event. Without one, it returns EAGAIN, and the carrier waits if the descriptor does.
func (f *File) getEvent(c *call, _ *abi.GetEvent, r *abi.EventResp) error {
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

// writeEvent queues an event of the program's own, or of its library.
func (f *File) writeEvent(_ *call, q *abi.WriteEvent, _ *abi.None) error {
	if q.Event != abi.EventUser && q.Event != abi.EventInternal {
		return syscall.EINVAL
	}
	return f.with(q.ID, func(x *id) error { return x.cm.Post(q) })
}

// take encodes an event. It reports false if the program does not receive it.
func (f *File) take(e *cmid.Event, r *abi.EventResp) bool {
	number, ok := eventNumbers[e.Type]
	*r = abi.EventResp{Event: number, Status: status(e)}
	if q, isWritten := e.User.(*abi.WriteEvent); isWritten {
		ok, r.Event, r.Status = true, q.Event, q.Status
		ne.PutUint64(r.Param[:], q.Arg)
	}
	if !ok {
		return false
	}
	switch e.Type {
	case cmid.EventConnectRequest:
		return f.takeRequest(e, r)
	case cmid.EventGroupJoined, cmid.EventGroupError:
		return f.takeGroup(e, r)
	}
	u := f.front
	u.mu.Lock()
	x := u.byCM[e.ID]
	ok = x != nil && x.file == f && x.uid != 0 && !x.removed
	if ok {
		x.removed = e.Type == cmid.EventDeviceRemoved
		x.reported++
		r.UID, r.ID = x.uid, x.number
	}
	u.mu.Unlock()
	if ok && e.User == nil {
		x.setParam(e, r)
	}
	return ok
}

// takeRequest makes the ID of a request one of the program. The event is one of the listener.
func (f *File) takeRequest(e *cmid.Event, r *abi.EventResp) bool {
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
func (f *File) takeGroup(e *cmid.Event, r *abi.EventResp) bool {
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
	if e.Type == cmid.EventGroupJoined {
		peer := g.cm.Peer()
		setUD(r, &abi.UDParam{QPNum: uint32(peer.QPN), QKey: uint32(peer.QKey), AH: abi.NewAH(&peer.AV)}, nil)
	}
	return true
}

// status returns the status of an event: 0, a reason of the peer, or a negative errno.
func status(e *cmid.Event) int32 {
	if e.Err == nil || e.Type == cmid.EventDisconnected || e.Type == cmid.EventDeviceRemoved {
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
func (x *id) setParam(e *cmid.Event, r *abi.EventResp) {
	if x.typ == ci.UD {
		p := abi.UDParam{}
		if e.Type == cmid.EventEstablished {
			peer := x.cm.Peer()
			p = abi.UDParam{QPNum: uint32(peer.QPN), QKey: uint32(peer.QKey), AH: abi.NewAH(&peer.AV)}
		}
		setUD(r, &p, e.Private)
		return
	}
	var p abi.ConnParam
	conn := x.cm.Conn()
	switch e.Type {
	case cmid.EventConnectRequest:
		q := x.cm.Request()
		p = abi.ConnParam{QPNum: uint32(q.QPN), ResponderResources: q.InitiatorDepth,
			InitiatorDepth: q.ResponderResources,
			RetryCount:     q.Retries, RNRRetryCount: q.RNRRetries, SRQ: flag(q.SRQ), FlowControl: flag(q.FlowControl)}
	case cmid.EventConnectResponse, cmid.EventEstablished:
		if conn == nil || conn.Reply() == nil || x.cm.Request() != nil {
			break
		}
		q := conn.Reply()
		p = abi.ConnParam{QPNum: q.LocalQPN, ResponderResources: q.InitiatorDepth, InitiatorDepth: q.ResponderRes,
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
func setUD(r *abi.EventResp, p *abi.UDParam, private []byte) {
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], private))
	_, _ = binary.Encode(r.Param[:], ne, p) // it has room
}
