package chaos

import (
	"net/netip"

	"ciddk/ci"
)

// unplugged is an address of the network without an HCA.
var unplugged = netip.MustParseAddr("10.66.0.250")

const allRights = ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.BindWindow

// gidOf returns the GID of an IP address.
func gidOf(a netip.Addr) ci.GID { return ci.GID(a.As16()) }

// connectedAttr returns attributes for all steps of a connected QP on port 1.
func connectedAttr(to ci.GID, dest ci.QPN, sq, rq ci.PSN) ci.QPAttr {
	return ci.QPAttr{Port: 1, Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic, DestNum: dest, SQPSN: sq,
		RQPSN: rq, MTU: ci.MTU1024,
		InitDepth: 4, RespRes: 4, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 1, Primary: ci.Path{AckTimeout: 17,
			AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: to, HopLimit: 64}}}}
}

// toRTS moves a QP from Reset to RTS.
func toRTS(q ci.QP, attr ci.QPAttr) error {
	for _, step := range []struct {
		to  ci.QPState
		set ci.QPField
	}{{ci.QPInit, ci.QPFieldsInit}, {ci.QPRTR, ci.QPFieldsRTR}, {ci.QPRTS, ci.QPFieldsRTS}} {
		attr.State = step.to
		if err := q.Modify(step.set, attr); err != nil {
			return err
		}
	}
	return nil
}
