package schema

import "ciddk/ci"

// MaxMAD is the length of the longest datagram that a client sends, in bytes. Longer ones are received in parts.
const MaxMAD = 48 << 10

// MADAddress is mads.Address.
type MADAddress struct {
	AV        AVAttr
	QPN       ci.QPN
	QKey      ci.QKey
	PKeyIndex uint16
	Pad       uint16
}

// RegisterAgent creates an agent (mads.AgentConfig).
type RegisterAgent struct {
	Services         Handle `handle:"services"`
	Token            uint64
	Port             PortID
	Queue            uint32 `max:"65536"`
	Class            uint8
	Version          uint8
	OUI              [3]uint8
	SubnetManagement bool
	RMPP             bool
	Undelivered      bool    // reports of the network are received, too
	Methods          []uint8 `max:"128"`
	Name             string  `max:"1024"`
}

// SendMAD sends a datagram. With Op, which is not zero, it is a request, and its outcome can be taken with TakeMAD.
type SendMAD struct {
	Agent       Handle `handle:"agent"`
	Op          uint64
	To          MADAddress
	Timeout     int64 // nanoseconds
	Retries     int32
	MaxResponse int32  // bytes; 0: the limit of the daemon
	MAD         []byte `max:"49152"`
}

// TakeMAD takes the oldest datagram, outcome or report that an agent has received. The parts of a long one are taken
// with increasing offsets; the last part removes it.
type TakeMAD struct {
	Agent  Handle `handle:"agent"`
	Offset uint64
}

// MADKind is the kind of a TakeMADReply.
type MADKind uint32

// The kinds.
const (
	MADNone        MADKind = iota // nothing waits
	MADReceived                   // an unsolicited datagram
	MADOutcome                    // of the request Op
	MADUndelivered                // the network reports that a datagram was not delivered: SGID is its destination
)

// TakeMADReply is mads.Received in parts.
type TakeMADReply struct {
	Op         uint64
	Kind       MADKind
	Total      uint32 // bytes of the whole datagram
	Waiting    uint32 // number of those that wait, up to 1,000
	Dropped    uint32 // number of datagrams that were dropped since the previous reply, because too many waited
	From       MADAddress
	SGID, DGID ci.GID
	GRH        bool
	Pad        [3]uint8
	Error      ServiceError
	Data       []byte `max:"49152"`
}
