package rvt

import (
	"errors"

	"ciddk/ci"
	"ciddk/clock"
)

// ErrPortStarted is wrapped by the error of Port.Start for a port that serves an adapter, has served one, or is closed.
var ErrPortStarted = errors.New("the port was started before, or is closed")

// A Port moves packets between the engine and a link, and represents the link in the verbs. Each port of an HCA has
// one.
//
// The package of a link makes its ports: udp.New, direct.New, sim.New and the like. A port holds its resources (a
// socket, an address of a network) from then on. It becomes the adapter's with the call of New, whose Config.Ports
// names it: New closes all ports when it fails, and HCA.Close closes them later. A port that was never passed to New is
// closed by its maker. A port serves one adapter, once.
//
// All methods may be called concurrently. Beside these methods a port may have those of the optional interfaces in this
// file. Callers look them up with ci.As, which finds them behind wrappers, too: a port that wraps another one has the
// method Unwrap() any and implements only those interfaces whose behavior it changes.
type Port interface {
	// Start connects the port with its adapter. The port delivers nothing before. New calls it once. A port that was
	// started before or is closed returns ErrPortStarted. If Start fails, so does New.
	Start(c PortContext) error

	// Attr returns a snapshot of the port's attributes. New fills in Num, and GUID if it is zero. Link, MTU, MaxMTU and
	// the size of the P_Key table are valid before Start; what depends on the adapter, such as GIDs made from its GUID,
	// is valid afterwards.
	Attr() ci.PortAttr

	// Modify executes CA.Modify for the fields that belong to the link (capability mask, shutdown, init type). The
	// engine keeps the P_Key and Q_Key violation counters.
	Modify(set ci.PortField, attr ci.PortModify) error

	// Route compiles an address for packets of one kind. It neither blocks nor allocates more than its result. Errors:
	// ci.InvalidParameter for an address that this link cannot reach, ci.InvalidIndex for a source GID that does not
	// exist.
	Route(av *ci.AVAttr, f Flow) (Route, error)

	// Send puts packets on the link, in order. The port uses neither packets nor payload after Send has returned. Send
	// does not block longer than a system call. Packets that cannot be sent are dropped and counted, as on any network.
	Send(pkts []Packet)

	// Hints returns constants of the port.
	Hints() Hints

	// Close stops the port and releases what it holds. No delivery runs when Close returns, and none begins afterwards.
	// It is idempotent.
	Close() error
}

// A PortContext is what a port gets from its adapter.
type PortContext struct {
	// Receiver takes the packets and events of the port.
	Receiver Receiver
	// Clock is the adapter's source of time.
	Clock clock.Clock
	// Node describes the adapter.
	Node Node
	// Num is the number of the port, counted from 1.
	Num uint8
	// Counters returns a snapshot of the engine's counters by name. It may be called at any time, also from Start.
	Counters func() map[string]uint64
	// Undelivered, if not nil, takes the network's reports of datagrams that did not arrive. The receiver sets their
	// field Port.
	Undelivered func(ci.Undelivered)
	// Lost, if not nil, is called for packets that the port drops on its own. It neither blocks nor calls the port. A
	// wrapper sets it to learn what the ports below it drop.
	Lost func(Loss)
}

// A Node describes an adapter as subnet management reads it (NodeInfo and NodeDescription; IBTA volume 1, 14.2.5).
type Node struct {
	GUID, SystemGUID   ci.GUID
	NumPorts           uint8
	VendorID           uint32 // 24 bits
	DeviceID, Revision uint16
	Description        string // at most 64 bytes
}

// A Direction is that of a packet at a port.
type Direction uint8

// Directions.
const (
	Sent Direction = iota
	Received
)

// A Loss is a packet that a port dropped.
type Loss struct {
	Direction Direction
	// Packet is the packet, or the train. It is valid during the call. If it is nil, Frame holds the packet.
	Packet *Packet
	// Frame holds the bytes of a packet that was received and could not be decoded, in the form of
	// EncoderPort.EncodeFrame. The callee may keep it.
	Frame []byte
	// Reason is the name of the counter that counts the packet.
	Reason string
}

