// Package rchca is a template of a driver for an adapter with reliable connections: SEND, RDMA WRITE and RDMA READ. It
// has everything that package ci requires of a driver, and user mode as its only optional capability. A vendor copies
// it (ddk-validate init), and writes a Device for the hardware. Package soft has a Device in software, on which the
// certifier runs from the start.
//
// The files:
//
//	device.go  the interface Device, which a vendor implements
//	hca.go     HCA: identity, OpenCA, interrupts
//	ca.go      CA: capabilities, limits, port
//	pd.go      PD: creation of CQs and QPs
//	mr.go      memory regions
//	cq.go      completion queues: poll, arm
//	qp.go      queue pairs; qpmodify.go: their states; post.go: posting
//	user.go    contexts of client processes, and the private data of the user library; userqueue.go: their queues in
//	           shared memory
//	refs.go    dependencies between objects; notify.go: callbacks
//
// Package userlib is the user library, the part that runs in the processes of applications. It is optional: without it,
// all verbs of these processes are messages to the daemon. Packages userabi and queues are what the two have in common.
//
// The comment of each verb lists its statuses. Package ci documents the verbs.
package rchca
