// Package userlib is the user library of the ConnectX-3: the part of the driver that runs in the processes of
// applications. New returns it for the user access layer, which calls its hooks.
//
// The queues of a process lie in memory that the daemon shares with it and maps for the adapter. Posting writes work
// queue entries to them, and polling reads completions, without a system call. The adapter finds new receives by the
// doorbell record, which is in the memory, too. For sends and for armed CQs the library rings a doorbell in the memory.
// The daemon writes it to the process's own page of doorbells; if the daemon sleeps, waking it is one system call.
//
// # What goes through the proxy
//
// All verbs that are not of the data path.
//
// # What a process with the library does not have
//
// Fast registration, which names storage by DMA addresses. OpLocalInv invalidates windows of type 2.
//
// # Concurrency
//
// Posts to one queue, and polls of one CQ, may run concurrently: each queue has a lock, which is not contended if one
// goroutine uses the queue. The callbacks of an armed CQ come through the proxy.
//
// # Failure of the adapter
//
// After a failure, outstanding requests complete with WCFlushErr when their CQ is polled, and posts return
// InvalidState.
package userlib
