package reference

import (
	"io"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/rvt"
)

// Config describes an HCA. Ports is required.
type Config struct {
	// Ports are the HCA's ports: Ports[i] is port i+1. At least one. New takes them over: it closes all of them when it
	// fails, and HCA.Close closes them later.
	Ports []rvt.Port
	// GUID is the node's; 0 is the one that the first port suggests (rvt.GUIDPort): a UDP port has one made from its
	// address, the same in every run. If the port suggests none, GUIDs are counted up within the process.
	GUID ci.GUID
	// Clock is the source of time; nil is the machine's.
	Clock clock.Clock
	// Rand is where keys, QP numbers and the like come from; nil is crypto/rand. For runs that must replay.
	Rand io.Reader
	// QueueMemory is the limit, in bytes, of all queues of the HCA together, and InboxMemory that of packets that wait
	// for busy QPs: see rvt.Config. 0: 4 GiB and 64 MiB.
	QueueMemory, InboxMemory int64
	// Override replaces verbs: see package ciwrap.
	Override ciwrap.Layer
	// Caps, if not 0, limits the capabilities that the HCA claims, for a smaller HCA in tests.
	Caps ci.Caps
	// Attr overrides limits and identity where it is not zero (MaxQPs, MaxCQEs, VendorID, …). Its Caps are ignored:
	// see Config.Caps.
	Attr ci.CAAttr
	// QPN, if not nil, returns the numbers of new QPs, for peers that expect certain ones; see rvt.Ops.
	QPN func(ci.QPCreate) (ci.QPN, error)
	// OnSuspicion, if not nil, is called with reports of packets that the peer of a connected QP would hardly send: see
	// rvt.Suspicion. Calls are made one at a time. OnSuspicion must not call Close.
	OnSuspicion func(rvt.Suspicion)
	// Rings makes the queues; nil is rings.RXE{}, on the Go heap.
	Rings rvt.Rings
	// UserMemory is the size, in bytes, of the memory that the HCA shares with each client process that has a user
	// library, for the queues of the process: a multiple of 4096; 0 is 1 GiB. Only what queues use is occupied.
	UserMemory int64
	// UserIdle is how long the HCA looks for new work of such a process before it sleeps and the process must ring a
	// doorbell, a system call. 0 is 50 us.
	UserIdle time.Duration
	// CNPInterval is the least time between two congestion notifications that a QP sends; see rvt.Config. 0: 4 us. Less
	// than 0: none are sent.
	CNPInterval time.Duration
	// NodeDescription is the text that subnet management reads, at most 64 bytes; "" is "ciddk reference HCA".
	NodeDescription string
}
