// Package lnd is an example of an upper protocol on the access layer, for readers who want to write their own. It moves
// blocks of up to 1 MiB between nodes. Messages and rules are those of LNet, the network of Lustre, on InfiniBand and
// RoCE (ko2iblnd, version 0x12).
//
//	n, _ := lnd.Listen(m, lnd.Config{Addr: addr, OnPut: put, OnGet: get})    // m is a rdmacm.Manager
//	c, _ := n.Dial(ctx, peer)
//	k, err := c.Put(ctx, 17, data)
//	k, err = c.Get(ctx, 17, buf)
//
// A short block is part of a message. For a longer one, a message describes the memory of one end, the other end writes
// the block there with RDMA WRITE, and another message reports that it is complete. Read the files in this order:
//
//   - message.go: the layout of messages, and the checks of messages from the network.
//   - flow.go: credits. A state machine without I/O decides when an end may send.
//   - conn.go: a connection. One goroutine owns it, from the first completion until all objects are destroyed.
//   - transfer.go: PUT and GET, at both ends.
//   - negotiate.go, node.go: establishing connections. The ends agree on a smaller depth if one lacks resources.
//
// # What an implementation for production needs in addition
//
//   - GETs whose reply fits in a message (one IMMEDIATE in each direction), version 1 of the protocol, the other byte
//     order, memory in several pieces, checksums
//   - one pool of regions for all connections, which grows and shrinks
//   - connections that are made when they are needed and again after an error; two ends that connect to each other at
//     the same time; recognition of restarted peers
//   - device failover
package lnd
