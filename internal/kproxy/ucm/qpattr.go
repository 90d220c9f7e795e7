package ucm

import (
	"syscall"

	"ciddk/ci"
)

// The attributes of a QP that the program changes (enum ib_qp_attr_mask), by the fields of package ci.
var qpMasks = map[ci.QPField]uint32{ci.QPFieldState: 1 << 0, ci.QPFieldAccess: 1 << 3, ci.QPFieldPKeyIndex: 1 << 4,
	ci.QPFieldPort: 1 << 5, ci.QPFieldQKey: 1 << 6, ci.QPFieldPrimary: 1 << 7, ci.QPFieldMTU: 1 << 8,
	ci.QPFieldAckTimeout: 1 << 9, ci.QPFieldRetryCount: 1 << 10, ci.QPFieldRNRRetry: 1 << 11, ci.QPFieldRQPSN: 1 << 12,
	ci.QPFieldInitDepth: 1 << 13, ci.QPFieldAlternate: 1 << 14, ci.QPFieldMinRNRTimer: 1 << 15,
	ci.QPFieldSQPSN: 1 << 16, ci.QPFieldRespRes: 1 << 17, ci.QPFieldAPM: 1 << 18, ci.QPFieldDestNum: 1 << 20}

// The numbers of states.
var qpStates = map[uint32]ci.QPState{1: ci.QPInit, 2: ci.QPRTR, 3: ci.QPRTS}

// Access flags.
const (
	remoteWrite  = 1 << 1
	remoteRead   = 1 << 2
	remoteAtomic = 1 << 3
)

// rearm is the path migration state of a QP with a new alternate path (IB_MIG_REARM).
const rearm = 1

// initQPAttr returns the attributes with which the program moves its QP to Init, RTR or RTS.
func (f *File) initQPAttr(_ *call, q *initQPAttr, r *qpAttr) error {
	to, ok := qpStates[q.QPState]
	if !ok {
		return syscall.EINVAL
	}
	return f.placed(q.ID, func(x *id) error {
		if x.isListener() && x.typ != ci.UD {
			return syscall.EINVAL
		}
		set, a, err := x.cm.QPAttr(to)
		if err != nil {
			return err
		}
		*r = qpAttr{State: q.QPState, PathMTU: uint32(a.MTU), QKey: uint32(a.QKey), RQPSN: uint32(a.RQPSN),
			SQPSN: uint32(a.SQPSN), DestQPNum: uint32(a.DestNum), AH: newAH(&a.Primary.AV),
			PKeyIndex: a.Primary.PKeyIndex, MaxRdAtomic: a.InitDepth, MaxDestRdAtomic: a.RespRes,
			MinRNRTimer: a.MinRNRTimer, PortNum: a.Port, Timeout: uint8(a.Primary.AckTimeout), RetryCnt: a.RetryCount,
			RNRRetry: a.RNRRetry}
		if set&ci.QPFieldAlternate != 0 {
			r.AltAH, r.AltPKeyIndex = newAH(&a.Alternate.AV), a.Alternate.PKeyIndex
			r.AltPortNum, r.AltTimeout, r.PathMigState = a.Alternate.AV.Port, uint8(a.Alternate.AckTimeout), rearm
		}
		x.front.mu.Lock()
		if set&ci.QPFieldAckTimeout != 0 && x.hasAckTimeout {
			r.Timeout = uint8(x.ackTimeout)
		}
		x.front.mu.Unlock()
		if to == ci.QPInit && x.typ != ci.UD {
			set |= ci.QPFieldAccess
			r.AccessFlags = x.access()
		}
		for field, mask := range qpMasks {
			if set&field != 0 {
				r.Mask |= mask
			}
		}
		return nil
	})
}

// access returns the rights of the peer, as Linux does: none before there is a connection; reads and atomics if this
// end answers some.
func (x *id) access() uint32 {
	if x.cm.Conn() == nil {
		return 0
	}
	x.front.mu.Lock()
	reads := x.reads
	x.front.mu.Unlock()
	if r := x.cm.Request(); r != nil {
		reads = r.InitiatorDepth
	}
	if reads == 0 || x.typ != ci.RC {
		return remoteWrite
	}
	return remoteWrite | remoteRead | remoteAtomic
}

// newAH encodes an address.
func newAH(a *ci.AVAttr) ahAttr {
	h := ahAttr{DLID: uint16(a.DLID), SL: uint8(a.SL), SrcPathBits: a.PathBits, StaticRate: uint8(a.StaticRate),
		PortNum: a.Port}
	if a.Global {
		h.IsGlobal = 1
		h.DGID, h.FlowLabel, h.SGIDIndex = a.GRH.DGID, a.GRH.FlowLabel, uint8(a.GRH.SGIDIndex)
		h.HopLimit, h.TrafficClass = a.GRH.HopLimit, a.GRH.TrafficClass
	}
	return h
}
