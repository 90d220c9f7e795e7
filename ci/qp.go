package ci

import "time"

// QP is a queue pair. Posts on the two queues may run concurrently with each other, with Poll and with Modify (but see ClientSyncSend).
type QP interface {
	// Destroy is legal in any state with work outstanding: that work never completes afterwards, but entries already in a CQ remain.
	// SAS: ci_destroy_qp (28). Status: ResourceBusy only while attached to a multicast group.
	Object

	// Num is constant, and unique in the CA among live and quarantined QPs.
	Num() QPN

	// TimeWait says for how long from now the number may not be issued again after Destroy; zero (the default) lets the driver choose.
	// SAS: the timewait argument of ci_destroy_qp (28), apart so that Destroy is one method for all. Context: callback.
	TimeWait(d time.Duration)

	// PostSend queues work in order and rings once. n requests were taken; if n < len(wrs), err says why wrs[n] was not, and nothing
	// after it was. The driver copies all it needs: wrs, its SGLs, Inline and Ext are the caller's again on return.
	// SAS: ci_post_send (55). Context: data. Status: InsufficientResources (queue full), InvalidQPState (Reset, Init, RTR),
	// InvalidWRType, InvalidMaxSGE, InvalidAVHandle, InvalidParameter (inline too long), Unsupported. In Error and SQError work is
	// taken and flushed. [SAS-2.1-21, -23, -24, SAS-2.3-19]
	PostSend(wrs []SendWR) (n int, err error)

	// PostRecv: same rules. SAS: ci_post_recv (56). Context: data. Status: InsufficientResources, InvalidQPState (Reset),
	// InvalidMaxSGE, InvalidWRType (the QP has an SRQ).
	PostRecv(wrs []RecvWR) (n int, err error)

	// Query: SAS ci_query_qp (27). Context: thread. Which fields are meaningful depends on the state.
	Query() (QPAttr, error)

	// Modify moves the QP to attr.State (QPFieldState set) or changes attributes in place. Only fields named in set count. A failure changes
	// nothing. SAS: ci_modify_qp (25); ci_ndi_modify_qp (26) is this with attr.User. Context: thread. Status: InvalidQPState,
	// InvalidPKey, InvalidPort, InvalidAPMState, InvalidParameter (missing, forbidden or out of range), Unsupported. [SAS-2.3-11]
	Modify(set QPField, attr QPAttr) error

	// BindMW posts the bind of a type 1 window to the send queue and returns the key it will have; Length 0 unbinds.
	// SAS: ci_bind_mw (53). Context: data. Cap: CapMW1. Status: InvalidMWHandle, InvalidMRHandle, InvalidServiceType (UD, special),
	// InvalidRKey (b.Key is not the current key), InvalidPermission, InvalidQPState (Reset, Init, RTR), InsufficientResources. Late
	// failure: WCBindErr.
	BindMW(id uint64, flags SendFlags, b MWBind) (Key, error)

	// AttachMcast joins a UD QP to a group; Destroy of the result leaves it. Each attach has its own handle.
	// SAS: ci_attach_mcast (63). Context: thread. Cap: CapMulticast. Status: InvalidServiceType (not UD), InvalidGID (neither FF00::/8 nor, on
	// Ethernet links, an IPv4 group, ::ffff:224.0.0.0/4; or of an address family that the port does not have), InvalidLID (not
	// C000-FFFE; ignored on Ethernet), MaxMcastQPsReached, InsufficientResources.
	AttachMcast(c McastAttach) (Mcast, error)
}

// QPType is the service of a QP.
type QPType uint8

const (
	RC QPType = iota
	UC
	RD
	UD
	QP0
	QP1
	RawIPv6
	RawEther
)

// QPState follows the IBTA state diagram. Query answers QPSQDraining or QPSQD; a Modify asks for QPSQD.
type QPState uint8

const (
	QPReset QPState = iota
	QPInit
	QPRTR
	QPRTS
	QPSQD
	QPSQDraining
	QPSQError
	QPError
)

// QPCaps are the sizes of a QP.
type QPCaps struct {
	SendDepth, RecvDepth int // work requests; RecvDepth 0 with an SRQ
	SendSGE, RecvSGE     int // per work request
	MaxInline            int // bytes
}

// QPFlags relax what a driver must guard (create_qp_ex).
type QPFlags uint8

const (
	SignalAll      QPFlags = 1 << iota // every send request makes a completion
	ClientSyncSend                     // posts to the send queue are serialised by the consumer, with each other and with Modify and Destroy
	ClientSyncRecv                     // and those to the receive queue
	NoOverflow                         // the consumer never posts more than the depth
)

