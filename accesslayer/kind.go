package accesslayer

import (
	"errors"

	"ciddk/ci"
)

// ErrClosed is in every error that comes from using an object of the access layer after its destruction began, or from creating below
// one: errors.Is(err, ErrClosed). The ci.Status beside it says which object: ci.InvalidQPHandle and so on for the object itself,
// ci.InvalidState for a parent.
var ErrClosed = errors.New("accesslayer: closed")

// kind is what a node of the object tree stands for.
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

// closed is the error of a verb on an object whose destruction has begun.
func (k kind) closed(verb string) error {
	return &ci.Error{Verb: verb, Status: kinds[k].invalid, Detail: "destroyed", Err: ErrClosed}
}

// dying is the error of creating below an object whose destruction has begun.
func (k kind) dying(verb string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the " + k.String() + " is being destroyed", Err: ErrClosed}
}

// refusesWhileUsed tells the kinds whose destroy is refused while others use them. A CQ takes its QPs with it instead, as the original
// access layer does against its own header text: its client may not know who uses it.
func (k kind) refusesWhileUsed() bool { return k == kindSRQ || k == kindMR || k == kindRDD }

// staysWhenBusy tells the kinds that remain usable if the driver refuses a synchronous destroy with ResourceBusy: a region with a
// bound window, a mapped FMR.
func (k kind) staysWhenBusy() bool {
	return k == kindMR || k == kindMW || k == kindFMR || k == kindDMA || k == kindAV
}
