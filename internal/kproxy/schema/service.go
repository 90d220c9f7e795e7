package schema

import "ciddk/ci"

// OpenServices opens the services of the daemon's access layer for a client. All objects of the services are children
// of the new object. Notices of all of them are delivered to Async, each with the token of its object; see EventNotice.
// The notice of this object reports that adapters or ports were added or removed: QueryServices returns them.
type OpenServices struct {
	Token uint64
	Async Handle `handle:"event queue"`
}

// Services is a request that names the services of a client.
type Services struct {
	Services Handle `handle:"services"`
}

// QueryServicesReply contains the adapters that are present, and the ports that have MAD services. A serial number is
// never used again, so that a port which was removed and added has another one.
type QueryServicesReply struct {
	HCAs     []ServiceHCA  `max:"64"`
	Ports    []ServicePort `max:"1024"`
	Reserved uint64
}

// ServiceHCA is an adapter.
type ServiceHCA struct {
	GUID   ci.GUID
	Serial uint64
}

// ServicePort is a port with MAD services.
type ServicePort struct {
	Port   PortID
	Serial uint64
}

// PortID is mads.Port.
type PortID struct {
	CA  ci.GUID
	Num uint8
	Pad [7]uint8
}

// TakeNotice takes the oldest notice of a listener, a connection or a lookup.
type TakeNotice struct {
	Object Handle `handle:"any"`
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint32

// The kinds of notices.
const (
	NoticeNone     NoticeKind = iota // nothing waits
	NoticeOutcome                    // a step has ended
	NoticeEvent                      // an event of a connection
	NoticeAccepted                   // CMAccept: Object is the new object
)

// Notice is the reply of TakeNotice.
type Notice struct {
	Kind    NoticeKind
	Event   uint32 // NoticeEvent: cm.EventType
	Op      uint64 // that of the request; NoticeEvent: 0
	Object  Handle // NoticeAccepted: the connection or lookup request
	Path    CMPath // with HasPath: cm.Event.Path; that of a lookup request
	From    MADAddress
	QPN     ci.QPN  // outcome of CMLookup
	QKey    ci.QKey // outcome of CMLookup
	Waiting uint32  // number of notices that wait, up to 1,000
	HasPath bool
	Pad     [3]uint8
	Error   ServiceError
	Message []byte `max:"232"` // a LAP, an APR or a SIDR_REQ without its header
	Private []byte `max:"232"`
}

// ErrorCode is the type of a ServiceError.
type ErrorCode uint32

// The types of errors.
const (
	ErrorNone        ErrorCode = iota
	ErrorStatus                // *ci.Error with Status
	ErrorOther                 // any other error
	ErrorCanceled              // the client sent Cancel
	ErrorClosed                // the object was closed
	ErrorTimeout               // cm.ErrTimeout
	ErrorReject                // *cm.RejectError
	ErrorUnreachable           // *cm.UnreachableError; Number is the errno
	ErrorAlternate             // *cm.AlternateError; Info is the APR
	ErrorLookup                // *cm.LookupError
	ErrorRMPP                  // Number is the status of mads.RMPPError, Reason is 1 if the peer reported it
)

// ServiceError is the error of a step.
type ServiceError struct {
	Code    ErrorCode
	Status  uint32 // ci.Status
	Number  uint32
	Reason  uint16 // of a REJ or a SIDR_REP
	Message uint8  // mad.CMWhich
	Pad     uint8
	GID     ci.GID
	Info    []byte `max:"232"`
	Private []byte `max:"232"`
	Verb    string `max:"1024"`
	Detail  string `max:"1024"`
}

// Cancel ends the step of an object that was started with the operation number Op. The outcome follows, unless it waits
// already.
type Cancel struct {
	Object Handle `handle:"any"`
	Op     uint64
}

// BindPort takes a port of a port space (cmid.Ports).
type BindPort struct {
	Services Handle `handle:"services"`
	Addr     [16]uint8
	Space    uint16
	Port     uint16
	Family   uint8 `max:"6"` // 4, 6, or 0 for any address of both
	Reuse    bool
	Pad      [2]uint8
	Zone     string `max:"255"` // of Addr
	Reserved uint32
}

// BindPortReply contains the port.
type BindPortReply struct {
	Handle Handle
	Port   uint16
	Pad    [6]uint8
}

// ListenPort excludes other bindings of a port, or ends that.
type ListenPort struct {
	Port   Handle `handle:"port"`
	Listen bool
	Pad    [7]uint8
}
