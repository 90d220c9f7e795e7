// Package rdmacm connects programs by IP address, as the RDMA CM of Linux does and in its protocol: port spaces, the IP header in a request's private
// data, SIDR for datagrams, multicast. A program that calls rdma_connect on Linux can be accepted here, and the other way round.
//
//	m, err := softroce.Open(netip.MustParseAddr("10.0.0.2"), softroce.Config{})   // or OpenHCA(hca, …) for any driver
//	defer m.Close()
//
//	c, err := m.Dial(ctx, netip.MustParseAddrPort("10.0.0.1:7174"))               // a client
//	err = c.Send(ctx, []byte("hello"))
//	answer, err := c.Recv(ctx)
//
//	ln, err := m.Listen(netip.MustParseAddrPort("10.0.0.1:7174"), ListenConfig{}) // a server
//	request, err := ln.Accept(ctx)
//	c, err := request.Accept(ctx)                                                 // or request.Reject(reason)
//
// # Types
//
//	Dialer, Listener, Request   make connections
//	Conn                        messages, memory of the peer, atomics
//	Memory, Region              memory for peers, and its description, which can be sent
//	Stream                      a Conn as a net.Conn
//	Manager                     what they share: services, ports, opened HCAs
//	ID, IDListener, Group       the steps below, as in librdmacm; datagrams and multicast
//
// # Memory of the peer
//
// An application makes memory available with Manager.NewMemory and sends its Region, which marshals to 20 bytes. The peer reads and writes it with
// Conn.Read and Conn.Write, without the application's taking part:
//
//	memory := m.NewMemory(ci.Bytes(table), ci.RemoteRead)
//	region, err := memory.Region(c)
//	b, err := region.MarshalBinary()
//	err = c.Send(ctx, b)
//
// # The end of a connection
//
// errors.Is(err, ErrEnded) is true for every error that a call on a Conn or Stream returns because the connection is over, whoever ended it;
// errors.Is finds the cause, too: see ErrEnded. ID.Err is such an error. Stream.Read returns io.EOF when the peer has closed.
//
// # Steps
//
// An ID is rdma_cm_id: one end of a connection from before it exists. Its steps may be called one by one, as those of librdmacm, by programs that
// want a QP of their own making, post and poll by themselves, or translate the calls of others:
//
//	id, _ := m.NewID(IDConfig{})              // rdma_create_id: the port space
//	id.Bind(local)                            // rdma_bind_addr, may be left out
//	id.ResolveAddr(ctx, remote)               // rdma_resolve_addr: which HCA, port and GID
//	id.ResolveRoute(ctx)                      // rdma_resolve_route: the path
//	id.CreateQP(QPConfig{PD: pd})             // rdma_create_qp: in Init, receives can be posted
//	id.Connect(ctx, ConnParam{})              // rdma_connect: REQ, REP, QP to RTS, RTU
//	id.Disconnect(ctx)                        // rdma_disconnect
//
// Every step waits until it is done and returns its error, where the original has an event, and runs on the goroutine of its caller. What happens later
// closes ID.Done, and is an Event for programs that read them: ID.Next. Events need not be read. Manager.DialID and ListenID are
// all steps in one.
//
// A QP that CreateQP made, or UseQP took over, is moved to each state when it is time, and to Error at the end. A QP that the ID does not have, perhaps
// of another process, is described by ConnParam.QP, and ID.QPAttr returns how to move it.
//
// # Peers that vanish
//
// A peer whose machine has lost power sends nothing. With ConnConfig.KeepAlive, or QPConfig.KeepAlive, a silent peer is probed, and the
// connection ends with ErrPeerLost if it does not answer.
//
// # Addresses
//
// Addresses are IP addresses and ports of a port space; on RoCE a GID is an IP address. On InfiniBand ports an address is a GID, written
// as an IPv6 address, and paths come from the subnet administrator. Port space IB has services of 64 bits as well: IDConfig.Service.
//
// # Errors
//
// Errors are *net.OpError around the cause: errors.As with *cm.RejectError finds a rejection with its reason and private data, *cm.LookupError the same of
// SIDR; errors.Is finds syscall.ECONNREFUSED (nobody listens there, or the application rejected), EADDRINUSE, EADDRNOTAVAIL,
// EHOSTUNREACH, and cm.ErrTimeout, net.ErrClosed and the context's.
//
// The network may report that a request did not arrive (on Linux over UDP: ICMP errors). Dial ends at once then, with a *cm.UnreachableError:
// ECONNREFUSED if the machine has no HCA at that address, EHOSTUNREACH if there is no machine. Without such a report and without an answer,
// Dial ends after 14 seconds with cm.ErrTimeout. An established connection does not end by such reports, since anybody may forge them.
//
// Sources: IBTA volume 1, annex A11 (RDMA IP CM service) and chapter 12; annex A17 (RoCEv2); RFC 4391 (multicast GIDs of IP groups).
package rdmacm
