// Package rchca is a template of a driver for an adapter with reliable connections: SEND, RDMA WRITE and RDMA READ. It
// has everything that package ci requires of a driver, and the optional capabilities below. A vendor copies it
// (ddk-validate init, with some of the capabilities), and writes a Device for the hardware. Package soft has a Device
// in software, on which the certifier runs from the start.
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
//	errors.go  the errors of verbs. Package ci/driver counts dependencies between objects and runs callbacks
//
// Each optional capability has a file of its own. In the files above, lines that belong to it end in the file's name.
//
//	ud.go      datagrams and address vectors
//	srq.go     shared receive queues
//	mw.go      memory windows
//	sma.go     the port of an InfiniBand subnet, and the agent of its subnet manager
//	user.go    contexts of client processes, and the private data of the user library; userqueue.go: their queues in
//	           shared memory. Package userlib is the user library, the part that runs in the processes of
//	           applications. Packages userabi and userqueues are what the two have in common
//
// The comment of each verb lists its statuses. Package ci documents the verbs.
package rchca
