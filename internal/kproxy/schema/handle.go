package schema

import (
	"fmt"

	"ciddk/ci"
)

// Handle identifies an object of one client: kind in bits 56 to 63, generation in bits 32 to 55, index in the low 32
// bits. Zero is no object.
type Handle uint64

// Kind is the kind of an object that a Handle names.
type Kind uint8

// The kinds. Their values are part of the protocol.
const (
	KindNone Kind = iota
	KindEventQueue
	KindCA
	KindPD
	KindAV
	KindCQ
	KindSRQ
	KindQP
	KindMcast
	KindMR
	KindMW
	KindServices
	KindAgent
	KindPort
	KindListener
	KindConn
	KindLookup
	KindLookupRequest
	NumKinds // number of kinds, KindNone included
)

// MaxGeneration is the largest generation of a handle.
const MaxGeneration = 1<<24 - 1

// MakeHandle returns the handle of an object.
func MakeHandle(k Kind, generation, index uint32) Handle {
	return Handle(k)<<56 | Handle(generation&MaxGeneration)<<32 | Handle(index)
}

// Kind returns the kind that the handle states.
func (h Handle) Kind() Kind { return Kind(h >> 56) }

// Generation returns the generation that the handle states.
func (h Handle) Generation() uint32 { return uint32(h>>32) & MaxGeneration }

// Index returns the index that the handle states.
func (h Handle) Index() uint32 { return uint32(h) }

var kindNames = [NumKinds]string{
	"none", "event queue", "ca", "pd", "av", "cq", "srq", "qp", "mcast", "mr", "mw", "services", "agent", "port",
	"listener", "connection", "lookup", "lookup request",
}

var kindStatus = [NumKinds]ci.Status{
	ci.InvalidHandle, ci.InvalidHandle, ci.InvalidCAHandle, ci.InvalidPDHandle, ci.InvalidAVHandle, ci.InvalidCQHandle,
	ci.InvalidSRQHandle, ci.InvalidQPHandle, ci.InvalidMcastHandle, ci.InvalidMRHandle, ci.InvalidMWHandle,
	ci.InvalidHandle, ci.InvalidHandle, ci.InvalidHandle, ci.InvalidHandle, ci.InvalidHandle, ci.InvalidHandle,
	ci.InvalidHandle,
}

// String returns the name of the kind.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Invalid returns the status of a verb on a handle that should have been of kind k.
func (k Kind) Invalid() ci.Status {
	if k < NumKinds {
		return kindStatus[k]
	}
	return ci.InvalidHandle
}

// KindNamed returns the kind with a name.
func KindNamed(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), true
		}
	}
	return KindNone, false
}
