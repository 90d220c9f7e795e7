package ucmabi

import "ciddk/ci"

// QPMasks are the attributes of a QP that the program changes (enum ib_qp_attr_mask), by the fields of package ci.
var QPMasks = map[ci.QPField]uint32{ci.QPFieldState: 1 << 0, ci.QPFieldAccess: 1 << 3, ci.QPFieldPKeyIndex: 1 << 4,
	ci.QPFieldPort: 1 << 5, ci.QPFieldQKey: 1 << 6, ci.QPFieldPrimary: 1 << 7, ci.QPFieldMTU: 1 << 8,
	ci.QPFieldAckTimeout: 1 << 9, ci.QPFieldRetryCount: 1 << 10, ci.QPFieldRNRRetry: 1 << 11, ci.QPFieldRQPSN: 1 << 12,
	ci.QPFieldInitDepth: 1 << 13, ci.QPFieldAlternate: 1 << 14, ci.QPFieldMinRNRTimer: 1 << 15,
	ci.QPFieldSQPSN: 1 << 16, ci.QPFieldRespRes: 1 << 17, ci.QPFieldAPM: 1 << 18, ci.QPFieldDestNum: 1 << 20}

// QPStates are the states by their numbers.
var QPStates = map[uint32]ci.QPState{1: ci.QPInit, 2: ci.QPRTR, 3: ci.QPRTS}

// Access flags.
const (
	RemoteWrite  = 1 << 1
	RemoteRead   = 1 << 2
	RemoteAtomic = 1 << 3
)

// Rearm is the path migration state of a QP with a new alternate path (IB_MIG_REARM).
const Rearm = 1

// NewAH encodes an address.
func NewAH(a *ci.AVAttr) AHAttr {
	h := AHAttr{DLID: uint16(a.DLID), SL: uint8(a.SL), SrcPathBits: a.PathBits, StaticRate: uint8(a.StaticRate),
		PortNum: a.Port}
	if a.Global {
		h.IsGlobal = 1
		h.DGID, h.FlowLabel, h.SGIDIndex = a.GRH.DGID, a.GRH.FlowLabel, uint8(a.GRH.SGIDIndex)
		h.HopLimit, h.TrafficClass = a.GRH.HopLimit, a.GRH.TrafficClass
	}
	return h
}

// AV decodes an address.
func (h *AHAttr) AV() ci.AVAttr {
	a := ci.AVAttr{Port: h.PortNum, DLID: ci.LID(h.DLID), SL: ci.SL(h.SL), PathBits: h.SrcPathBits,
		StaticRate: ci.Rate(h.StaticRate), Global: h.IsGlobal != 0}
	if a.Global {
		a.GRH = ci.GRH{DGID: h.DGID, FlowLabel: h.FlowLabel, SGIDIndex: uint16(h.SGIDIndex), HopLimit: h.HopLimit,
			TrafficClass: h.TrafficClass}
	}
	return a
}
