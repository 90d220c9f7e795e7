package rdmacm

import (
	"math/rand/v2"
	"net"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// Port spaces. Ports of different spaces have nothing to do with each other.
const (
	TCP = mad.PortSpaceTCP // connections: RC, UC
	UDP = mad.PortSpaceUDP // datagrams: UD
	IB  = mad.PortSpaceIB  // either
)

// QKey is that of datagrams and groups of port space UDP, as Linux has it.
const QKey ci.QKey = 0x01234567

// Private data that is left for the application, in bytes. Shorter data is filled up with zeros, and what comes has always full length.
const (
	ConnectLen  = mad.REQConsumerLen     // ConnParam.Private of Connect
	LookupLen   = mad.SIDRREQConsumerLen // the same of datagrams
	AcceptLen   = mad.REPPrivateLen      // of Accept
	AnswerLen   = mad.SIDRREPPrivateLen  // the same of datagrams, and of Reject
	RejectLen   = mad.REJPrivateLen      // of Reject
	NativeLen   = mad.REQPrivateLen      // of Connect with IDConfig.Service, where no IP header takes room
	NativeUDLen = mad.SIDRREQPrivateLen
)

// Config says what a Manager stands on.
type Config struct {
	// CM and MAD are the services to use, local ones or a daemon's. MAD may be nil: then InfiniBand ports need a Resolver, and have
	// no multicast.
	CM  cm.Service
	MAD mads.Service
	// Resolver finds ports and paths; nil: NewResolver's, that is the operating system's routing, the GID tables, and the subnet administrator.
	Resolver Resolver
	// Ephemeral is the range from which ports are taken for those who do not care, both included. 0: 32768 to 60999, as on Linux.
	Ephemeral [2]uint16
	// Rand makes starting PSNs and chooses ports; nil: unpredictable.
	Rand *rand.Rand
}

// OpenConfig describes what Open and OpenHCA create. The zero value is good for use.
type OpenConfig struct {
	// AccessLayer is the configuration of the access layer that OpenHCA creates: clock, logger and so on. Open does not use it.
	AccessLayer accesslayer.Config
	// MAD and CM are the configurations of the services.
	MAD mads.Config
	CM  cm.Config
	// Resolver and Ephemeral are those of Config.
	Resolver  Resolver
	Ephemeral [2]uint16
	// Rand is the source of everything that is random in the services: PSNs, ports, communication and transaction IDs. CM.Rand and MAD.FirstAgent
	// are made from it, unless they are set. nil: unpredictable. Together with a clock (AccessLayer.Clock, or a testing/synctest bubble) and a seeded HCA and
	// network, a run can be repeated.
	Rand *rand.Rand
	// OnClose, if not nil, is called at the end of Manager.Close, to close what the Manager stands on.
	OnClose func() error
}

// seed derives the sources of the services, which have a lock each.
func (c *OpenConfig) seed() {
	if c.Rand == nil {
		return
	}
	if c.CM.Rand == nil {
		c.CM.Rand = rand.New(rand.NewPCG(c.Rand.Uint64(), c.Rand.Uint64()))
	}
	if c.MAD.FirstAgent == 0 {
		c.MAD.FirstAgent = c.Rand.Uint32() | 1
	}
}

func (c *OpenConfig) onClose() func() error {
	if c.OnClose == nil {
		return func() error { return nil }
	}
	return c.OnClose
}

// IDConfig says what an ID is for. The zero value is a reliable connection of port space TCP.
type IDConfig struct {
	Space mad.PortSpace // 0: TCP
	// Type is the service of its QP: RC or UC, in space IB also UD; always UD in space UDP.
	Type ci.QPType
	// Service is a service ID of 64 bits, in port space IB. Then ports do not count, addresses are GIDs, and requests carry no IP header.
	Service mad.ServiceID
	// TrafficClass of packets: the upper six bits are the DSCP.
	TrafficClass uint8
	// PKey is the partition; 0: the default one.
	PKey ci.PKey
	// LifeTime is how long a packet may take to the peer, 4.096 us * 2^n, where no subnet administrator says so; the QP waits for an
	// acknowledgement twice as long. 0: 16, 268 ms.
	LifeTime mad.TimeExp
	// ReuseAddr allows another ID with ReuseAddr on the same address and port, as long as neither listens.
	ReuseAddr bool
}

// QPConfig describes the QP of an ID.
type QPConfig struct {
	// PD to make it from, of the ID's HCA; nil: ID.PD.
	PD *accesslayer.PD
	// QPCreate: Type is the ID's. Depths and pieces of 0 are 16 and 1 (not the receive depth with an SRQ). CQs that are nil are made, of
	// the QP's depths, and go with the ID: ID.SendCQ, ID.RecvCQ.
	ci.QPCreate
	// OneCQ makes one CQ for both queues, which SendCQ and RecvCQ both give: completions come in the order in which they happened. When a QP
	// fails, the one that says why is then before all that are flushed; of two CQs, a reader may see the flushed receives first. The CQ holds both
	// depths together, so their sum must be within what the HCA has (InvalidCQSize). Whoever waits gets completions of both kinds. Not with a SendCQ,
	// a RecvCQ or an SRQ.
	OneCQ bool
	// KeepAlive, with Enable, finds a peer that has gone without a word: when nothing was heard of it for Idle, it is probed, and when Count
	// Intervals have passed without an answer, the connection ends with ErrPeerLost; if the transport's own retries are used up before, then
	// at the next Interval. So the end comes at most 2*Idle + Count*Interval after the peer's last packet, and Idle + Count*Interval after the
	// last probe that it answered. 0 is 15 s, 15 s and 9, as in package net. A probe is an unsignaled zero-length RDMA WRITE, for which the
	// send queue gets one more place; the peer's QP must allow remote writes, as those of this package and of Linux do. RC only, and not with
	// SignalAll or ClientSyncSend. The driver must implement ci.PeerActivity (Unsupported). See KeepAliveID.
	KeepAlive net.KeepAliveConfig
	// OnEvent, if not nil, gets events of the QP, one at a time.
	OnEvent func(*accesslayer.QP, ci.Event)
	// Access is what the peer may do with memory that allows it. 0: all that the HCA can. Not for UD.
	Access ci.Access
}

// ConnParam are the terms of Connect and Accept. Zero values are what one wants mostly.
type ConnParam struct {
	// Private goes to the peer's application. Limits: ConnectLen and so on.
	Private []byte
	// ResponderResources are the READs and atomics that this end answers at a time, InitiatorDepth those it sends at a time. What is used is
	// the smaller of both ends' numbers. 0: 16, or what the HCA has if that is less. Negative: none.
	ResponderResources, InitiatorDepth int
	// Retries is how often a packet is sent again that is not acknowledged, RNRRetries when the peer has no receive posted; 7 is for ever there.
	// 0: 7. Negative: none.
	Retries, RNRRetries int
	// MinRNRTimer is the time after which the peer repeats a message that has met no receive here: an IBTA RNR code, 1 (10 us) to 31 (492 ms).
	// 0: 655 ms, as on Linux.
	MinRNRTimer uint8
	// FlowControl advertises that this end's acknowledgements carry credits (end-to-end flow control). Set it only for an HCA that sends them:
	// the reference HCA does not.
	FlowControl bool
	// QP describes a QP that is not the ID's: then nobody but the caller moves it. Datagrams: only Num counts.
	QP *cm.QP
	// QKey is what Accept tells who wants to send datagrams; 0: QKey of the package. Also that of an ID's QP.
	QKey ci.QKey
}

// DialIDConfig configures DialID: the ID, its queue pair and the connection.
type DialIDConfig struct {
	ID   IDConfig
	QP   QPConfig
	Conn ConnParam
	// Local is where to call from; the zero value: any.
	Local  netip.AddrPort
	lookup bool // datagrams: Connect only asks for the peer's QP, there is none here
	// Setup, if not nil, is called when there is a QP, and before the peer hears of it: post receives here. An error ends Dial.
	Setup func(*ID) error
}

// ListenIDConfig configures ListenID: the ID that listens and its backlog.
type ListenIDConfig struct {
	ID IDConfig
	// Backlog bounds the requests that wait for Accept; more are refused. 0: 128.
	Backlog int
}
