package ci

// The interfaces in this file are optional: a driver may implement them, and consumers find them with As.

// Undelivered is a report of the network that a datagram did not reach its destination, such as an ICMP error. Anybody
// who can send packets to this machine can cause such a report, so it is a hint: a consumer may use it to end an
// attempt that has not been answered yet, and for nothing else.
type Undelivered struct {
	Port uint8 // counted from 1
	To   GID   // the datagram's destination
	// Payload is the beginning of the datagram's payload, as far as the report quotes it. It is valid during the call
	// only.
	Payload []byte
	// Err is the cause: syscall.ECONNREFUSED (no process receives there), EHOSTUNREACH, ENETUNREACH, or another error
	// of the system.
	Err error
}

// UndeliveredReporter is an HCA that reports datagrams of QP1 that the network could not deliver.
type UndeliveredReporter interface {
	// OnUndelivered registers fn for the reports from now on. fn is called for one report at a time for each port, on a
	// goroutine of the driver, and must not block. stop ends the calls; it waits for one that runs, and is idempotent.
	OnUndelivered(fn func(Undelivered)) (stop func())
}

// PeerActivity is a connected QP that counts the packets of its peer.
type PeerActivity interface {
	// PeerActivity returns a number that grows with the peer's packets that were accepted: requests that were executed,
	// and responses. It may be called in every state.
	PeerActivity() uint64
}
