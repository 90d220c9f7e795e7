package cmid

import (
	"math/rand/v2"
	"net"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// Port spaces. A port of one space is independent of the same port of another.
const (
	TCP = mad.PortSpaceTCP // connections: RC, UC
	UDP = mad.PortSpaceUDP // datagrams: UD
	IB  = mad.PortSpaceIB  // connections and datagrams
)

// QKey is the Q_Key of datagrams and groups in port space UDP, the same as on Linux.
const QKey ci.QKey = 0x01234567

// Limits of the application's private data, in bytes. Shorter data is padded with zeros; received data always has the
// full length.
const (
	ConnectLen  = mad.REQConsumerLen     // ConnParam.Private of Connect
	LookupLen   = mad.SIDRREQConsumerLen // ConnParam.Private of Connect for datagrams
	AcceptLen   = mad.REPPrivateLen      // ConnParam.Private of Accept
	AnswerLen   = mad.SIDRREPPrivateLen  // ConnParam.Private of Accept, and Reject, for datagrams
	RejectLen   = mad.REJPrivateLen      // Reject
	NativeLen   = mad.REQPrivateLen      // Connect with IDConfig.Service, which sends no IP header
	NativeUDLen = mad.SIDRREQPrivateLen  // the same for datagrams
)

// Config describes the services that a Manager uses.
type Config struct {
	// CM and MAD are the services: a cm.Manager and a mads.Manager, or other implementations. MAD may be nil: then
	// InfiniBand ports need a Resolver, and have no multicast.
	CM  cm.Service
	MAD mads.Service
	// SA is the client of the subnet administrator for paths and groups on InfiniBand. The caller closes it after the
	// Manager. nil: one of the Manager's own over MAD.
	SA *sa.Client
	// Resolver finds ports and paths. nil: that of resolve.NewSystem, which uses the operating system's routing, the
	// GID tables, and the subnet administrator.
	Resolver resolve.Resolver
	// Ephemeral is the range, first and last port, from which ports are chosen when the program names none. 0: 32768 to
	// 60999, as on Linux.
	Ephemeral [2]uint16
	// Ports assigns ports; nil: a PortTable of the Manager. Ephemeral is not used with another one.
	Ports Ports
	// Rand chooses starting PSNs and ports; nil: unpredictable.
	Rand *rand.Rand
	// OnClose, if not nil, is called at the end of Manager.Close, to close what the Manager depends on.
	OnClose func() error
}

// IDConfig describes an ID. The zero value is a reliable connection of port space TCP.
type IDConfig struct {
	Space mad.PortSpace // 0: TCP
	// Type is the service of the QP: RC or UC, in space IB also UD; always UD in space UDP.
	Type ci.QPType
	// Service is a service ID of 64 bits, in port space IB. Then ports are ignored, addresses are GIDs, and requests
	// carry no IP header.
	Service mad.ServiceID
	// TrafficClass is that of packets: the upper six bits are the DSCP.
	TrafficClass uint8
	// PKey is the partition; 0: the default partition.
	PKey ci.PKey
	// LifeTime is the longest time that a packet takes to the peer, 4.096 us * 2^n, of paths that do not come from a
	// subnet administrator. The QP waits for an acknowledgement twice as long. 0: 16, 268 ms.
	LifeTime mad.TimeExp
	// ReuseAddr allows another ID with ReuseAddr on the same address and port, as long as neither listens.
	ReuseAddr bool
	// IPv6Only makes the unspecified address :: stand for IPv6 addresses only. Other addresses it does not change.
	IPv6Only bool
	// Events receives the events of the ID, and of the IDs that it accepts as a listener; nil: they come from ID.Next,
	// and requests from Listener.Accept.
	Events *EventChannel
}

// QPConfig describes the QP of an ID.
type QPConfig struct {
	// PD is the PD of the QP, on the ID's HCA; nil: ID.PD.
	PD *accesslayer.PD
	// Caps are the sizes of the queues. Depths of 0 are 16 (the receive depth not with an SRQ), numbers of SGEs of 0
	// are 1.
	Caps  ci.QPCaps
	Flags ci.QPFlags
	// CQs that are nil are created with the QP's depths, and belong to the ID: ID.SendCQ, ID.RecvCQ.
	SendCQ, RecvCQ ci.CQ
	// SRQ, if not nil, has the receives of the QP. It needs a RecvCQ.
	SRQ ci.SRQ
	// OneCQ creates one CQ for both queues, which both SendCQ and RecvCQ return. Completions then arrive in the order
	// in which they happened: when the QP fails, the completion with the reason precedes all flushed ones. With two
	// CQs, a reader may see the flushed receives first. The size of the CQ is the sum of both depths, which must be
	// within the HCA's limit (InvalidCQSize). Every wait returns completions of both kinds. OneCQ excludes a SendCQ, a
	// RecvCQ and an SRQ.
	OneCQ bool
	// KeepAlive, with Enable, detects a peer that has vanished. When nothing was received from it for Idle, it is
	// probed. When Count Intervals have passed without a reply, the connection ends with ErrPeerLost; if the
	// transport's own retries are used up before, it ends at the next Interval. The end comes at most 2*Idle +
	// Count*Interval after the peer's last packet, and Idle + Count*Interval after the last probe that it
	// acknowledged. 0 is 15 s, 15 s and 9, as in package net.
	//
	// A probe is an unsignaled zero-length RDMA WRITE, for which the send queue gets one more entry. The peer's QP must
	// allow remote writes, as those of this package and of Linux do. KeepAlive is for RC, and not with SignalAll or
	// ClientSyncSend. The driver must implement ci.PeerActivity (Unsupported). See KeepAliveID.
	KeepAlive net.KeepAliveConfig
	// OnEvent, if not nil, receives the events of the QP, one at a time.
	OnEvent func(*accesslayer.QP, ci.Event)
	// Access contains the rights of the peer, for memory that grants them as well. 0: all that the HCA supports. It is
	// not for UD.
	Access ci.Access
}

// ConnParam contains the parameters of Connect and Accept. The zero value suits most programs. Its name and its fields
// follow struct rdma_conn_param of librdmacm; a Conn has a ConnConfig instead.
type ConnParam struct {
	// Private goes to the peer's application. Limits: ConnectLen and so on.
	Private []byte
	// ResponderResources is the number of READs and atomics that this end answers at a time, InitiatorDepth the number
	// that it sends at a time. The connection uses the smaller of both ends' numbers. 0: 16, or the HCA's limit if that
	// is less. Negative: none.
	ResponderResources, InitiatorDepth int
	// Retries is how often a packet that is not acknowledged is sent again, RNRRetries how often when the peer has no
	// receive posted; of RNRRetries, 7 is without limit. 0: 7. Negative: none.
	Retries, RNRRetries int
	// MinRNRTimer is the time after which the peer sends a message again for which no receive was posted here: an IBTA
	// RNR code, 1 (10 us) to 31 (492 ms). 0: 655 ms, as on Linux.
	MinRNRTimer uint8
	// FlowControl announces that acknowledgements of this end carry credits (end-to-end flow control). Set it only for
	// an HCA that sends them: the reference HCA does not.
	FlowControl bool
	// QP describes a QP that is not the ID's: then only the caller modifies it. For datagrams, only Num is used.
	QP *cm.QP
	// QKey is the Q_Key that Accept sends to the peer of a datagram request; 0: QKey of the package. It is also set in
	// the ID's QP.
	QKey ci.QKey
}

// DialConfig configures Dial: the ID, its queue pair and the connection.
type DialConfig struct {
	ID   IDConfig
	QP   QPConfig
	Conn ConnParam
	// Local is the address from which to connect; the zero value: any.
	Local netip.AddrPort
	// NoQP creates no QP. It is for datagrams, when only the peer is looked up, and for QPs that Setup creates.
	NoQP bool
	// Setup, if not nil, is called when there is a QP, and before the request is sent: post receives here. An error
	// ends Dial.
	Setup func(*ID) error
}

// ListenConfig configures Listen: the ID that listens and its backlog.
type ListenConfig struct {
	ID IDConfig
	// Backlog bounds the requests that wait for Accept; more are rejected. 0: 128.
	Backlog int
}