// A Flow describes the packets that will use a route.
type Flow struct {
	Local, Remote ci.QPN // Remote 0: many (datagrams)
	Datagram      bool
}

// A Route is a compiled address of the port that made it. The engine compares routes, so their types are comparable, as
// pointers are.
type Route interface {
	// Peer returns the address that packets coming back along this path carry as their source.
	Peer() Addr
}

// A LocalRoute is a Route of a port whose packets carry GIDs. A connected QP drops packets that are addressed to
// another GID of its port, or to a multicast group (IBTA volume 1, 9.6.1.2).
type LocalRoute interface {
	Route
	// Local returns the GID that the packets of the route come from, and that packets coming back carry as their
	// destination. It is zero for packets without a GRH.
	Local() ci.GID
}

// localGID returns the GID of a LocalRoute, or zero.
func localGID(r Route) ci.GID {
	if l, ok := r.(LocalRoute); ok {
		return l.Local()
	}
	return ci.GID{}
}

// Hints are properties of a link that the engine adapts to.
type Hints struct {
	// MaxTrain is the most payload bytes in one train; at least one MTU. 0: one packet.
	MaxTrain int
	// Window is the most payload bytes that a QP should have on the way unacknowledged; 0: no limit but the PSN window.
	// It represents the receive buffering of a peer on a link without flow control.
	Window int
	// Packets is the most packets that a QP should have on the way unacknowledged where there is a Window, since each
	// costs the peer a buffer however small it is; 0: 256.
	Packets int
	// Lossless links deliver everything, in order, before Send returns or soon after: the engine need not request
	// acknowledgements before the end of a message.
	Lossless bool
	// StrictSource makes a connected QP drop packets from its peer's address whose Packet.Entropy differs from
	// PeerEntropy or, if that is 0, from the value of the first packet that the QP accepted.
	StrictSource bool
	// PeerEntropy is the Packet.Entropy of all peers' packets; 0: not known.
	PeerEntropy uint16
}

// A Driver is a Port whose receiving side can be run by a caller: the engine calls Drive when a consumer polls an empty
// CQ.
type Driver interface {
	// Drive receives what is there without blocking and delivers it to the Receiver with polled true. It returns the
	// number of packets. It returns 0 at once when another goroutine is receiving.
	Drive() int
	// Attend reports that a consumer has armed a CQ and is about to sleep. A port that had left receiving to the
	// consumers that poll receives by itself again, at once. Attend is cheap and does not block.
	Attend()
}

// A BacklogPort is a Port in which packets that have arrived may wait until a goroutine receives them. A transport
// timer counts a timeout only after CatchUp, since the acknowledgement may be among them.
type BacklogPort interface {
	// CatchUp delivers what had arrived before the first call of a series, and reports whether all of it has been
	// delivered. A series begins with mark 0; each further call passes the mark that the one before returned. CatchUp
	// does not block: it reports false while another goroutine receives. The work of one call is bounded even if
	// packets arrive faster than they are delivered. The caller holds no lock.
	CatchUp(mark uint64) (next uint64, done bool)
}

// A GroupPort is a Port that joins multicast groups (with IGMP or MLD). The engine balances the calls. An Ethernet port
// of an HCA with ci.CapMulticast is one.
type GroupPort interface {
	JoinGroup(gid ci.GID) error
	LeaveGroup(gid ci.GID) error
}

// A GroupLimitPort is a GroupPort that cannot join as many groups as the engine has room for. The HCA reports no more
// (ci.CAAttr.MaxMcastGroups).
type GroupLimitPort interface {
	MaxGroups() int
}

// A CounterPort is a Port with counters of its own. HCA.Counters adds them to the engine's, those of wrapped ports
// included.
type CounterPort interface {
	// AddCounters adds the port's counters to m, by name. It does not call the ports that this one wraps.
	AddCounters(m map[string]uint64)
}

// A CablePort is a Port whose cable can be pulled out and plugged in, by HCA.SetLink.
type CablePort interface {
	// SetLink plugs in or pulls out the cable. It raises the events that follow.
	SetLink(up bool)
}

