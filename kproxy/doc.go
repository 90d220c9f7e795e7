// Package kproxy is the daemon's side of the process boundary: the session core, which executes the verbs of client
// processes. It is independent of the encoding that a client speaks. A front end, such as kproxy/native/server,
// receives messages, checks them against package schema and calls Session.Do and the methods of the data path.
//
//	s, err := kproxy.New(kproxy.Config{AL: al})
//	c, err := s.Open(kproxy.Peer{PID: pid, UID: uid}, 64, "name")
//	r, err := c.Do(&kproxy.Call{Command: schema.CmdAllocatePD, Body: &schema.AllocatePD{CA: ca}})
//	c.Close()      // everything that the client had is destroyed
//
// # Sessions
//
// A Session is one client process. It is also a client of the access layer, so that Close destroys its objects newest
// first, whatever the process was doing. Session.Close is the only cleanup: front ends call it when the socket is
// closed.
//
// Nothing that a client sends is trusted. Handles are looked up in the session's own table and checked for kind and
// generation, so a handle of another client, or of an object that no longer exists, is rejected. Objects, bytes of
// queues, registered memory and queued events are limited by Quota. Memory that a client passes by descriptor must be a
// memfd that is sealed against growing and shrinking, so that no access of the daemon faults. Memory that the client
// allocated itself is reached by cross-memory copies, which fail if the client unmaps it. Where the system does not
// permit them, the client copies; see schema.ServeCopies.
//
// # Objects
//
// Destroy follows package ci, and not the access layer: an object with children or users is busy.
//
// # Events
//
// A client creates event queues and reads events from their descriptors. The daemon writes an event at once if the
// socket has room; otherwise it keeps up to Quota.Events of them. Beyond that, an event replaces one of
// the same object, kind, type and port. Destroying an object discards its events that were not delivered, and reports
// how many were.
//
// # Services
//
// Commands that are not verbs are executed by Config.Service, such as package kproxy/services. Its objects are Items of
// the session: they have handles, quotas and events like others, and Close abandons them before it destroys the rest.
//
// # Concurrency
//
// Do may be called concurrently. The methods of the data path (PostSend, PostRecv, Poll, …) are called by one goroutine
// of the front end, in the order of arrival.
//
// # Sources
//
// SAS 2.4: a proxy that copies private data without interpreting it, tracks objects for callbacks and cleans up after
// abnormal exits. [SAS-2.4-06, -07, -10, -11, -15]
package kproxy
