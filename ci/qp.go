package ci

import "time"

// QP is a queue pair. Posts to its two queues may run concurrently with each other, with Poll and with Modify (but see
// QPClientSyncSend).
type QP interface {
	// Destroy is allowed in every state, with work outstanding. That work does not complete afterwards; entries that
	// are already in a CQ remain there.
	//
	// SAS: ci_destroy_qp (28). Status: ResourceBusy only while attached to a multicast group.
	Object

	// Num returns the QP number. It is constant, and unique in the CA among existing and quarantined QPs.
	Num() QPN

	// TimeWait quarantines the QP number for d after Destroy: it is not assigned to another QP. With zero, the default,
	// the driver chooses the time.
	//
	// SAS: the timewait argument of ci_destroy_qp (28), a verb of its own so that Destroy is one method for all
	// objects. Context: callback.
	TimeWait(d time.Duration)

	// PostSend appends work requests to the send queue, in order, and notifies the HCA once. n is the number of
	// requests that were accepted. If n < len(wrs), err is the reason why wrs[n] was not, and no request after it was
	// accepted. The driver copies all that it needs: the caller may reuse wrs, its SGLs, Inline and Ext after the
	// return. In states Error and SQError, requests are accepted and flushed.
	//
	// SAS: ci_post_send (55). Context: data. Status: InsufficientResources (queue full), InvalidQPState (Reset, Init,
	// RTR), InvalidWRType, InvalidMaxSGE, InvalidAVHandle, InvalidParameter (inline too long), Unsupported.
	// [SAS-2.1-21, -23, -24, SAS-2.3-19]
	PostSend(wrs []SendWR) (n int, err error)

	// PostRecv appends receive buffers to the receive queue, by the rules of PostSend.
	//
	// SAS: ci_post_recv (56). Context: data. Status: InsufficientResources, InvalidQPState (Reset), InvalidMaxSGE,
	// InvalidWRType (the QP has an SRQ).
	PostRecv(wrs []RecvWR) (n int, err error)

	// Query returns the attributes. The state decides which of them are meaningful. SAS: ci_query_qp (27). Context:
	// thread.
	Query() (QPAttr, error)

	// Modify moves the QP to attr.State (with QPFieldState in set), or changes attributes in place. Only the fields
	// named in set are read. A Modify that fails changes nothing. ToInit, ToRTR, ToRTS and the functions beside them
	// return the arguments for the usual transitions.
	//
	// SAS: ci_modify_qp (25); ci_ndi_modify_qp (26) is this verb with attr.User. Context: thread. Status:
	// InvalidQPState, InvalidPKey, InvalidPort, InvalidAPMState, InvalidParameter (missing, forbidden or out of range),
	// Unsupported. [SAS-2.3-11]
	Modify(set QPField, attr QPAttr) error

	// BindMW posts the bind of a type 1 window to the send queue, and returns the key that the window will have. Length
	// 0 unbinds. A bind that fails after the post completes with WCBindErr.
	//
	// SAS: ci_bind_mw (53). Context: data. Cap: CapMW1. Status: InvalidMWHandle, InvalidMRHandle, InvalidServiceType
	// (UD, special), InvalidRKey (b.Key is not the current key), InvalidPermission, InvalidQPState (Reset, Init, RTR),
	// InsufficientResources.
	BindMW(id uint64, flags SendFlags, b MWBind) (Key, error)

	// AttachMcast attaches a UD QP to a multicast group; Destroy of the result detaches it. Each attach has a handle of
	// its own.
	//
	// SAS: ci_attach_mcast (63). Context: thread. Cap: CapMulticast. Status: InvalidServiceType (not UD), InvalidGID
	// (neither FF00::/8 nor, on Ethernet links, an IPv4 group, ::ffff:224.0.0.0/4; or of an address family that the
	// port does not have), InvalidLID (not C000-FFFE; ignored on Ethernet), MaxMcastQPsReached, InsufficientResources.
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

// QPState is a state of the IBTA state diagram. Query returns QPSQDraining or QPSQD; the argument of Modify is QPSQD.
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

// QPCaps holds the sizes of a QP.
type QPCaps struct {
	SendDepth, RecvDepth int // work requests; RecvDepth is 0 with an SRQ
	SendSGE, RecvSGE     int // per work request
	MaxInline            int // bytes
}

// QPFlags is a set of promises of the consumer, which spare the driver checks and locks (create_qp_ex), and of options.
type QPFlags uint8

const (
	QPSignalAll      QPFlags = 1 << iota // every send request makes a completion
	QPClientSyncSend                     // the consumer serialises send posts with each other, Modify and Destroy
	QPClientSyncRecv                     // the same for receive posts
	QPNoOverflow                         // the consumer never posts more requests than the depth
)

// QPCreate describes a QP to create. All objects must belong to the same CA as the PD.
type QPCreate struct {
	QPCaps
	Type           QPType
	Flags          QPFlags
	SendCQ, RecvCQ CQ
	SRQ            SRQ // or nil
	RDD            RDD // RD only
	Context        any
	OnEvent        func(Event) // may be nil
	User           *UserBuffer // private data of the user library; nil in process
}

// QPAttr holds the attributes that Query returns and Modify sets.
type QPAttr struct {
	QPCaps
	Type           QPType
	Flags          QPFlags
	State          QPState
	CurrentState   QPState // Query: as State; Modify: the state that the consumer assumes (CapCurrentQPState)
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
	SQDEvent       bool // Modify to SQD: requests EventSQDrained
	PD             PD   // as created, with SendCQ, RecvCQ, SRQ; Modify ignores them
	SendCQ, RecvCQ CQ
	SRQ            SRQ
	User           *UserBuffer // Modify: private data of the user library; else nil
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

// QPField is a set of attributes that Modify sets. docs/sas has the table of required and optional fields of each
// transition.
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

// The fields that a transition of a connected QP requires. RC requires all of them, UC those that it has.
const (
	QPFieldsInit = QPFieldState | QPFieldPort | QPFieldPKeyIndex | QPFieldAccess
	QPFieldsRTR  = QPFieldState | QPFieldPrimary | QPFieldMTU | QPFieldDestNum | QPFieldRQPSN | QPFieldRespRes |
		QPFieldMinRNRTimer
	QPFieldsRTS = QPFieldState | QPFieldSQPSN | QPFieldAckTimeout | QPFieldRetryCount | QPFieldRNRRetry |
		QPFieldInitDepth
)

// The fields that the other services require. An unreliable connection has no acknowledgements. A datagram QP has a
// Q_Key and no peer. QP0 and QP1 take the datagram fields without the port, which they have from create.
const (
	QPFieldsUCRTR   = QPFieldState | QPFieldPrimary | QPFieldMTU | QPFieldDestNum | QPFieldRQPSN
	QPFieldsUCRTS   = QPFieldState | QPFieldSQPSN
	QPFieldsUDInit  = QPFieldState | QPFieldPort | QPFieldPKeyIndex | QPFieldQKey
	QPFieldsUDRTR   = QPFieldState
	QPFieldsUDRTS   = QPFieldState | QPFieldSQPSN
	QPFieldsSpecial = QPFieldState | QPFieldPKeyIndex | QPFieldQKey // Reset to Init; then as UD
)

// String returns the name of the state in IBTA volume 1, 10.3.1.
func (s QPState) String() string { return name(qpStateNames[:], int(s)) }

var qpStateNames = [...]string{"Reset", "Init", "RTR", "RTS", "SQD", "SQD draining", "SQError", "Error"}

// String returns the name of the service.
func (t QPType) String() string { return name(qpTypeNames[:], int(t)) }

var qpTypeNames = [...]string{"RC", "UC", "RD", "UD", "QP0", "QP1", "raw IPv6", "raw Ethertype"}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
