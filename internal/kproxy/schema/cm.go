package schema

import "ciddk/ci"

// CMPath is cm.Path.
type CMPath struct {
	Port      PortID
	AV        AVAttr
	PKey      ci.PKey
	RemoteLID ci.LID
	MTU       ci.MTU
	LifeTime  uint8
	Pad       uint16
}

// CMQP is cm.QP. The number is that of a QP of the client.
type CMQP struct {
	Num      ci.QPN
	StartPSN ci.PSN
	Type     ci.QPType
	SRQ      bool
	Pad      uint16
}

// CMListen creates a listener (cm.ListenConfig).
type CMListen struct {
	Services  Handle `handle:"services"`
	Token     uint64
	ServiceID uint64
	Mask      uint64
	Port      PortID
	GID       ci.GID
	Offset    uint32 `max:"216"`
	Backlog   uint32 `max:"4096"`
	LID       ci.LID
	PKey      ci.PKey
	Datagram  bool
	Pad       [3]uint8
	Compare   []byte `max:"216"`
	Reserved  uint32
}

// CMAccept starts to accept a request. The notice of the listener contains a new connection or lookup request.
type CMAccept struct {
	Listener Handle `handle:"listener"`
	Op       uint64 `min:"1"`
	Token    uint64 // of the new connection
	Lookup   bool
	Pad      [7]uint8
}

// CMConnect creates a connection and sends its request (cm.ConnectConfig). The outcome is a notice of the connection.
type CMConnect struct {
	Services           Handle `handle:"services"`
	Token              uint64
	Op                 uint64 `min:"1"`
	ServiceID          uint64
	QP                 CMQP
	Primary            CMPath
	Alternate          CMPath // with HasAlternate
	Offset             uint32 `max:"216"`
	ResponderResources uint8
	InitiatorDepth     uint8
	RetryCount         uint8
	RNRRetry           uint8
	ResponseTime       uint8
	RemoteResponseTime uint8
	MaxRetries         uint8
	HasAlternate       bool
	FlowControl        bool
	Peer               bool
	Pad                [2]uint8
	Private            []byte `max:"232"`
	Compare            []byte `max:"216"`
}

// CMReply answers the request of a connection (cm.AcceptConfig). The outcome is a notice of the connection.
type CMReply struct {
	Conn               Handle `handle:"connection"`
	Op                 uint64 `min:"1"`
	QP                 CMQP
	ResponderResources uint8
	InitiatorDepth     uint8
	RNRRetry           uint8
	Failover           uint8
	FlowControl        bool
	Pad                [3]uint8
	Private            []byte `max:"232"`
}

// CMCall is a call of cm.Conn.
type CMCall uint32

// The calls.
const (
	CMConfirm CMCall = 1 + iota
	CMEstablished
	CMDelay           // Value is the time
	CMReject          // Value is the reason
	CMHandoff         // Value is the service ID
	CMAnswerAlternate // Value is the status
	CMDisconnect      // with Op; the outcome is a notice
	CMAnswerDisconnect
	CMMigrated
)

// CMConnCall calls a method of a connection.
type CMConnCall struct {
	Conn    Handle `handle:"connection"`
	Op      uint64
	Value   uint64
	Call    CMCall `min:"1" max:"9"`
	Info    []byte `max:"72"`
	Private []byte `max:"232"`
	Pad     uint32
}

// CMLoadAlternate proposes an alternate path. The outcome is a notice of the connection.
type CMLoadAlternate struct {
	Conn    Handle `handle:"connection"`
	Op      uint64 `min:"1"`
	Path    CMPath
	Private []byte `max:"232"`
	Pad     uint32
}

// CMConn is a request that names a connection.
type CMConn struct {
	Conn Handle `handle:"connection"`
}

// CMConnReply contains the attributes of a connection.
type CMConnReply struct {
	ID, RemoteID uint32
	State        uint32
	HasAlternate bool
	HasReply     bool
	Pad          [2]uint8
	TimeWait     int64 // nanoseconds
	Primary      CMPath
	Alternate    CMPath
	From         MADAddress
	REQ          [232]uint8 // without its header
	REP          [232]uint8 // with HasReply
	Pad2         uint32
}

// CMQPAttr requests the attributes that move the QP of a connection to a state, or those of its alternate path.
type CMQPAttr struct {
	Conn      Handle `handle:"connection"`
	State     ci.QPState
	Alternate bool
	Pad       [6]uint8
}

// CMQPAttrReply contains the attributes.
type CMQPAttrReply struct {
	Set  ci.QPField
	Attr QPAttr
}

// CMLookup sends a SIDR request (cm.LookupConfig). The outcome is a notice of the new object.
type CMLookup struct {
	Services  Handle `handle:"services"`
	Token     uint64
	Op        uint64 `min:"1"`
	ServiceID uint64
	Path      CMPath
	Timeout   int64 // nanoseconds
	Retries   int32
	Private   []byte `max:"232"`
}

// CMAnswerLookup answers a lookup request, which then does not exist any more.
type CMAnswerLookup struct {
	Request Handle `handle:"lookup request"`
	QPN     ci.QPN
	QKey    ci.QKey
	Status  uint32 `max:"255"` // 0: accepted
	Info    []byte `max:"72"`
	Private []byte `max:"232"`
	Pad     uint32
}
