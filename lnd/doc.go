// Package lnd is a node of an LNet, the network of Lustre, on InfiniBand and RoCE. It speaks the protocol of ko2iblnd,
// Lustre's driver for networks o2ib, on any adapter of the access layer, without a kernel module. Machines with Lustre
// connect to it, ping and discover it, and move data with PUT and GET; it does the same with them and with other nodes
// of this package.
//
//	n, _ := lnd.Listen(m, lnd.Config{Addr: addr})                        // m is a rdmacm.Manager
//	info, err := n.Ping(ctx, peer)                                       // as lctl ping does
//	n.Attach(lnd.Entry{Portal: 40, Ignore: ^uint64(0), OnPut: put, OnGet: get})
//	k, err := n.Put(ctx, peer, lnd.Target{Portal: 40, Match: 17}, data)
//	k, err = n.Get(ctx, peer, lnd.Target{Portal: 40, Match: 17}, buf)
//
// It is also a model for authors of upper protocols. A short block is part of a message. For a longer one, a message
// describes the memory of one end, the other end writes the block there with RDMA WRITE, and another message reports
// that it is complete. Read the files in this order:
//
//   - message.go: the layout of messages in a table, and the checks of messages from the network. nid.go: names.
//   - flow.go: credits. A state machine without I/O decides when an end may send.
//   - conn.go: a connection. One goroutine owns it, from the first completion until all objects are destroyed.
//   - memory.go, transfer.go: PUT and GET, at both ends.
//   - connect.go: what both ends agree on, and what is tried after a rejection. A function without I/O.
//   - peer.go, node.go: connections that are made when they are needed, two ends that connect at the same time,
//     restarted peers.
//   - lnet.go: match entries, ACK and REPLY, ping and discovery. tunables.go, stats.go: parameters and counters.
//
// # Bad peers
//
// A peer that violates the protocol loses its connection. The reason is in the log and counted (Node.Stats). Other
// peers are not affected. What a connection holds is bounded: receive and send buffers of 4096 bytes, 24 of them by
// default; at most as many transfers of the peer as it has credits; 1000 messages that wait for its credits. A peer has
// at most 128 connections.
//
// # What is missing
//
// Routers, several interfaces of a node, large NIDs (IPv6), device failover, lnet_selftest's services.
package lnd
