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
//
// Package cmid, below this one, has the steps of which a connection consists, as librdmacm has them: for programs that
// create QPs of their own, post and poll by themselves, use UC, or translate the calls of others. Manager.IDs,
// Conn.ID and Request.ID lead there. Package resolve finds ports and paths.
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
// over, whichever end ended it. errors.Is also finds the cause: see cmid.ErrEnded. Stream.Read
// returns io.EOF when the peer has closed.
//
// # Peers that vanish
//
// A peer whose machine has lost power sends nothing. With ConnConfig.KeepAlive, a silent peer is
// probed, and the connection ends with ErrPeerLost if it does not reply.
//
// # Addresses
//
// Addresses are IP addresses and ports of a port space. On RoCE a GID is an IP address. On InfiniBand ports an address
// is a GID, written as an IPv6 address, and paths come from the subnet administrator. Port space IB also has services
// of 64 bits: cmid.IDConfig.Service.
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
