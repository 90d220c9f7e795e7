// Package userlib is the user library of the reference HCA: the part of the driver that runs in the processes of
// applications. New returns it for the user access layer, which calls its hooks.
//
// The queues of a process lie in memory that the daemon shares with it. Posting writes to a ring in it, and polling
// reads one, without a system call; see package rings for the layout and the order of accesses. If the engine in the
// daemon sleeps, a post to a send queue rings a doorbell, which is one system call.
//
// # What goes through the proxy
//
// NotifyAfter, and all verbs that are not of the data path.
//
// # What a process with the library does not have
//
// Fast registration, large send offload and checksum offload. CA.Query does not claim them, and they return
// Unsupported. OpLocalInv invalidates windows of type 2.
//
// # Windows
//
// A bind names the window and the region by key. The library draws the keys of windows of type 1, so that QP.BindMW is
// a memory operation. MW.Query returns the key of the last bind that was posted.
//
// # Concurrency
//
// Posts to one queue, and polls of one CQ, may run concurrently: each queue has a lock, which is not contended if one
// goroutine uses the queue. The callbacks of an armed CQ come through the proxy.
//
// # A CQ and its QPs
//
// Both CQs of a QP, and its SRQ if it has one, must have queues in shared memory, too. They have if they were created
// in the same process with this library.
package userlib
