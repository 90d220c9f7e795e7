// Package lnd is an upper protocol on the access layer, to be read by those who want to write their own. It moves blocks of up to 1 MiB
// between nodes, and speaks the protocol by which Lustre's network LNet does that on InfiniBand and RoCE (ko2iblnd, version 0x12): the same
// messages, the same credits, the same rules. What it leaves out is LNet itself: routing, several networks, the matching of
// buffers.
//
//	m, _ := rdmacm.Open(al)
//	n, _ := lnd.Listen(m, lnd.Config{Addr: addr, OnPut: put, OnGet: get})
//	err := n.Put(ctx, peer, lnd.Address{Portal: 4, Match: 17}, data)
//	k, err := n.Get(ctx, peer, lnd.Address{Portal: 4, Match: 17}, buf)
//
// # The way of a block
//
// A short block travels within a message, IMMEDIATE. A longer one is written by one end to the memory of the other, by RDMA WRITE, and
// messages before and after arrange that:
//
//	PUT   source ─ PUT_REQ → sink ─ PUT_ACK (where) → source ═ WRITEs, PUT_DONE → sink ─ ACK → source
//	GET   sink ─ GET_REQ (where) → source ═ WRITEs, GET_DONE → sink
//
// # How it is built
//
// In this order, each part needs those before it only:
//
//   - message.go, lnethdr.go, negotiate.go: bytes. Nothing there knows of adapters, so golden bytes and a fuzzer test it.
//   - flow.go: credits. Who may send when is a state machine, without locks, time or I/O: a test plays two of them against each other in
//     any order of events. Most mistakes of a protocol are here, and this is where they are cheap to find.
//   - regpool.go: memory that a transfer is about is registered by work requests, with regions that a pool keeps.
//   - buffers.go: the messages' own memory is registered once.
//   - conn.go: a queue pair with its completions. Everything that is under way is in its tables.
//   - receive.go, transfer.go, op.go: the protocol. A transfer is an op, which counts what holds it, and ends when nothing does.
//   - teardown.go: the end of a connection, whatever was under way.
//   - transport.go, rdmacm.go: what it takes to connect, as a small interface, and that by IP address. Tests have another one.
//   - peer.go, node.go: who is connected to whom, and what the application sees.
//
// # Rules worth taking over
//
// Post receives before the peer may send, and never send without knowing of one: credits (flow.go). They go back with whatever is sent, or, when
// half of them have gathered, in a message of their own. Keep apart what asks from what answers: a message that answers costs no credit,
// since its buffer was kept when the request was sent. Otherwise both ends could wait for each other.
//
// Whoever holds one thing while waiting for another must not be able to take all of it: the regions of the pool are divided between transfers
// that wait for the peer and those that do not (regpool.go).
//
// Do not let a callback wait. The pump of the completion queue only moves tables; the application's handlers, which may wait, run elsewhere,
// in order, one at a time for each connection. Their slowness reaches the peer as a lack of credits, and nobody else.
//
// Post what belongs together in one list: invalidation, registration, WRITEs, and the message that says they are done. Requests of a queue
// are carried out in order, so nobody has to wait in between, and one completion tells of all.
//
// Take the peer's key away before memory goes back to its owner (conn.invalidate). Only then is it certain that nothing writes there
// any more. This is stricter than the Linux implementation, which leaves that to the region's next use.
//
// What is under way when a queue pair dies comes back flushed: the only way to learn that the adapter has let go of memory. So end in
// this order: the queue pair to Error, wait for everything that was posted, destroy it, then tell the callers (teardown.go). Each op's
// finish is called once, on every way.
//
// Ask for what you would like, and live with less: the depth of queues goes down until a queue pair can be made (conn.create), and the peer
// learns the number that it became.
//
// A name outlives a process. The incarnation in every message tells a restarted peer from the one before.
//
// # What Linux does and this does not
//
// Version 1 of the protocol, several connections to a peer, routers, large NIDs and IPv6, device failover, and the reserved source ports. IMMEDIATE
// messages carry their payload in the message's buffer, not in a piece of its own.
package lnd
