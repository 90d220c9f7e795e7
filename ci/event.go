package ci

// Event is an asynchronous event. Context is that of the object it concerns: of OpenCA or OnEvent for CA and port events, of the create for
// QP, CQ, SRQ and EEC events; no handle is passed. [SAS-2.1-09, -10, -12]
//
// Callbacks run on the driver's goroutine: they do not block, may call callback and data verbs, and may come before the create returned.
// One object's events come in order, one at a time; those of different objects may overlap.
type Event struct {
	Context any
	Type    EventType
	Port    uint8  // port events, 1-based
	Vendor  uint64 // vendor's detail
}

// EventType values are those of the headers.
type EventType uint8

const (
	EventSQError    EventType = 1 + iota // QP
	EventSQDrained                       // QP, when asked for
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
	EventQPAPMError     // QP: the peer asked to migrate and is not followed; its path is not the alternate one, or the QP not Armed
	EventWQReqError     // QP: peer's request illegal
	EventWQAccessError  // QP: peer's access denied
	EventPortActive     // port, CapPortActiveEvent
	EventPortDown       // port
	EventReregister     // port: SM asks clients to register again
	EventSRQLimit       // SRQ: once per arming
	EventSRQFatal       // SRQ
	EventLastWQE        // QP with SRQ: no more receives will come
	EventResetDriver    // CA, as the next three; vendor
	EventResetClient    //
	EventResetEnd       //
	EventResetFailed    //
	EventLIDChange      // port, recommended, as the next three
	EventPKeyChange     //
	EventSMChange       //
	EventGIDChange      //
	EventResetForRemove // CA, vendor
	EventCQOverflow     // CQ, vendor detail; EventCQError comes as well
	EventPortInit       // port: the link has trained, and the port waits for a subnet manager
)

// String names the event.
func (t EventType) String() string { return name(eventNames[:], int(t)) }

var eventNames = [...]string{"no event", "SQ error", "SQ drained", "RQ error", "CQ error", "QP fatal", "QP communication established",
	"QP path migrated", "local fatal", "P_Key trap", "Q_Key trap", "M_Key trap", "port trap", "system GUID trap", "buffer overrun",
	"link integrity", "flow control error", "B_Key trap", "QP path migration error", "WQ request error", "WQ access error",
	"port active", "port down", "client reregister", "SRQ limit reached", "SRQ fatal", "last WQE reached", "reset driver",
	"reset client", "reset end", "reset failed", "LID change", "P_Key change", "SM change", "GID change", "reset for remove",
	"CQ overflow", "port init"}
