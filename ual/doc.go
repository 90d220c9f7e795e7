// Package ual is the user access layer: a program uses through it the adapters that a daemon, such as ddkd, owns. Every
// adapter is a ci.HCA, so that everything that runs on package ci runs on it unchanged: the access layer, the
// certifier, upper protocols.
//
//	c, err := ual.Dial(ual.Config{Path: "/run/ddkd/socket"})
//	hcas, err := c.HCAs()
//	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil)
//	…
//	c.Close()
//
// # Verbs
//
// Every verb is one message to the daemon and its reply. One message carries a whole batch of PostSend, PostRecv or
// Poll. Verbs that take physical addresses or own a port exist only in the daemon: their capability bits are clear, and
// the verbs return Unsupported (special and raw QPs, RegisterPMR, FMRs, fast registration, MapDMA, OpenUser).
// OpLocalInv invalidates windows of type 2.
// CA.OnEvent is implemented here, for every driver.
//
// # Services
//
// Package ual/services implements the connection manager, the MAD services and the ports of package rdmacm with those
// of the daemon.
//
// # Memory
//
// Any memory of the process can be registered: memory whose Slice is at its Addr, such as ci.Bytes. The daemon reaches
// it by cross-memory copies, which the system permits for processes of one user; Dial grants the daemon that permission
// where the Yama security module requires it. Where the system does not permit it, a goroutine of the client copies for
// the daemon, and a transfer takes a message and its reply for each 64 KiB. Memory of other kinds is InvalidParameter.
// NewMemory allocates memory that is shared with the daemon instead. It needs no such permission, a transfer costs no
// system call, and remote atomics on it are atomic with respect to sync/atomic. CAAttr.Atomicity is at most
// AtomicLocal, because that is not so for other memory.
//
// # Events
//
// Each open CA reads completion events and asynchronous events from two descriptors, on two goroutines.
//
// # Errors
//
// Verbs return the daemon's *ci.Error. When the daemon exits or the connection is closed, all verbs in progress and
// later ones return ErrDisconnected with status InvalidState at once, and every open CA has the event EventLocalFatal.
// When an adapter is removed, its verbs return InvalidState after that event. Both hold for verbs that a vendor's
// library executes in shared memory, too: a poll returns the completions that are there, and then the error. In both
// cases the completion callback of every CQ is called, so that a program that waits for it polls and finds the error.
// The same happens when the daemon does not reply to a request within Config.CallTimeout, a minute by default, for
// example because it was stopped by a signal. The error then names the daemon, and memory that was registered stays
// allocated, because the daemon may still use it.
//
// # Sources
//
// SAS 2.4; steps 1 and 10 of its create. [SAS-2.4-04, -13, -16]
package ual
