// Package lnd is an upper protocol on the access layer, to be read by those who want to write their own. It moves blocks of up to 1 MiB between
// nodes, with the messages and rules by which Lustre's network LNet does that on InfiniBand and RoCE (ko2iblnd, version 0x12).
//
//	n, _ := lnd.Listen(m, lnd.Config{Addr: addr, OnPut: put, OnGet: get})    // m is a rdmacm.Manager
//	c, _ := n.Dial(ctx, peer)
//	k, err := c.Put(ctx, 17, data)
//	k, err = c.Get(ctx, 17, buf)
//
// A short block travels within a message. A longer one is written by one end to the memory of the other, by RDMA WRITE, and messages before
// and after arrange that. Read in this order:
//
//   - message.go: bytes, and what to believe of those that a stranger sends.
//   - flow.go: credits. Who may send when is a state machine without I/O.
//   - conn.go: a connection. One goroutine owns it, from the first completion until everything has been taken apart.
//   - transfer.go: the protocol, both ends of PUT and GET.
//   - negotiate.go, node.go: how two ends find each other and agree; less depth where there is no room for more.
//
// # What a port for production has beside
//
// GETs whose answer fits in a message (an IMMEDIATE each way), version 1, the other byte order, memory in pieces, checksums; one pool of regions
// for all connections, which grows and shrinks; connections made when they are needed and again when they broke, races of two that connect to
// each other, known incarnations of peers; NOOPs as a sign of life; device failover.
package lnd
