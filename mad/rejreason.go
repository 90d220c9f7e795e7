package mad

import "fmt"

// RejReason is the reason of a REJ (12.6.7.2, table 111).
type RejReason uint16

// Reasons of a REJ.
const (
	RejNoQP                  RejReason = 1
	RejNoEEC                 RejReason = 2
	RejNoResources           RejReason = 3
	RejTimeout               RejReason = 4
	RejUnsupported           RejReason = 5
	RejInvalidCommID         RejReason = 6
	RejInvalidCommInstance   RejReason = 7
	RejInvalidServiceID      RejReason = 8 // the service ID has no listener
	RejInvalidTransport      RejReason = 9
	RejStaleConnection       RejReason = 10
	RejNoRDC                 RejReason = 11
	RejPrimaryGID            RejReason = 12 // GID of the remote port; Info has an acceptable one
	RejPrimaryLID            RejReason = 13
	RejPrimarySL             RejReason = 14
	RejPrimaryTrafficClass   RejReason = 15
	RejPrimaryHopLimit       RejReason = 16
	RejPrimaryRate           RejReason = 17
	RejAlternateGID          RejReason = 18
	RejAlternateLID          RejReason = 19
	RejAlternateSL           RejReason = 20
	RejAlternateTrafficClass RejReason = 21
	RejAlternateHopLimit     RejReason = 22
	RejAlternateRate         RejReason = 23
	RejPortCMRedirect        RejReason = 24 // Info is a ClassPortInfo
	RejPortRedirect          RejReason = 25 // Info has a GID
	RejInvalidMTU            RejReason = 26 // Info has the largest MTU code
	RejResponderResources    RejReason = 27
	RejConsumer              RejReason = 28 // rejected by the application, which sets Info and private data
	RejRNRRetryCount         RejReason = 29
	RejDuplicateCommID       RejReason = 30
	RejClassVersion          RejReason = 31 // Info has the supported version
	RejPrimaryFlowLabel      RejReason = 32
	RejAlternateFlowLabel    RejReason = 33
	RejVendorOption          RejReason = 35 // later releases; Linux sends it
)

var rejReasons = map[RejReason]string{
	RejNoQP: "no QP", RejNoEEC: "no EE context", RejNoResources: "no resources", RejTimeout: "timeout",
	RejUnsupported: "unsupported request", RejInvalidCommID: "invalid communication ID",
	RejInvalidCommInstance: "invalid communication instance", RejInvalidServiceID: "invalid service ID",
	RejInvalidTransport: "invalid transport service type", RejStaleConnection: "stale connection",
	RejNoRDC:      "RDC does not exist",
	RejPrimaryGID: "primary remote port GID rejected", RejPrimaryLID: "primary remote port LID rejected",
	RejPrimarySL: "invalid primary SL", RejPrimaryTrafficClass: "invalid primary traffic class",
	RejPrimaryHopLimit: "invalid primary hop limit", RejPrimaryRate: "invalid primary packet rate",
	RejAlternateGID: "alternate remote port GID rejected", RejAlternateLID: "alternate remote port LID rejected",
	RejAlternateSL: "invalid alternate SL", RejAlternateTrafficClass: "invalid alternate traffic class",
	RejAlternateHopLimit: "invalid alternate hop limit", RejAlternateRate: "invalid alternate packet rate",
	RejPortCMRedirect: "port and CM redirection", RejPortRedirect: "port redirection",
	RejInvalidMTU:         "invalid path MTU",
	RejResponderResources: "insufficient responder resources", RejConsumer: "consumer reject",
	RejRNRRetryCount: "RNR retry count reject", RejDuplicateCommID: "duplicate local communication ID",
	RejClassVersion: "invalid class version", RejPrimaryFlowLabel: "invalid primary flow label",
	RejAlternateFlowLabel: "invalid alternate flow label", RejVendorOption: "vendor option not supported",
}

func (r RejReason) String() string {
	if s, ok := rejReasons[r]; ok {
		return s
	}
	return fmt.Sprintf("reject reason %d", uint16(r))
}
