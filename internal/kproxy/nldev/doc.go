// Package nldev implements the queries of RDMA netlink (NETLINK_RDMA, RDMA_NL_NLDEV) for a daemon's adapters. By them,
// libibverbs finds devices and their user libraries, and command rdma shows devices, links and resources.
//
//	n := nldev.New(nldev.Config{Devices: u, Core: core})       // u is a *uverbs.FrontEnd
//	devices.New(devices.FrontEnds{u, n}, …)
//
// # Messages
//
// The package is a front end with one file, Path. It is no file of the tree: the carrier opens it for a netlink socket
// of the program, and passes on datagrams. A datagram has one or more requests. Each has a reply, or, with the flag
// NLM_F_DUMP, a list that a message "done" ends. Errors are messages with an errno, as those of Linux.
//
// Devices have the attributes that Linux reports for them. The daemon's adapters are those of all users, and so are
// the resources. The commands that change something fail with EPERM, and those that are not implemented with
// EOPNOTSUPP.
//
// Sources: rdma/rdma_netlink.h and linux/netlink.h of Linux.
package nldev