// QPCreate describes a QP to make. All objects must be of the same CA as the PD.
type QPCreate struct {
	QPCaps
	Type           QPType
	Flags          QPFlags
	SendCQ, RecvCQ CQ
	SRQ            SRQ // or nil
	RDD            RDD // RD only
	Context        any
	OnEvent        func(Event) // may be nil
	User           *UserBuffer // private data of the user half; nil in process
}

// QPAttr is what Query gives and Modify takes.
type QPAttr struct {
	QPCaps
	Type           QPType
	Flags          QPFlags
	State          QPState
	CurrentState   QPState // Modify: the state the consumer believes in (CapCurrentQPState)
	Num, DestNum   QPN
	Port           uint8 // primary port
	Access         Access
	QKey           QKey
	SQPSN, RQPSN   PSN
	MTU            MTU   // of the path
	InitDepth      uint8 // reads and atomics outstanding as requester
	RespRes        uint8 // and as responder
	RetryCount     uint8 // 0-7
	RNRRetry       uint8 // 0-6, 7 = for ever
	MinRNRTimer    uint8 // IBTA RNR code: 0 = 655.36 ms, 1 = 0.01 ms … 31 = 491.52 ms
	Primary        Path
	Alternate      Path
	APM            APMState
	SQDEvent       bool // Modify to SQD: EventSQDrained wanted
	PD             PD   // as created, with SendCQ, RecvCQ, SRQ; Modify ignores them
	SendCQ, RecvCQ CQ
	SRQ            SRQ
	User           *UserBuffer // Modify: private data of the user half; else nil
}

// Path is one of the two paths of a connection.
type Path struct {
	AV         AVAttr
	PKeyIndex  uint16
	AckTimeout TimeExp // 4.096 us * 2^n, 0 = never
}

// APMState is the path migration state.
type APMState uint8

const (
	APMMigrated APMState = 1 + iota
	APMRearm
	APMArmed
)

// QPField names attributes in a Modify. docs/sas has the table of required and optional fields per transition.
type QPField uint32

const (
	QPFieldState QPField = 1 << iota
	QPFieldCurrentState
	QPFieldSQDEvent
	QPFieldAccess
	QPFieldPKeyIndex
	QPFieldPort
	QPFieldQKey
	QPFieldPrimary // Primary.AV
	QPFieldMTU
	QPFieldAckTimeout
	QPFieldRetryCount
	QPFieldRNRRetry
	QPFieldMinRNRTimer
	QPFieldRQPSN
	QPFieldSQPSN
	QPFieldInitDepth
	QPFieldRespRes
	QPFieldDestNum
	QPFieldAlternate // all of Alternate
	QPFieldAPM
	QPFieldSendDepth
	QPFieldRecvDepth
)

// The fields a transition of a connected QP needs at least; RC needs all, UC those it has.
const (
	QPFieldsInit = QPFieldState | QPFieldPort | QPFieldPKeyIndex | QPFieldAccess
	QPFieldsRTR  = QPFieldState | QPFieldPrimary | QPFieldMTU | QPFieldDestNum | QPFieldRQPSN | QPFieldRespRes | QPFieldMinRNRTimer
	QPFieldsRTS  = QPFieldState | QPFieldSQPSN | QPFieldAckTimeout | QPFieldRetryCount | QPFieldRNRRetry | QPFieldInitDepth
)

// The same for the other services: an unreliable connection has no acknowledgements, a datagram QP has a Q_Key and no peer. QP0 and
// QP1 take the datagram fields without the port, which is theirs from create.
const (
	QPFieldsUCRTR   = QPFieldState | QPFieldPrimary | QPFieldMTU | QPFieldDestNum | QPFieldRQPSN
	QPFieldsUCRTS   = QPFieldState | QPFieldSQPSN
	QPFieldsUDInit  = QPFieldState | QPFieldPort | QPFieldPKeyIndex | QPFieldQKey
	QPFieldsUDRTR   = QPFieldState
	QPFieldsUDRTS   = QPFieldState | QPFieldSQPSN
	QPFieldsSpecial = QPFieldState | QPFieldPKeyIndex | QPFieldQKey // Reset to Init; then as UD
)

// String names the state as IBTA volume 1, 10.3.1 does.
func (s QPState) String() string { return name(qpStateNames[:], int(s)) }

var qpStateNames = [...]string{"Reset", "Init", "RTR", "RTS", "SQD", "SQD draining", "SQError", "Error"}

// String names the service.
func (t QPType) String() string { return name(qpTypeNames[:], int(t)) }

var qpTypeNames = [...]string{"RC", "UC", "RD", "UD", "QP0", "QP1", "raw IPv6", "raw Ethertype"}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
