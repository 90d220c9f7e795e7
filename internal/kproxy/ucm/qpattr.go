package ucm

import (
	"syscall"

	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
)

// initQPAttr returns the attributes with which the program moves its QP to Init, RTR or RTS.
func (f *File) initQPAttr(_ *call, q *abi.InitQPAttr, r *abi.QPAttr) error {
	to, ok := abi.QPStates[q.QPState]
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
		*r = abi.QPAttr{State: q.QPState, PathMTU: uint32(a.MTU), QKey: uint32(a.QKey), RQPSN: uint32(a.RQPSN),
			SQPSN: uint32(a.SQPSN), DestQPNum: uint32(a.DestNum), AH: abi.NewAH(&a.Primary.AV),
			PKeyIndex: a.Primary.PKeyIndex, MaxRdAtomic: a.InitDepth, MaxDestRdAtomic: a.RespRes,
			MinRNRTimer: a.MinRNRTimer, PortNum: a.Port, Timeout: uint8(a.Primary.AckTimeout), RetryCnt: a.RetryCount,
			RNRRetry: a.RNRRetry}
		if set&ci.QPFieldAlternate != 0 {
			r.AltAH, r.AltPKeyIndex = abi.NewAH(&a.Alternate.AV), a.Alternate.PKeyIndex
			r.AltPortNum, r.AltTimeout, r.PathMigState = a.Alternate.AV.Port, uint8(a.Alternate.AckTimeout), abi.Rearm
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
		for field, mask := range abi.QPMasks {
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
		return abi.RemoteWrite
	}
	return abi.RemoteWrite | abi.RemoteRead | abi.RemoteAtomic
}
