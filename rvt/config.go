package rvt

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
)

// Config describes an HCA. Fields without a stated default are required.
type Config struct {
	Info ci.HCAInfo
	// Attr holds limits, capabilities and identity as CA.Query returns them. Ports is ignored. The engine replaces a
	// limit of 0 by its default.
	Attr  ci.CAAttr
	Ports []Port // Ports[i] is port i+1. New takes them over: see Port
	// NodeDescription is the text that subnet management reads, at most 64 bytes.
	NodeDescription string
	Rings           Rings
	Ops             Ops
	Clock           clock.Clock // nil: the machine's
	// QueueMemory is the most bytes that all queues of the adapter may occupy together: rings of QPs, SRQs and CQs,
	// windows of decoded requests at their widest, and the answers that responders keep. A create, modify or resize
	// that exceeds it fails with InsufficientResources. 0: DefaultQueueMemory.
	QueueMemory int64
	// InboxMemory is the most bytes of packets that may wait for QPs whose engine is busy. One QP may hold a quarter of
	// it. Packets beyond the limit are dropped and counted as drop_busy. 0: DefaultInboxMemory.
	InboxMemory int64
	// CNPInterval is the least time between two congestion notifications that a QP sends because the network marks the
	// packets of its peer (ECN; IBTA annex A17, 17.9.3). 0: DefaultCNPInterval. Less than 0: none are sent.
	CNPInterval time.Duration
	Rand        io.Reader // nil: crypto/rand; the source of keys and QPNs, which peers must not guess
	// Override wraps the objects of the engine before consumers get them, so that a driver can replace or decorate each
	// verb. Only one layer is supported.
	Override ciwrap.Layer
}

// Ops are the operations that a driver executes for the engine, beside moving packets. New fails if a capability in
// Attr.Caps needs a function that is nil.
type Ops struct {
	// LocalMAD executes a management datagram on the agents of a port. CapLocalMAD requires it.
	LocalMAD func(port uint8, src *ci.AVAttr, in, out *ci.MAD) error
	// VendorCall executes an operation that is private to the vendor. CapVendorCall requires it.
	VendorCall func(op *ci.VendorOp, objects []ci.Object) error
	// OpenUser opens the driver's half of the context of a client process. CapUser requires it.
	OpenUser func(p ci.Process, ub *ci.UserBuffer) (UserContext, error)
	// SLForIP returns the service level of an IP port. CapSLForIP requires it.
	SLForIP func(port uint8, ipPort uint16) (ci.SL, error)
	// QPN, if not nil, returns the number of a QP that is being created, in place of a random one. The create fails
	// with ResourceBusy when the number is in use.
	QPN func(ci.QPCreate) (ci.QPN, error)
	// Key, if not nil, returns the upper 24 bits of a new key, in place of random ones.
	Key func() uint32
	// KeyMiss, if not nil, is called when a work request or a packet accesses memory with a key that nothing has, with
	// the token of the QP held. It may make a region with the key (RegisterNamed), and reports whether it has. It may
	// not block, and may call no other verb. A driver needs it whose regions change in tables in memory.
	KeyMiss func(key ci.Key) bool
	// QPState, if not nil, is called after each change of a QP's state, on the goroutine that made the change and with
	// the token of the QP held. It may not block.
	QPState func(num ci.QPN, s ci.QPState)
	// Received, if not nil, is called with the completion and the payload of each received datagram, with the token of
	// the QP held. It may change the completion. It may not block.
	Received func(wc *ci.WC, payload [][]byte)
	// Suspect, if not nil, is called with reports of packets that the peer of a connected QP would hardly send. Calls
	// are made one at a time, on a goroutine of the HCA, with no lock held. See Suspicion.
	Suspect func(Suspicion)
}

// A SupportError lists what is missing for the capabilities that a Config claims.
type SupportError struct{ Missing []string }

func (e *SupportError) Error() string {
	return "rvt: the Config lacks what its capabilities need: " + strings.Join(e.Missing, "; ")
}

// checkSupport returns a *SupportError if Attr.Caps claims a capability without the operation or the port that it
// needs.
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
	need(ci.CapUser, "CapUser", c.Ops.OpenUser != nil, "Ops.OpenUser")
	need(ci.CapVendorCall, "CapVendorCall", c.Ops.VendorCall != nil, "Ops.VendorCall")
	need(ci.CapSLForIP, "CapSLForIP", c.Ops.SLForIP != nil, "Ops.SLForIP")
	for i, p := range c.Ports {
		if ci.IsNil(p) {
			missing = append(missing, fmt.Sprintf("port %d is nil", i+1))
			continue
		}
		if p.Attr().Link == ci.LinkEthernet {
			_, ok := ci.As[GroupPort](p)
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
	ci.CapUser | ci.CapEventHandlers | ci.CapVendorCall | ci.CapLocalMAD | ci.CapHardwareSMA | ci.CapSLForIP |
	ci.CapShutdownPort | ci.CapInitType | ci.CapPortActiveEvent | ci.CapSystemGUID | ci.CapPKeyCounter |
	ci.CapQKeyCounter | ci.CapAtomicWrite | ci.CapFlush | ci.CapFlushPersistent
