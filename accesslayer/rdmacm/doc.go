// Package rdmacm connects programs by IP address. It implements the protocol of the RDMA CM of Linux: port spaces, the
// IP header in the private data of requests, SIDR for datagrams, multicast. Programs that call rdma_connect on Linux
// can connect to programs of this package, and the other way round.
//
//	m, err := softroce.Open(netip.MustParseAddr("10.0.0.2"), softroce.Config{}) // or OpenHCA(hca, …) for any driver
//	defer m.Close()
//
//	c, err := m.Dial(ctx, netip.MustParseAddrPort("10.0.0.1:7174")) // a client
//	err = c.Send(ctx, []byte("hello"))
//	reply, err := c.Recv(ctx)
//
//	ln, err := m.Listen(netip.MustParseAddrPort("10.0.0.1:7174"), ListenConfig{}) // a server
//	request, err := ln.Accept(ctx)
//	c, err := request.Accept(ctx) // or request.Reject(reason)
//
// # Types
//
//	Dialer, Listener, Request   make connections
//	Conn                        messages, memory of the peer, atomics
//	Memory, Region              memory for peers, and its description, which can be sent
//	Stream                      a Conn as a net.Conn
//	Datagram                    an endpoint for datagrams
//	Manager                     shared by all of them: services, ports, opened HCAs
//	ID, IDListener, Group       the steps below, as in librdmacm; datagrams and multicast
//	EventChannel, Event         the results of steps that do not block
//
// # Memory of the peer
//
// An application makes memory available with Manager.NewMemory and sends its Region, which is 20 bytes in binary form.
// The peer reads and writes it with Conn.Read and Conn.Write; the application is not involved:
//
//	memory := m.NewMemory(ci.Bytes(table), ci.RemoteRead)
//	region, err := memory.Region(c)
//	b, err := region.MarshalBinary()
//	err = c.Send(ctx, b)
//
// # The end of a connection
//
// errors.Is(err, ErrEnded) is true for every error that a call on a Conn or Stream returns because the connection is
// over, whichever end ended it. errors.Is also finds the cause: see ErrEnded. ID.Err is such an error. Stream.Read
// returns io.EOF when the peer has closed.
//
// # Steps
//
// An ID (rdma_cm_id) is one end of a connection from before it exists. Programs can call its steps one by one, as those
// of librdmacm, if they create a QP of their own, post and poll by themselves, or translate the calls of others:
//
//	id, _ := m.NewID(IDConfig{})              // rdma_create_id: the port space
//	id.Bind(local)                            // rdma_bind_addr, optional
//	id.ResolveAddr(ctx, remote)               // rdma_resolve_addr: the HCA, port and GID
//	id.ResolveRoute(ctx)                      // rdma_resolve_route: the path
//	id.CreateQP(QPConfig{PD: pd})             // rdma_create_qp: in Init, receives can be posted
//	id.Connect(ctx, ConnParam{})              // rdma_connect: REQ, REP, QP to RTS, RTU
//	id.Disconnect(ctx)                        // rdma_disconnect
//
// These forms wait until the step has ended, on the goroutine of the caller. What happens later closes ID.Done, and is
// an Event for programs that read them with ID.Next. Events need not be read. Manager.DialID and ListenID perform all
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
//	id, _ := m.NewID(IDConfig{Events: events})
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
// A peer whose machine has lost power sends nothing. With ConnConfig.KeepAlive, or QPConfig.KeepAlive, a silent peer is
// probed, and the connection ends with ErrPeerLost if it does not reply.
//
// # Addresses
//
// Addresses are IP addresses and ports of a port space. On RoCE a GID is an IP address. On InfiniBand ports an address
// is a GID, written as an IPv6 address, and paths come from the subnet administrator. Port space IB also has services
// of 64 bits: IDConfig.Service.
//
// # Errors
//
// Errors are *net.OpError around the cause. errors.As with *cm.RejectError finds a rejection with its reason and
// private data, and *cm.LookupError the same of SIDR. errors.Is finds syscall.ECONNREFUSED (no listener, or the
// application rejected), EADDRINUSE, EADDRNOTAVAIL, EHOSTUNREACH, and cm.ErrTimeout, net.ErrClosed and the context's
// errors.
//
// The network may report that a request did not arrive (on Linux over UDP: ICMP errors). Dial then ends at once, with a
// *cm.UnreachableError: ECONNREFUSED if the machine has no HCA at that address, EHOSTUNREACH if there is no machine.
// Without such a report and without a reply, Dial ends after 14 seconds with cm.ErrTimeout. An established connection
// does not end because of such reports, since they can be forged.
//
// Sources: IBTA volume 1, annex A11 (RDMA IP CM service) and chapter 12; annex A17 (RoCEv2); RFC 4391 (multicast GIDs
// of IP groups).
package rdmacm
