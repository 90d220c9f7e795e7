// Package resolve finds the port and the path from which an IP address is reached: the two first steps of a connection
// by IP address. Programs need it to precede or to replace the usual Resolver, System, which uses the routing of the
// operating system, the GID tables and the subnet administrator. Static has a table.
//
//	system := resolve.NewSystem(al, nil)
//	defer system.Close()
//	resolver := &resolve.Static{AL: al, Paths: paths, Else: system}
//	m, err := rdmacm.Open(al, rdmacm.OpenConfig{Resolver: resolver})
//
// All methods may be called concurrently. Errors wrap syscall.EADDRNOTAVAIL and EHOSTUNREACH.
//
// Sources: IBTA volume 1, annexes A11 (RDMA IP CM service) and A17.4 (GIDs of RoCEv2).
package resolve
