package ci

// The interfaces in this file are optional: a driver may implement them, and consumers find them with As.

// Undelivered is a report of the network that a datagram did not reach its destination, such as an ICMP error. Reports come from anybody
// who can send to this machine, so they are hints: a consumer may end an attempt by them that got no answer yet, and nothing else.
type Undelivered struct {
	Port uint8 // 1-based
	To   GID   // the datagram's destination
	// Payload is the beginning of the datagram's payload, as far as the report quotes it. It is valid during the call only.
	Payload []byte
	// Err is the cause: syscall.ECONNREFUSED (no process receives there), EHOSTUNREACH, ENETUNREACH, or another one of the system's.
	Err error
}

// UndeliveredReporter is an HCA that reports datagrams of QP1 that the network could not deliver.
type UndeliveredReporter interface {
	// OnUndelivered has fn called with each report from now on: one at a time for each port, on a goroutine of the driver. fn must not
	// block. stop ends the calls; it waits for one that runs, and is idempotent.
	OnUndelivered(fn func(Undelivered)) (stop func())
}

// PeerActivity is a connected QP that notices when its peer was heard last.
type PeerActivity interface {
	// PeerActivity returns a number that grows with the packets of the peer that were accepted: requests that were executed, and
	// responses. It may be called in every state.
	PeerActivity() uint64
}
