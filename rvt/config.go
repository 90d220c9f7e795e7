package rvt

import (
	"fmt"
	"io"
	"strings"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
)

// Config describes an HCA to build on this transport: rdmavt's driver parameters, without what only C needed.
type Config struct {
	Info ci.HCAInfo
	// Attr holds limits, capabilities and identity as Query shall show them; Ports is filled in from the ports. A zero
	// limit is taken from DefaultAttr.
	Attr  ci.CAAttr
	Ports []Port // Ports[i] is port i+1
	Rings Rings
	Ops   Ops
	Clock clock.Clock // nil: the machine's
	// QueueMemory is the limit, in bytes, of what all queues of the adapter occupy together: rings of QPs, SRQs and
	// CQs, the engine's window of decoded requests at its widest, and the answers that responders keep. A create,
	// modify or resize that exceeds it fails with InsufficientResources. 0: DefaultQueueMemory.
	QueueMemory int64
	// InboxMemory is the limit, in bytes, of packets that wait for QPs whose engine is busy; one QP may hold a quarter
	// of it. Packets beyond it are dropped and counted as drop_busy. 0: DefaultInboxMemory.
	InboxMemory int64
	Rand        io.Reader // nil: crypto/rand; keys and QPNs come from it (decision 9)
	// Override wraps the engine's objects before consumers see them: every verb can be replaced or decorated, the
	// default being the embedded object. First come, first served does not arise: there is one layer.
	Override ciwrap.Layer
}

// Ops is what hardware, or whoever plays it, does for the engine beside moving packets. Nil functions are verbs that
// the HCA does not have; New checks that what Attr.Caps claims is there.
type Ops struct {
	// LocalMAD executes a management datagram on a port's agents. Needed by CapLocalMAD.
	LocalMAD func(port uint8, src *ci.AVAttr, in, out *ci.MAD) error
	// VendorCall is the private escape. Needed by CapVendorCall.
	VendorCall func(op *ci.VendorOp, objects []ci.Object) error
	// SLForIP looks up a service level. Needed by CapSLForIP.
	SLForIP func(port uint8, ipPort uint16) (ci.SL, error)
	// QPN, if not nil, names the number of a QP about to be created, in place of a random one; ResourceBusy when it is
	// taken.
	QPN func(ci.QPCreate) (ci.QPN, error)
	// Key, if not nil, names the upper 24 bits of a new key, in place of random ones.
	Key func() uint32
	// QPState, if not nil, hears of each QP's state changes, after the fact, on the goroutine that made them. It may
	// not block.
	QPState func(num ci.QPN, s ci.QPState)
	// Suspect, if not nil, is called with reports of packets that the peer of a connected QP would hardly send. Calls
	// are made one at a time, on a goroutine of the HCA. See Suspicion.
	Suspect func(Suspicion)
}

// SupportError says which operations are missing for the capabilities that a Config claims.
type SupportError struct{ Missing []string }

func (e *SupportError) Error() string {
	return "rvt: claims without the means to keep them: " + strings.Join(e.Missing, "; ")
}

// checkSupport holds claims against means (rdmavt's check_support, by name and complete).
func (c *Config) checkSupport() error {
	var missing []string
	need := func(bit ci.Caps, claim string, ok bool, means string) {
		if c.Attr.Caps.Has(bit) && !ok {
			missing = append(missing, claim+" needs "+means)
		}
	}
	if c.Rings == nil {
		missing = append(missing, "every HCA needs Config.Rings")
	}
	if len(c.Ports) == 0 || len(c.Ports) > 254 {
		missing = append(missing, "every HCA needs 1 to 254 Config.Ports")
	}
	need(ci.CapLocalMAD, "CapLocalMAD", c.Ops.LocalMAD != nil, "Ops.LocalMAD")
	need(ci.CapVendorCall, "CapVendorCall", c.Ops.VendorCall != nil, "Ops.VendorCall")
	need(ci.CapSLForIP, "CapSLForIP", c.Ops.SLForIP != nil, "Ops.SLForIP")
	for i, p := range c.Ports {
		if p == nil {
			missing = append(missing, fmt.Sprintf("port %d is nil", i+1))
			continue
		}
		if p.Attr().Link == ci.LinkEthernet {
			_, ok := p.(GroupPort)
			need(ci.CapMulticast, "CapMulticast", ok, fmt.Sprintf("a GroupPort at Ethernet port %d", i+1))
		}
	}
	if unknown := c.Attr.Caps &^ supported; unknown != 0 {
		missing = append(missing, fmt.Sprintf("capability bits %#x have no implementation here", uint64(unknown)))
	}
	if c.Attr.Caps&(ci.CapUD|ci.CapSpecialQP) != 0 && !c.Attr.Caps.Has(ci.CapAV) {
		missing = append(missing, "CapUD and CapSpecialQP need CapAV")
	}
	if missing != nil {
		return &SupportError{missing}
	}
	return nil
}

// supported are the capabilities that the engine implements, alone or with an Op.
const supported = ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapSRQ | ci.CapMW1 |
	ci.CapMW2 | ci.CapFMR | ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR | ci.CapZeroBased |
	ci.CapSendInvalidate | ci.CapResizeCQ | ci.CapModeration | ci.CapPeek | ci.CapNotifyAfter |
	ci.CapModifySRQDepth | ci.CapAPM | ci.CapChangePrimaryPort | ci.CapCurrentQPState | ci.CapAVPortCheck |
	ci.CapEventHandlers | ci.CapVendorCall | ci.CapLocalMAD | ci.CapHardwareSMA | ci.CapSLForIP |
	ci.CapShutdownPort | ci.CapInitType | ci.CapPortActiveEvent | ci.CapSystemGUID | ci.CapPKeyCounter |
	ci.CapQKeyCounter
