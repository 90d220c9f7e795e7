package rvt

import "ciddk/ci"

// Port moves packets between the engine and a link, and is the link's face to the verbs. A driver supplies one per port of the HCA.
// All methods may be called concurrently.
type Port interface {
	// Start gives the port its receiver; nothing is delivered before. It is called once, by New.
	Start(r Receiver) error

	// Attr is a snapshot of the port's attributes; Num and GUID are filled in by the engine when zero.
	Attr() ci.PortAttr

	// Modify carries out CA.Modify for the fields that belong to the link (capability mask, shutdown, init type). The engine owns
	// the P_Key and Q_Key violation counters.
	Modify(set ci.PortField, attr ci.PortModify) error

	// Route compiles an address for packets of one kind. It neither blocks nor allocates more than its result. Errors:
	// ci.InvalidParameter for an address this link cannot reach, ci.InvalidIndex for a source GID that does not exist.
	Route(av *ci.AVAttr, f Flow) (Route, error)

	// Send puts packets on the link, in order. When it returns, the port has let go of the packets and of their payload. It does not
	// block longer than a system call; what cannot be sent is lost and counted, as on any network.
	Send(pkts []Packet)

	// Hints are constant for the life of the port.
	Hints() Hints

	// Close stops the port: no delivery runs or will run when it returns. Idempotent.
	Close() error
}

// Flow is what a port may want to know of the packets that will use a route.
type Flow struct {
	Local, Remote ci.QPN // Remote 0: many (datagrams)
	Datagram      bool
}

// Route is a compiled address; only the port that made it understands it. The engine compares routes: their types are comparable, as pointers are.
type Route interface {
	// Peer is the address that packets coming back along this path carry as their source.
	Peer() Addr
}

// Hints shape what the engine hands to a port.
type Hints struct {
	// MaxTrain is the most payload bytes in one train; at least one MTU. 0: one packet.
	MaxTrain int
	// Window is the most payload bytes that a QP should have on the way unacknowledged; 0: no limit but the PSN window. It stands for
	// the receive buffering of a peer on a link without flow control.
	Window int
	// Packets is the most packets that a QP should have on the way unacknowledged where there is a Window, since each costs the peer a
	// buffer however small it is; 0: 256.
	Packets int
	// Lossless links deliver everything, in order, before Send returns or soon after: the engine need not ask for acknowledgements
	// before the end of a message.
	Lossless bool
	// StrictSource makes a connected QP drop packets from its peer's address whose Packet.Entropy differs from PeerEntropy or, if that
	// is 0, from the value of the first packet that the QP accepted.
	StrictSource bool
	// PeerEntropy is the Packet.Entropy of all peers' packets; 0: not known.
	PeerEntropy uint16
}

// Driver is a Port whose receiving side can be run by a caller: the engine calls Drive when a consumer polls an empty CQ.
type Driver interface {
	// Drive receives what is there without blocking and delivers it to the Receiver with polled true; it returns how many packets.
	// It returns 0 at once when somebody else is receiving.
	Drive() int
	// Attend says that a consumer has armed a CQ, and is about to sleep: the port receives by itself again, at once, if it had left that to
	// those who poll. It is cheap, and does not block.
	Attend()
}

// A BacklogPort is a Port in which packets that have arrived may wait until a goroutine receives them. A transport timer counts a timeout only
// after CatchUp, since the acknowledgement may be among them.
type BacklogPort interface {
	// CatchUp delivers what had arrived before the first call of a series, and reports whether all of it has been delivered. A series begins
	// with mark 0; each further call passes the mark that the one before returned. CatchUp does not block: it reports false while another
	// goroutine receives. The work of one call is bounded even if packets arrive faster than they are delivered. The caller holds no lock.
	CatchUp(mark uint64) (next uint64, done bool)
}

// GroupPort is a Port that must be told of multicast groups (an IGMP or MLD join). Calls are balanced by the engine.
type GroupPort interface {
	JoinGroup(gid ci.GID) error
	LeaveGroup(gid ci.GID) error
}

// Receiver is the engine, as a port sees it.
type Receiver interface {
	// Deliver hands in received packets, in order. The receiver is done with them and with their payload when it returns. wait says
	// that the caller holds no lock of the engine further up its stack (it is not inside a Send), so that Deliver may wait for a
	// busy QP instead of copying; polled says that a consumer's Poll is the driver, so that acknowledgements may wait for
	// FlushAcks or for the consumer's next post.
	Deliver(pkts []Packet, wait, polled bool)

	// FlushAcks sends the acknowledgements that polled deliveries left waiting. A port calls it when a Drive finds nothing, and at
	// least every millisecond while polled deliveries go on.
	FlushAcks()

	// PortEvent reports a change of the port; the engine refreshes its cache before consumers hear of it.
	PortEvent(t ci.EventType)

	// Count adds n to a counter of the port, one of the names that Port declares in its documentation (icrc, malformed, …).
	Count(c Counter, n int)
}
