// Package ucm implements the device file that librdmacm uses, /dev/infiniband/rdma_cm, with the files of sysfs that
// belong to it. Unmodified programs that connect by IP address, with the stock libraries of their distribution, so use
// the adapters of a daemon. The package is a front end over accesslayer/rdmacm and contains nothing about carriers; see
// package devices.
//
//	c, err := ucm.New(ucm.Config{Core: core, Manager: manager})
//	s := devices.New(devices.FrontEnds{verbs, c}, core.MaxClients(), clk)
//
// # Files and IDs
//
// An open device file is an event channel, and a client of the session core. Each ID of the program (rdma_cm_id) is an
// cmid.ID. IDs and groups have numbers of 32 bits, which are those of the whole front end, since MIGRATE_ID moves IDs
// between files. A file uses its own IDs only.
//
// # QPs
//
// The QPs belong to open uverbs files, which are other clients of the session core. The program moves them from state
// to state with the attributes of INIT_QP_ATTR. A request or reply names only a QP that the same user has.
//
// # Events
//
// Events wait in the daemon. The descriptor is readable while there are some. As in Linux, the reply to DESTROY_ID,
// LEAVE_MCAST and MIGRATE_ID has the number of events that the program has received, and events that it has not
// received are discarded. At most one request of a listener waits there; the connection manager bounds the others by
// the backlog.
//
// # Limits
//
// Quota.ServiceBytes of a client limits the memory that its IDs and groups hold. A request for which the listener's
// client has no quota is rejected.
//
// # Bad input
//
// Sizes, numbers and addresses come from a program that may be hostile. The errno of a failed command is that of Linux.
//
// # Not implemented
//
// Port space IPOIB.
package ucm