// A QueuePort is a Port that queues packets before it puts them on the link.
type QueuePort interface {
	// FlushQP removes the packets that a QP has sent and that are still queued. The engine calls it for each port when
	// a QP is reset or destroyed and sends no more. A port finds the packets of a QP by Flow.Local of their route, and
	// datagrams by Packet.SrcQP. Packets that have left the queue are on the link. FlushQP does not call the adapter.
	FlushQP(num ci.QPN)
}

// A GUIDPort is a Port that suggests a node GUID, for an adapter whose first port it is and whose configuration has
// none.
type GUIDPort interface {
	NodeGUID() ci.GUID
}

// A SystemGUIDPort is an InfiniBand port whose node has the system image GUID of the adapter
// (NodeInfo.SystemImageGUID). With an agent of its own (ci.PortAttr.HardwareAgents) it reports a change to the subnet
// manager, too (trap 145; IBTA volume 1, 14.2.5.1).
type SystemGUIDPort interface {
	// SetSystemGUID changes the system image GUID of the node. Ports of one node get the same one.
	SetSystemGUID(g ci.GUID)
}

// An SMAPort is a Port with a subnet management agent, as InfiniBand ports have (IBTA volume 1, chapter 14).
type SMAPort interface {
	// SubnetMAD executes a subnet management datagram, by LID or by directed route, on the port's agent. It overwrites
	// out with the response, or with zeros where none is due (a trap repress; an M_Key that does not match, 14.2.4.1).
	SubnetMAD(in, out *ci.MAD)
}

// A TrustedSMAPort is an SMAPort of hardware whose driver needs no M_Key.
type TrustedSMAPort interface {
	SMAPort
	// TrustedMAD is SubnetMAD without a check of the M_Key, and without an effect on its lease.
	TrustedMAD(in, out *ci.MAD)
}

// A ViolationPort is an InfiniBand port whose node counts packets with a wrong key. With an agent of its own
// (ci.PortAttr.HardwareAgents) it reports them to the subnet manager, too (traps 257 and 258; IBTA volume 1, 14.2.5.1).
// For a port without an agent the engine raises ci.EventPKeyTrap or ci.EventQKeyTrap.
type ViolationPort interface {
	// KeyViolation reports a received packet that was dropped because its P_Key or, with qkey true, its Q_Key did not
	// match. The caller may hold the token of a QP: KeyViolation neither blocks nor waits for a QP.
	KeyViolation(v ci.KeyViolation, qkey bool)
}

// An EncoderPort is a Port whose packets have a form in bytes. A capture needs it.
type EncoderPort interface {
	// EncodeFrame returns a single packet as it is on the link: of an Ethernet port from the IP header to the ICRC, of
	// an InfiniBand port from the LRH to the VCRC. It returns nil if the packet has no such form. p.N is 1.
	EncodeFrame(d Direction, p *Packet) []byte
}

// A Receiver takes what a port receives. The engine implements it.
type Receiver interface {
	// Deliver takes received packets, in order. The receiver does not use the packets or their payload after Deliver
	// has returned. wait reports that the caller holds no lock of the engine further up its stack (it is not inside a
	// Send), so that Deliver may wait for a busy QP instead of copying. polled reports that a consumer's Poll runs the
	// port, so that acknowledgements may wait for FlushAcks or for the consumer's next post.
	Deliver(pkts []Packet, wait, polled bool)

	// FlushAcks sends the acknowledgements that polled deliveries left waiting. A port calls it when a Drive finds
	// nothing, and at least every millisecond while polled deliveries go on.
	FlushAcks()

	// PortEvent reports a change of the port. The engine refreshes its copy of the port's attributes before it passes
	// the event on. The type 0 reports a change for which there is no event, such as that of an MTU.
	PortEvent(t ci.EventType)

	// Count adds n to a counter of the port: one of those that the engine has for what ports drop (DropICRC,
	// DropMalformed, …).
	Count(c Counter, n int)
}
