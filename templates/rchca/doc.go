// Package rchca is a template of a driver for an adapter with reliable connections: SEND, RDMA WRITE and RDMA READ. It
// has everything that package ci requires of a driver, and no optional capability. A vendor copies it (ddk-validate
// init), and writes a Device for the hardware. Package soft has a Device in software, on which the certifier runs from
// the start.
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
//	refs.go    dependencies between objects; notify.go: callbacks
//
// The comment of each verb lists its statuses. Package ci documents the verbs.
package rchca
