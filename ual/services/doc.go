// Package services lets a program use the connection manager, the MAD services and the ports of a daemon, so that it
// connects and listens by IP address from a process of its own:
//
//	m, err := services.Dial(services.Config{UAL: ual.Config{Path: "/run/ddkd/socket"}})
//	defer m.Close()
//
//	ln, err := m.Listen(netip.MustParseAddrPort("192.0.2.1:7174"), rdmacm.ListenConfig{})
//	c, err := m.Dial(ctx, netip.MustParseAddrPort("192.0.2.2:7174"))
//
// The result of Dial is the same *rdmacm.Manager as in a program that owns its adapter, with connections, streams,
// datagrams and queue pairs. Open returns the services for other uses: Services.CM is a cm.Service, Services.MAD a
// mads.Service, with which package sa queries the subnet administrator, and Services.Follow registers the daemon's
// adapters with an access layer of this process, which then reports PnP events.
//
// # What the daemon does
//
// Communication IDs, timers, repetitions and time-wait are the daemon's. All processes share the ports of the port
// spaces. When a process exits, the daemon releases its ports, rejects its requests, disconnects its connections, and
// keeps the numbers of their queue pairs from being used again during time-wait. A process sees its own connections
// only. A connection can be requested or accepted only for a queue pair of the process.
//
// # Privileges
//
// Package kproxy/services lists what the daemon permits to processes that have another user id than the daemon and are
// not root: they listen on single service IDs, and their agents of MAD services query and do not change anything.
//
// # Differences from local services
//
// Every call is a message to the daemon and its reply. A datagram that is sent has up to schema.MaxMAD bytes. After
// Conn.Close, the state is StateClosed, although the daemon still disconnects. When the daemon exits, calls return
// ual.ErrDisconnected, pending steps end with it, and connections have EventDisconnected and EventTimeWaitExit.
//
// # Concurrency
//
// All methods may be called concurrently. Callbacks run with no lock held, except that OnReceive of an agent excludes
// Close, as in package mads.
package services
