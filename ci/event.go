package ci

// Event is an asynchronous event. Context is that of the object which the event concerns: of OpenCA or OnEvent for CA
// and port events, and of the create for QP, CQ, SRQ and EEC events. No handle is passed. [SAS-2.1-09, -10, -12]
//
// Callbacks run on a goroutine of the driver. They must not block, may call verbs of the contexts callback and data,
// and may run before the create has returned. Events of one object are delivered in order, one at a time. Events of
// different objects may be delivered at the same time.
type Event struct {
	Context any
	Type    EventType
	Port    uint8  // port events: counted from 1
	Vendor  uint64 // vendor-specific detail
	// Violation describes the packet of an EventPKeyTrap or EventQKeyTrap. It is nil if the hardware does not report
	// it, and in the process of a user.
	Violation *KeyViolation
}

// A KeyViolation is a received packet that was dropped because of its P_Key or Q_Key.
type KeyViolation struct {
	SLID, DLID LID
	SL         SL
	Key        uint32 // the packet's P_Key or Q_Key
	SrcQP      QPN    // 0 for packets of connections, which do not carry it
	DestQP     QPN
	SGID, DGID GID // zero without a GRH
}

// EventType is the kind of an event. Values are those of the headers.
type EventType uint8

const (
	EventSQError    EventType = 1 + iota // QP
	EventSQDrained                       // QP, if requested
	EventRQError                         // QP
	EventCQError                         // CQ
	EventQPFatal                         // QP
	EventQPComm                          // QP: first packet in RTR
	EventQPAPM                           // QP: path migrated
	EventLocalFatal                      // CA
	EventPKeyTrap                        // port, as the next traps
	EventQKeyTrap
	EventMKeyTrap
	EventPortTrap // capability changed
	EventSystemGUIDTrap
	EventBufferOverrun
	EventLinkIntegrity
	EventFlowControlError
	EventBKeyTrap
	EventQPAPMError     // QP: the peer's migration is ignored: not the alternate path, or the QP is not Armed
	EventWQReqError     // QP: the peer's request is illegal
	EventWQAccessError  // QP: the peer's access is denied
	EventPortActive     // port, CapPortActiveEvent
	EventPortDown       // port
	EventReregister     // port: the SM requests that clients register again
	EventSRQLimit       // SRQ: once per arming
	EventSRQFatal       // SRQ
	EventLastWQE        // QP with SRQ: no more receives will complete
	EventResetDriver    // CA, as the next three; vendor-specific
	EventResetClient    //
	EventResetEnd       //
	EventResetFailed    //
	EventLIDChange      // port, recommended, as the next three
	EventPKeyChange     //
	EventSMChange       //
	EventGIDChange      //
	EventResetForRemove // CA, vendor-specific
	EventCQOverflow     // CQ, vendor-specific detail; EventCQError is delivered as well
	EventPortInit       // port: the link has trained, and the port waits for a subnet manager
)

// String returns the name of the event.
func (t EventType) String() string { return name(eventNames[:], int(t)) }

var eventNames = [...]string{
	"no event", "SQ error", "SQ drained", "RQ error", "CQ error", "QP fatal", "QP communication established",
	"QP path migrated", "local fatal", "P_Key trap", "Q_Key trap", "M_Key trap", "port trap",
	"system GUID trap", "buffer overrun", "link integrity", "flow control error", "B_Key trap",
	"QP path migration error", "WQ request error", "WQ access error", "port active", "port down",
	"client reregister", "SRQ limit reached", "SRQ fatal", "last WQE reached", "reset driver", "reset client",
	"reset end", "reset failed", "LID change", "P_Key change", "SM change", "GID change", "reset for remove",
	"CQ overflow", "port init",
}
