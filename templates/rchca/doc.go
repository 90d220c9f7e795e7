// Package rchca is the skeleton of a driver for an adapter with reliable connections and nothing optional: SEND, RDMA WRITE and RDMA READ.
// Copy it, give it your package's name, and replace the Device: package soft is one in software, so that the certifier runs on the
// first day. What is left to write is what your hardware does; what the contract asks of a driver's shape is all here:
//
//	device.go  the seam: the interface Device that a vendor fills in
//	hca.go     HCA: identity, the one open
//	ca.go      CA: claims and limits, port, close
//	pd.go      PD, and the creates of CQs and QPs
//	mr.go      memory regions
//	cq.go      completion queues: poll, arm
//	qp.go      queue pairs; qpmodify.go their states; post.go the data path
//	refs.go    life and death of objects; notify.go callbacks
//
// Each verb names the statuses it answers with; package ci has the contract in full.
package rchca
