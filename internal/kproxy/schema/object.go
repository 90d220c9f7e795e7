package schema

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
)

// Hello is the first request of a client. The daemon closes a connection that begins with another.
type Hello struct {
	Version     uint32 `min:"1"`
	PointerBits uint32 `min:"32" max:"64"` // of the client's process: 32 or 64
	Name        string `max:"1024"`        // for logs and status
	Reserved    uint32
}

// HelloReply describes the daemon.
type HelloReply struct {
	Version    uint32
	PID        uint32 // of the daemon, so that a client can let it reach its memory
	MaxMessage uint32 // bytes
	MaxBatch   uint32 // work requests, or completions, of a message
	MaxPending uint32 // requests without a reply that the daemon accepts; further ones wait in the socket
	Reserved   uint32
}

// ListHCAsReply contains the adapters that are present.
type ListHCAsReply struct {
	HCAs     []HCAInfo `max:"64"`
	Reserved uint32
}

// HCAInfo is ci.HCAInfo.
type HCAInfo struct {
	GUID     ci.GUID
	DriverID ci.GUID
	VendorID uint32
	Revision uint32
	Version  uint32
	DeviceID uint16
	Pad      uint16
	Library  string `max:"1024"`
	Reserved uint32
}

// CreateEventQueue creates a queue of events. The reply carries the descriptor that the events are read from; see
// Event.
type CreateEventQueue struct {
	Flags    uint32 `max:"0"`
	Reserved uint32
}

// Created is the reply of a create.
type Created struct {
	Handle Handle
	User   UserBufferReply
}

// Changed is the reply of a modify.
type Changed struct {
	User UserBufferReply
}

// Object is a request that names an object of any kind.
type Object struct {
	Handle Handle `handle:"any"`
}

// DestroyReply contains the number of events of the object that were delivered to its event queues, so that a client
// can wait until it has handled all of them. Events that were not delivered are discarded.
type DestroyReply struct {
	Completions uint64
	Async       uint64
	// Waiting is the number of completions that wait in the CQs of a QP, of other QPs, too. It is the largest number if
	// the driver cannot count them. A client that keeps data for a QP's completions may free it when Waiting is zero.
	Waiting uint64
}

// UserBuffer is the private data of a vendor's user library; the daemon copies it and does not interpret it. The last
// Files descriptors of the message belong to it.
type UserBuffer struct {
	Command     uint32
	Status      int32
	OutCapacity uint32 `max:"4096"`
	Files       uint8  `max:"8"`
	Present     bool
	Pad         uint16 `max:"0"`
	In          []byte `max:"4096"`
	Reserved    uint32
}

// UserBufferReply is the result of a UserBuffer. Out and the descriptors of the reply are valid if Copied.
type UserBufferReply struct {
	Status   int32
	Files    uint8 `max:"8"`
	Copied   bool
	Pad      uint16
	Out      []byte `max:"4096"`
	Reserved uint32
}

// ErrorReply is the body of every reply with a status other than success.
type ErrorReply struct {
	Accepted     uint32 // posts: work requests that were accepted
	VendorStatus int32  // vendor calls: VendorOp.Status
	HasMost      bool
	Pad          [3]uint8
	Most         QPCaps // with HasMost: ci.Error.Most
	Verb         string `max:"1024"`
	Detail       string `max:"1024"`
	User         UserBufferReply
}

// Event is what an event queue delivers: each read returns one, of 32 bytes.
type Event struct {
	Token    uint64
	Kind     EventKind
	Type     uint32 // EventAsync: ci.EventType
	Vendor   uint64 // EventAsync: ci.Event.Vendor
	Port     uint32 // EventAsync: ci.Event.Port
	Reserved uint32
}

// EventSize is the size of an encoded Event in bytes.
const EventSize = 32

// EventKind is the kind of an Event.
type EventKind uint32

// The kinds of events.
const (
	EventCompletion EventKind = 1 + iota // CQ: it was armed, and a completion was added
	EventAsync                           // an asynchronous event of a CA, QP, CQ or SRQ
	// EventNotice reports that an object of the services has notices, and that it had none before.
	EventNotice
)

// Append appends the encoded event. The layout is that of the structure, little-endian.
func (e *Event) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.Token)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Kind))
	b = binary.LittleEndian.AppendUint32(b, e.Type)
	b = binary.LittleEndian.AppendUint64(b, e.Vendor)
	b = binary.LittleEndian.AppendUint32(b, e.Port)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// ParseEvent returns the event in b.
func ParseEvent(b []byte) (Event, error) {
	if len(b) != EventSize {
		return Event{}, fmt.Errorf("schema: event of %d bytes, want %d", len(b), EventSize)
	}
	return Event{
		Token:  binary.LittleEndian.Uint64(b),
		Kind:   EventKind(binary.LittleEndian.Uint32(b[8:])),
		Type:   binary.LittleEndian.Uint32(b[12:]),
		Vendor: binary.LittleEndian.Uint64(b[16:]),
		Port:   binary.LittleEndian.Uint32(b[24:]),
	}, nil
}

// QueryStatus returns a part of the daemon's status, a JSON text. The part at offset 0 also takes the status; the other
// parts are of the same text.
type QueryStatus struct {
	Offset uint64
}

// QueryStatusReply contains a part of the text, and the length of the whole.
type QueryStatusReply struct {
	Total    uint64
	Text     []byte `max:"49152"`
	Reserved uint32
}
