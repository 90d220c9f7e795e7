package accesslayer

import (
	"errors"

	"ciddk/ci"
)

// ErrClosed is in every error that results from using an object of the access layer after its destruction began, or
// from creating an object below it. Test for it with errors.Is(err, ErrClosed). The ci.Status of the error identifies
// the object: ci.InvalidQPHandle and so on for the object itself, ci.InvalidState for the parent. For a strict client
// it is that of the parent, such as ci.InvalidPDHandle.
var ErrClosed = errors.New("accesslayer: closed")

// ErrGivenUp is in the error of a second Destroy of an object that the driver refused to destroy. Its memory may still
// be in use.
var ErrGivenUp = errors.New("accesslayer: the driver refused to destroy the object")

// kind is the type of an object in the object tree.
type kind uint8

const (
	kindAL kind = iota
	kindClient
	kindAdapter
	kindCA
	kindUserCA
	kindPD
	kindAV
	kindCQ
	kindSRQ
	kindQP
	kindMcast
	kindMR
	kindFMR
	kindMW
	kindRDD
	kindEEC
	kindDMA
	kindHandler
	kindPnP
	kindFMRPool
	kindFastRegPool
	kindPump
)

var kinds = [...]struct {
	name    string
	invalid ci.Status
}{
	kindAL:          {"AL", ci.InvalidALHandle},
	kindClient:      {"Client", ci.InvalidALHandle},
	kindAdapter:     {"Adapter", ci.InvalidCAHandle},
	kindCA:          {"CA", ci.InvalidCAHandle},
	kindUserCA:      {"UserCA", ci.InvalidCAHandle},
	kindPD:          {"PD", ci.InvalidPDHandle},
	kindAV:          {"AV", ci.InvalidAVHandle},
	kindCQ:          {"CQ", ci.InvalidCQHandle},
	kindSRQ:         {"SRQ", ci.InvalidSRQHandle},
	kindQP:          {"QP", ci.InvalidQPHandle},
	kindMcast:       {"Mcast", ci.InvalidMcastHandle},
	kindMR:          {"MR", ci.InvalidMRHandle},
	kindFMR:         {"FMR", ci.InvalidFMRHandle},
	kindMW:          {"MW", ci.InvalidMWHandle},
	kindRDD:         {"RDD", ci.InvalidHandle},
	kindEEC:         {"EEC", ci.InvalidHandle},
	kindDMA:         {"DMA", ci.InvalidHandle},
	kindHandler:     {"EventHandler", ci.InvalidHandle},
	kindPnP:         {"PnP", ci.InvalidHandle},
	kindFMRPool:     {"FMRPool", ci.InvalidHandle},
	kindFastRegPool: {"FastRegPool", ci.InvalidHandle},
	kindPump:        {"Pump", ci.InvalidHandle},
}

func (k kind) String() string { return kinds[k].name }

// closed returns the error of a verb on an object whose destruction has begun.
func (k kind) closed(verb string) error {
	return &ci.Error{Verb: verb, Status: kinds[k].invalid, Detail: "destroyed", Err: ErrClosed}
}

// parentClosed returns the error of a create below an object whose destruction has begun.
func (k kind) parentClosed(verb string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the " + k.String() +
		" is being destroyed", Err: ErrClosed}
}

// refusesWhileUsed reports whether destroying an object of the kind fails while others use it. A CQ destroys its QPs
// instead, since its client may not know which QPs use it. The original access layer did the same, against its own
// header text.
func (k kind) refusesWhileUsed() bool { return k == kindSRQ || k == kindMR || k == kindRDD }

// staysWhenBusy reports whether an object of the kind stays usable if the driver refuses a synchronous destroy with
// ResourceBusy, such as a region with a bound window or a mapped FMR.
func (k kind) staysWhenBusy() bool {
	return k == kindMR || k == kindMW || k == kindFMR || k == kindDMA || k == kindAV
}
