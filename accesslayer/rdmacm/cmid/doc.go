// Package cmid has the steps by which programs connect by IP address, one by one, as librdmacm has them. It is for
// programs that create QPs of their own, post and poll by themselves, or translate the calls of others. Programs that
// send messages use the connections of package rdmacm, which consist of these steps.
//
//	Manager               creates IDs; shared by a program
//	ID                    one end of a connection, or of datagrams
//	Listener              requests of peers, as IDs
//	Group                 membership of a multicast group
//	EventChannel, Event   the results of steps that do not block
//	Ports, PortTable      the ports of the port spaces
//
// # Steps
//
// An ID (rdma_cm_id) is one end of a connection from before it exists. Programs can call its steps one by one, as those
// of librdmacm, if they create a QP of their own, post and poll by themselves, or translate the calls of others:
//
//	ids := m.IDs()                            // of a *rdmacm.Manager
//	id, _ := ids.NewID(IDConfig{})            // rdma_create_id: the port space
//	id.Bind(local)                            // rdma_bind_addr, optional
//	id.ResolveAddr(ctx, remote)               // rdma_resolve_addr: the HCA, port and GID
//	id.ResolveRoute(ctx)                      // rdma_resolve_route: the path
//	id.CreateQP(QPConfig{PD: pd})             // rdma_create_qp: in Init, receives can be posted
//	id.Connect(ctx, ConnParam{})              // rdma_connect: REQ, REP, QP to RTS, RTU
//	id.Disconnect(ctx)                        // rdma_disconnect
//
// These forms wait until the step has ended, on the goroutine of the caller. What happens later closes ID.Done, and is
// an Event for programs that read them with ID.Next. Events need not be read. Manager.Dial and Listen perform all
// steps.
//
// CreateQP and UseQP make a QP the ID's, which moves it from state to state, and to Error at the end. A QP that is not
// the ID's, for example of another process, is described by ConnParam.QP; ID.QPAttr returns the attributes with which
// the caller moves it.
//
// # Steps without waiting
//
// StartResolveAddr, StartResolveRoute, StartSetRecord, StartConnect, StartAccept, StartDisconnect and StartJoin check
// their arguments, start the step and return. An error means that the step has not started, and there is no event.
// Otherwise the result is one Event of the ID, as in librdmacm: see EventType. Bind, Listen, Reject, Delay, Establish,
// Notify, SetPath and Group.StartLeave never wait. A pending step has no goroutine; the blocking forms are built on the
// Start forms.
//
// Programs with many IDs create them with IDConfig.Events, so that one EventChannel (rdma_event_channel) receives the
// events of all of them:
//
//	events := NewEventChannel(nil)            // rdma_create_event_channel
//	id, _ := ids.NewID(IDConfig{Events: events})
//	id.StartResolveAddr(remote, time.Second)
//	for {
//		e, err := events.Next(ctx)            // rdma_get_cm_event
//		switch e.Type {
//		case EventAddrResolved:
//			err = e.ID.StartResolveRoute(time.Second)
//		case EventRouteResolved:
//			err = e.ID.StartConnect(ConnParam{})
//		…
//		}
//		e.Ack()                               // rdma_ack_cm_event
//	}
//
// An ID with IDConfig.Events that listens gets each request as EventConnectRequest with a new ID. At most one request
// per listener is in the channel; the others wait at the connection manager, up to the backlog.
//
// Each step that has started ends exactly once: with its result; with syscall.ETIMEDOUT after the timeout of a
// resolution; with ErrDeviceRemoved when the HCA is removed, after EventDeviceRemoved; or with ID.Close. Close discards
// the events of the ID that were not taken, and waits until those that were taken are acknowledged (Event.Ack), so no
// event refers to a closed ID. A program therefore acknowledges the events of an ID before it closes it. ID.Migrate
// moves an ID to another channel.
//
// # Peers that vanish
//
// With QPConfig.KeepAlive, a silent peer is probed, and the connection ends with ErrPeerLost if it does not reply.
//
// # Addresses and errors
//
// Both are those of package rdmacm. ID.Err is an error for which errors.Is(err, ErrEnded) is true.
//
// Sources: IBTA volume 1, annex A11 (RDMA IP CM service) and chapter 12; annex A17 (RoCEv2); RFC 4391 (multicast GIDs
// of IP groups).
package cmid
