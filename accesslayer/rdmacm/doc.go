// Package rdmacm connects by IP address, as the RDMA CM of Linux does and in its language: port spaces, the IP header in a request's
// private data, UD by SIDR, multicast. What Linux calls with rdma_connect can be accepted here, and the other way round.
//
//	m, _ := rdmacm.Open(al)                          // once per program
//
//	// one call
//	id, err := m.Dial(ctx, netip.MustParseAddrPort("10.0.0.1:7174"), rdmacm.DialConfig{})
//	id.QP().PostSend(…)
//	id.SendCQ().Wait(ctx, wc)
//	id.Disconnect(ctx)
//	id.Close()
//
//	ln, err := m.Listen(netip.MustParseAddrPort("0.0.0.0:7174"), rdmacm.ListenConfig{})
//	id, err := ln.Accept(ctx)                        // a request
//	id.CreateQP(rdmacm.QPConfig{})                   // post receives now
//	err = id.Accept(ctx, rdmacm.ConnConfig{})        // or id.Reject(why)
//
// # Steps
//
// Dial is made of steps, which may be called one by one, as those of librdmacm:
//
//	id, _ := m.NewID(rdmacm.IDConfig{})              // rdma_create_id: the port space
//	id.Bind(local)                                   // rdma_bind_addr, may be left out
//	id.ResolveAddr(ctx, remote)                      // rdma_resolve_addr: which HCA, port and GID
//	id.ResolveRoute(ctx)                             // rdma_resolve_route: the path
//	id.CreateQP(rdmacm.QPConfig{PD: pd})             // rdma_create_qp: in Init, receives can be posted
//	id.Connect(ctx, rdmacm.ConnConfig{})             // rdma_connect: REQ, REP, QP to RTS, RTU
//	id.Disconnect(ctx)                               // rdma_disconnect
//
// Every step waits until it is done and returns its error, where the original has an event. What happens without being asked for,
// the peer's disconnect above all, closes ID.Done, and is an Event for those who want to know more: ID.Next. Nobody has to take events.
//
// # Who moves the QP
//
// The QP is the ID's, if it was made with CreateQP or handed over with UseQP: then it is moved to each state when it is time, and to
// Error at the end. Or it is the caller's, perhaps in another process: then ConnConfig.QP describes it, and ID.QPAttr says how to move it.
//
// # Peers that vanish
//
// A peer whose machine has lost power says nothing. QPConfig.KeepAlive has the ID probe a silent peer, and ends the connection with ErrPeerLost
// if it does not answer.
//
// # Addresses
//
// Addresses are IP addresses and ports of a port space; on RoCE a GID is an IP address. On InfiniBand ports an address is a GID, written
// as an IPv6 address, and paths come from the subnet administrator. Port space IB knows services of 64 bits as well: IDConfig.Service.
//
// # Errors
//
// Errors are *net.OpError around the cause: errors.As with *cm.RejectError finds a refusal with its reason and private data, *cm.LookupError the same of
// SIDR; errors.Is knows syscall.ECONNREFUSED (nobody listens there, or the application said no), EADDRINUSE, EADDRNOTAVAIL,
// EHOSTUNREACH, and cm.ErrTimeout, net.ErrClosed and the context's.
//
// The network may report that a request did not arrive (on Linux over UDP: ICMP errors). Connect ends at once then, with a *cm.UnreachableError:
// ECONNREFUSED if the machine has no HCA at that address, EHOSTUNREACH if there is no machine. Without such a report and without an answer,
// Connect ends after 14 seconds with cm.ErrTimeout. An established connection does not end by such reports, since anybody may forge them.
//
// Sources: IBTA volume 1, annex A11 (RDMA IP CM service) and chapter 12; annex A17 (RoCEv2); RFC 4391 (multicast GIDs of IP groups).
package rdmacm
